//! The first-send lane, the producer's end: after a commit the ids of its notices are handed to a sweeper of this
//! process, which claims just those; nobody waits for a poll.
//!
//! The lane is a hint and may lose everything: a notice that is not handed over is simply due, and any sweeper
//! takes it. What a sweeper does with the ids is its own business.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

/// What became of the first attempt of a notice, as far as this process can tell in time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FirstAttempt {
    /// The handler delivered it (or skipped it on purpose), and that is stored.
    Succeeded,
    /// The attempt failed, for this reason; the notice is retried or has become a dead letter.
    Failed(String),
    /// No sweeper of this process sends it: none runs, none has the handler, or the transaction was not begun by
    /// `notify.begin()`. Others will.
    NotHere,
    /// It is stored and due, but its first attempt has not ended yet.
    StillDue,
    /// The notice does not exist: its transaction or savepoint was rolled back.
    RolledBack,
}

/// The promise to tell the producer of the first attempt. Dropped untold, it tells what is true then.
#[derive(Debug)]
pub struct Report {
    to: Option<oneshot::Sender<FirstAttempt>>,
    otherwise: FirstAttempt,
}

impl Report {
    /// A promise that, until [`Self::committed`], says "rolled back" when it is dropped.
    pub fn new() -> (Self, Outcome) {
        let (to, from) = oneshot::channel();
        (Self { to: Some(to), otherwise: FirstAttempt::RolledBack }, Outcome { from: Some(from) })
    }

    /// From now on a drop says "still due".
    pub fn committed(&mut self) {
        self.otherwise = FirstAttempt::StillDue;
    }

    /// True where somebody waits for it.
    pub fn is_awaited(&self) -> bool {
        self.to.as_ref().is_some_and(|to| !to.is_closed())
    }

    /// Tells the producer.
    pub fn tell(mut self, outcome: FirstAttempt) {
        self.otherwise = outcome;
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            // The producer may have stopped waiting; that is its right.
            let _ = to.send(self.otherwise.clone());
        }
    }
}

/// The producer's side of a [`Report`].
#[derive(Debug)]
pub struct Outcome {
    from: Option<oneshot::Receiver<FirstAttempt>>,
}

impl Outcome {
    /// The outcome of a notice that this process does not follow.
    pub fn not_here() -> Self {
        Self { from: None }
    }

    /// Waits for the outcome, at most `limit`.
    pub async fn wait(self, limit: Duration) -> FirstAttempt {
        let Some(from) = self.from else { return FirstAttempt::NotHere };
        match tokio::time::timeout(limit, from).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) | Err(_) => FirstAttempt::StillDue,
        }
    }
}

/// A notice that was just added and shall be sent at once.
#[derive(Debug)]
pub struct Fresh {
    /// Its id.
    pub id: i64,
    /// The id of its definition.
    pub def_id: i64,
    /// Whom to tell of the first attempt.
    pub report: Report,
}

/// A sweeper's wish for fresh notices.
struct Subscriber {
    accepts: Box<dyn Fn(i64) -> bool + Send + Sync>,
    to: mpsc::Sender<Vec<Fresh>>,
}

/// Where committed notices are handed to the sweepers of this process.
#[derive(Default)]
pub struct Lane {
    subscribers: Mutex<Vec<Subscriber>>,
}

impl Lane {
    /// Asks for fresh notices of the definitions that `accepts` answers true for. At most `capacity` commits wait.
    pub fn subscribe(
        &self,
        capacity: usize,
        accepts: impl Fn(i64) -> bool + Send + Sync + 'static,
    ) -> mpsc::Receiver<Vec<Fresh>> {
        let (to, from) = mpsc::channel(capacity);
        self.lock().push(Subscriber { accepts: Box::new(accepts), to });
        from
    }

    /// Hands over what a commit made due. Never waits: where the queue is full the notices stay due.
    pub fn hand(&self, fresh: Vec<Fresh>) {
        let mut subscribers = self.lock();
        subscribers.retain(|subscriber| !subscriber.to.is_closed());
        let mut rest = fresh;
        for subscriber in subscribers.iter() {
            let (wanted, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|fresh| (subscriber.accepts)(fresh.def_id));
            rest = others;
            if !wanted.is_empty() {
                // A full queue drops the reports, which then say "still due": the truth.
                let _ = subscriber.to.try_send(wanted);
            }
        }
        for fresh in rest {
            fresh.report.tell(FirstAttempt::NotHere);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Subscriber>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(id: i64, def_id: i64) -> (Fresh, Outcome) {
        let (mut report, outcome) = Report::new();
        report.committed();
        (Fresh { id, def_id, report }, outcome)
    }

    #[tokio::test]
    async fn each_notice_goes_to_a_sweeper_that_accepts_it() {
        let lane = Lane::default();
        let mut one = lane.subscribe(4, |def_id| def_id == 1);
        let mut two = lane.subscribe(4, |def_id| def_id == 2);
        let ((a, _oa), (b, _ob), (c, oc)) = (fresh(10, 1), fresh(20, 2), fresh(30, 3));
        lane.hand(vec![a, b, c]);
        assert_eq!(one.try_recv().unwrap()[0].id, 10);
        assert_eq!(two.try_recv().unwrap()[0].id, 20);
        assert_eq!(oc.wait(Duration::ZERO).await, FirstAttempt::NotHere);
    }

    #[tokio::test]
    async fn a_full_queue_leaves_the_notice_due() {
        let lane = Lane::default();
        let _receiver = lane.subscribe(1, |_| true);
        let ((a, _oa), (b, ob)) = (fresh(1, 1), fresh(2, 1));
        lane.hand(vec![a]);
        lane.hand(vec![b]);
        assert_eq!(ob.wait(Duration::ZERO).await, FirstAttempt::StillDue);
    }

    #[tokio::test]
    async fn a_report_dropped_before_the_commit_says_rolled_back() {
        let (report, outcome) = Report::new();
        drop(report);
        assert_eq!(outcome.wait(Duration::ZERO).await, FirstAttempt::RolledBack);
    }
}
