//! [`Operator::retry`]: a notice is sent again. One that is on its last try gets one more, because a person who retries it does not mean to
//! end it.

use super::edit_preview::tries_left;
use super::operator::Operator;
use crate::definition::Policy;
use crate::error::Result;
use crate::notice::{NoticeRecord, Status};
use crate::store::RetryGroup;
use crate::store::verb::{Verb, VerbResult};

impl Operator {
    /// Sends a notice again. A dead letter or a cancelled notice becomes live with the same id and errors and all its tries,
    /// and is due now. Its fence continues, so that a late outcome of an old attempt cannot change it. A waiting
    /// notice becomes due now. If it [is on its last try](Self::is_on_last_try), it has one more after this one: a failure less counts.
    /// [`Self::reschedule`] gives no try.
    ///
    /// A notice with an ordering key takes the place of its id again: before all that wait behind it, even if later ones were
    /// sent meanwhile. A notice with a dedupe key is not changed while a live notice has the key. The call waits while another
    /// transaction that inserted the key is uncommitted.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn retry(&self, id: i64) -> Result<VerbResult> {
        let verb = match self.beyond_last(id).await? {
            Some(tries) => Verb::RetryBeyondLast { tries },
            None => Verb::Retry,
        };
        self.change(id, &verb).await
    }

    /// Returns true for a notice that waits for its retry, and becomes a dead letter if that fails as its last attempt did.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn is_on_last_try(&self, id: i64) -> Result<bool> {
        Ok(self.beyond_last(id).await?.is_some())
    }

    /// Returns how many tries must no longer count so that the notice has one more than its last; `None`: it has more, or none would help.
    async fn beyond_last(&self, id: i64) -> Result<Option<i64>> {
        let Some(notice) = self.stores().browse.find(id).await? else { return Ok(None) };
        if notice.status != Status::Failed {
            return Ok(None);
        }
        let definitions = self.outbox.engine().in_force().await?;
        let definition = definitions.iter().find(|definition| definition.row.id == notice.def_id);
        let Some(policy) = definition.and_then(|definition| definition.policy().ok()) else { return Ok(None) };
        Ok(beyond_last(&policy.within(&notice.own), &notice))
    }
}

/// Decides as the send path does.
fn beyond_last(policy: &Policy, notice: &NoticeRecord) -> Option<i64> {
    let tries = notice.failures.saturating_add(notice.crashes);
    let left = |back: i64| {
        let counted = RetryGroup {
            failures: tries - back,
            crashes: 0,
            class: notice.last_class.clone(),
            max_tries: None,
            expires_after: None,
            wait: None,
            due: false,
            count: 1,
        };
        tries_left(policy, &counted)
    };
    // Several, where the limit was lowered after they had been used.
    let is_last = left(0).is_some_and(|left| left < 2);
    let enough = |back: &i64| left(*back).is_none_or(|left| left >= 2);
    if is_last { (1..=tries).find(enough) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NotifyDef;
    use crate::notice::OwnLimits;
    use chrono::DateTime;

    #[test]
    fn tries_to_take_back_are_those_that_leave_one_more_than_the_last() {
        let def = NotifyDef::new("sync").max_retry_times(2).retry_rules(r#"{"busy": 5, "auth": "never"}"#);
        let of = |failures: i64, crashes: i64, class: &str, own: Option<i64>| {
            let mut notice = NoticeRecord::new(7, 1, Status::Failed, "1".to_owned(), DateTime::UNIX_EPOCH);
            (notice.failures, notice.crashes, notice.last_class) = (failures, crashes, Some(class.to_owned()));
            notice.own = OwnLimits::new(own, None);
            let policy = def.policy().unwrap();
            beyond_last(&policy.within(&notice.own), &notice)
        };
        assert_eq!(of(1, 0, "network", None), None, "two tries are left");
        assert_eq!(of(2, 0, "network", None), Some(1));
        assert_eq!(of(0, 2, "crash", None), Some(1));
        assert_eq!((of(3, 0, "busy", None), of(4, 0, "busy", None)), (None, Some(1)), "the rule of the class");
        assert_eq!(of(4, 0, "network", None), Some(3), "the limit was lowered");
        assert_eq!(of(2, 0, "network", Some(9)), None, "its own limit");
        assert_eq!(of(1, 0, "auth", None), None, "no number of tries would help");
    }
}
