//! The dispatch, producer's end. Adding a notice returns a [`Receipt`]. After the commit, the ids of its notices are handed to a
//! sweeper of this process, which claims them without waiting for the next sweep.
//!
//! The dispatch is a hint and may lose ids: a notice that is not handed over is simply due, and any sweeper claims it. What a
//! sweeper does with the ids is left to the sweeper.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

/// Result of adding a notice. It is valid once the transaction has committed.
#[derive(Debug)]
pub struct Receipt {
    id: i64,
    added: Option<FirstAttemptReceiver>,
}

impl Receipt {
    /// Creates the receipt of an added notice.
    #[doc(hidden)]
    pub fn added(id: i64, first_attempt: FirstAttemptReceiver) -> Self {
        Self { id, added: Some(first_attempt) }
    }

    /// Creates the receipt of a notice that was not added, because the notice `id` has its dedupe key.
    #[doc(hidden)]
    pub fn duplicate(id: i64) -> Self {
        Self { id, added: None }
    }

    /// Returns the id of the added notice, which the handler and every table show. For a duplicate it is the id of the notice
    /// that has the dedupe key.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns true if nothing was added, because another notice has the dedupe key.
    pub fn is_duplicate(&self) -> bool {
        self.added.is_none()
    }

    /// Waits until the first attempt has ended and its result is stored, at most `limit`. Call it after the commit; before the
    /// commit it waits for the whole `limit`.
    pub async fn first_attempt(self, limit: Duration) -> FirstAttempt {
        match self.added {
            Some(first_attempt) => first_attempt.wait(limit).await,
            None => FirstAttempt::Duplicate,
        }
    }
}

/// Result of a notice's first attempt, as far as this process knows it in time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FirstAttempt {
    /// The handler delivered it (or skipped it on purpose), and that is stored.
    Succeeded,
    /// It was passed on to the targets of its definition. The text is that of its record: which targets have got it, and which of them kept
    /// an earlier notice of its dedupe key.
    PassedOn(String),
    /// The attempt failed, for this reason; the notice is retried or has become a dead letter.
    Failed(String),
    /// No sweeper of this process sends it: none runs, none has the handler, or the transaction was not begun by
    /// `outbox.begin()`. Sweepers of other processes send it. Also if it was added as skipped.
    NotHere,
    /// It is stored and due, but its first attempt has not ended yet. Also where nothing is kept of it
    /// (`keep_history = none`), and a sweep has sent it before this process looked for it.
    StillDue,
    /// Nothing was added, because another notice has the dedupe key.
    Duplicate,
    /// The notice does not exist: its transaction or savepoint was rolled back.
    RolledBack,
}

/// The sender that reports the first attempt to the producer. If it is dropped unused, it reports the state known at that time.
#[derive(Debug)]
pub struct FirstAttemptSender {
    to: Option<oneshot::Sender<FirstAttempt>>,
    otherwise: FirstAttempt,
}

impl FirstAttemptSender {
    /// Creates a report that says "rolled back" if it is dropped before [`Self::committed`].
    pub fn new() -> (Self, FirstAttemptReceiver) {
        let (to, from) = oneshot::channel();
        (Self { to: Some(to), otherwise: FirstAttempt::RolledBack }, FirstAttemptReceiver { from: Some(from) })
    }

    /// Makes a drop report "still due".
    pub fn committed(&mut self) {
        self.otherwise = FirstAttempt::StillDue;
    }

    /// Returns true if the producer waits for it.
    pub fn is_awaited(&self) -> bool {
        self.to.as_ref().is_some_and(|to| !to.is_closed())
    }

    /// Reports the result to the producer.
    pub fn tell(mut self, result: FirstAttempt) {
        self.otherwise = result;
    }
}

impl Drop for FirstAttemptSender {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            // The send fails if the producer has stopped waiting, which is no error.
            let _ = to.send(self.otherwise.clone());
        }
    }
}

/// The producer's side of a [`FirstAttemptSender`].
#[derive(Debug)]
pub struct FirstAttemptReceiver {
    from: Option<oneshot::Receiver<FirstAttempt>>,
}

impl FirstAttemptReceiver {
    /// Creates the result of a notice that this process does not follow.
    pub fn not_here() -> Self {
        Self { from: None }
    }

    /// Waits for the result, at most `limit`.
    pub async fn wait(self, limit: Duration) -> FirstAttempt {
        let Some(from) = self.from else { return FirstAttempt::NotHere };
        match tokio::time::timeout(limit, from).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => FirstAttempt::StillDue,
        }
    }
}

/// A notice that was just committed and is due at once.
#[derive(Debug)]
pub struct Fresh {
    /// Its id.
    pub id: i64,
    /// The id of its definition.
    pub def_id: i64,
    /// Reports the first attempt to the producer.
    pub report: FirstAttemptSender,
}

/// A sweeper that wants fresh notices.
struct Subscriber {
    accepts: Box<dyn Fn(i64) -> bool + Send + Sync>,
    to: mpsc::Sender<Vec<Fresh>>,
}

/// The dispatch: hands committed notices to the sweepers of this process.
#[derive(Default)]
pub struct Dispatch {
    subscribers: Mutex<Vec<Subscriber>>,
}

impl Dispatch {
    /// Subscribes to fresh notices of the definitions for which `accepts` returns true. At most `capacity` commits are queued.
    pub fn subscribe(
        &self,
        capacity: usize,
        accepts: impl Fn(i64) -> bool + Send + Sync + 'static,
    ) -> mpsc::Receiver<Vec<Fresh>> {
        let (to, from) = mpsc::channel(capacity);
        self.subscribers.lock().push(Subscriber { accepts: Box::new(accepts), to });
        from
    }

    /// Hands over the notices that a commit made due. Never waits: if the queue is full the notices stay due.
    pub fn hand(&self, fresh: Vec<Fresh>) {
        let mut subscribers = self.subscribers.lock();
        subscribers.retain(|subscriber| !subscriber.to.is_closed());
        let mut rest = fresh;
        for subscriber in subscribers.iter() {
            let (wanted, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|fresh| (subscriber.accepts)(fresh.def_id));
            rest = others;
            if !wanted.is_empty() {
                // A full queue drops the reports, which then correctly say "still due".
                let _ = subscriber.to.try_send(wanted);
            }
        }
        for fresh in rest {
            fresh.report.tell(FirstAttempt::NotHere);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(id: i64, def_id: i64) -> (Fresh, FirstAttemptReceiver) {
        let (mut report, result) = FirstAttemptSender::new();
        report.committed();
        (Fresh { id, def_id, report }, result)
    }

    #[tokio::test]
    async fn each_notice_goes_to_a_sweeper_that_accepts_it() {
        let dispatch = Dispatch::default();
        let mut one = dispatch.subscribe(4, |def_id| def_id == 1);
        let mut two = dispatch.subscribe(4, |def_id| def_id == 2);
        let ((a, _oa), (b, _ob), (c, oc)) = (fresh(10, 1), fresh(20, 2), fresh(30, 3));
        dispatch.hand(vec![a, b, c]);
        assert_eq!(one.try_recv().unwrap()[0].id, 10);
        assert_eq!(two.try_recv().unwrap()[0].id, 20);
        assert_eq!(oc.wait(Duration::ZERO).await, FirstAttempt::NotHere);
    }

    #[tokio::test]
    async fn a_full_queue_leaves_the_notice_due() {
        let dispatch = Dispatch::default();
        let _receiver = dispatch.subscribe(1, |_| true);
        let ((a, _oa), (b, ob)) = (fresh(1, 1), fresh(2, 1));
        dispatch.hand(vec![a]);
        dispatch.hand(vec![b]);
        assert_eq!(ob.wait(Duration::ZERO).await, FirstAttempt::StillDue);
    }

    #[tokio::test]
    async fn a_report_dropped_before_the_commit_says_rolled_back() {
        let (report, result) = FirstAttemptSender::new();
        drop(report);
        assert_eq!(result.wait(Duration::ZERO).await, FirstAttempt::RolledBack);
    }
}
