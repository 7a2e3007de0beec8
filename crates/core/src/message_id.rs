//! Since which attempt a message is the same one for a broker that drops messages whose id it has seen.
//!
//! The id itself is made by the channel of such a broker, because it also depends on the content of the message.

use crate::notice::{AttemptRecord, ClaimedNotice, ErrorClass};

/// Returns the fence of the first of the attempts whose message may be the one of this attempt: those directly before this one that
/// failed on this side, such as by a time-out, a lost connection or a crash. The broker may have stored the message of each of
/// them. The message of a later attempt with the same number may be dropped by the broker.
///
/// A missing ack, a nack, and a retry of an operator begin a new message, because they ask for another delivery. The retry of a dead letter
/// takes its tries back. The retry of a notice that waits marks the attempt after which it waits, because its tries stay.
/// Where the record of an attempt is missing, a copy may be stored: of a claim that was handed back before anything failed, and of more
/// attempts than the list of errors keeps.
pub fn same_message_since(claimed: &ClaimedNotice) -> i64 {
    let Some(errors) = claimed.errors.as_deref().filter(|_| claimed.tries() > 0) else { return claimed.fence };
    let records: Vec<AttemptRecord> = serde_json::from_str(errors).unwrap_or_default();
    let tries = usize::try_from(claimed.tries()).unwrap_or_default();
    let unacked = ErrorClass::Unacked.as_str();
    let failed_here = records.iter().rev().take(tries).take_while(|record| record.class != unacked && !record.retried);
    failed_here.last().map_or(claimed.fence, |record| record.fence)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::notice::{NoticeRecord, Status, append_attempt};

    /// Returns the number for a claim after these attempts, and these tries.
    fn since(attempts: &[(i64, ErrorClass)], fence: i64, tries: i64) -> i64 {
        let mut claimed = ClaimedNotice::new(7, 1, Status::Sending, "1".to_owned(), DateTime::UNIX_EPOCH);
        for (fence, class) in attempts {
            claimed.fence = *fence;
            let record = AttemptRecord::new(&claimed, std::time::Duration::ZERO, *class, "");
            claimed.errors = Some(append_attempt(claimed.errors.as_deref(), record));
        }
        (claimed.fence, claimed.failures) = (fence, tries);
        same_message_since(&claimed)
    }

    #[test]
    fn message_is_the_same_after_failures_on_this_side() {
        use ErrorClass::{Crash, Network, Timeout};
        assert_eq!(since(&[], 1, 0), 1);
        assert_eq!(since(&[(1, Timeout)], 2, 1), 1);
        assert_eq!(since(&[(1, Crash), (2, Timeout), (3, Network)], 4, 3), 1);
        assert_eq!(since(&[(1, Timeout)], 4, 1), 1, "claims that were handed back lie between");
    }

    #[test]
    fn message_is_new_after_a_nack_or_a_missing_ack() {
        use ErrorClass::{Timeout, Unacked};
        assert_eq!(since(&[(1, Unacked)], 2, 1), 2);
        assert_eq!(since(&[(1, Timeout), (2, Unacked)], 3, 2), 3);
        assert_eq!(since(&[(1, Timeout), (2, Unacked), (3, Timeout)], 4, 3), 3, "as the attempt before it");
    }

    #[test]
    fn message_is_new_after_an_operator_has_taken_tries_back() {
        use ErrorClass::Timeout;
        assert_eq!(since(&[(1, Timeout), (2, Timeout)], 3, 0), 3, "a dead letter that is retried");
        assert_eq!(since(&[(1, Timeout), (2, Timeout), (3, Timeout)], 4, 1), 3, "as the attempt before it");
    }

    #[test]
    fn message_is_new_after_an_operator_has_retried_a_notice_that_waits() {
        use crate::store::verb::{Verb, errors_of_retry};
        let mut claimed = ClaimedNotice::new(7, 1, Status::Sending, "1".to_owned(), DateTime::UNIX_EPOCH);
        let mut attempt = |is_retried: bool| {
            claimed.fence += 1;
            let since = same_message_since(&claimed);
            let record = AttemptRecord::new(&claimed, std::time::Duration::ZERO, ErrorClass::Timeout, "");
            let errors = append_attempt(claimed.errors.as_deref(), record);
            claimed.failures += 1;
            let mut waiting = NoticeRecord::new(7, 1, Status::Failed, "1".to_owned(), DateTime::UNIX_EPOCH);
            waiting.errors = serde_json::from_str(&errors).unwrap();
            let marked = if is_retried { errors_of_retry(&waiting, &Verb::Retry) } else { None };
            claimed.errors = Some(marked.unwrap_or(errors));
            since
        };
        assert_eq!([attempt(false), attempt(true)], [1, 1]);
        assert_eq!([attempt(false), attempt(true), attempt(false)], [3, 3, 5]);
    }

    #[test]
    fn message_is_new_where_the_list_of_errors_was_damaged() {
        let mut claimed = ClaimedNotice::new(7, 1, Status::Sending, "1".to_owned(), DateTime::UNIX_EPOCH);
        (claimed.fence, claimed.failures, claimed.errors) = (5, 2, Some("[{".to_owned()));
        assert_eq!(same_message_since(&claimed), 5);
    }
}
