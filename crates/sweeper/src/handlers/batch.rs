//! Batch handlers: one call sends several notices and returns a result for each.
//!
//! A batch gathers attempts that are already running, each with its own claim, time-out and outcome. So claiming and settling know
//! nothing of batches, and one bad notice fails alone.
//!
//! That holds for a bad notice that makes the whole call fail, too: the call is repeated in halves, within the same attempts, until the
//! bad one is alone. A call that hangs leaves no time for that. A notice whose latest attempt timed out or crashed is therefore sent
//! alone.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use solid_notify_core::ErrorClass;
use solid_notify_core::error::BoxError;
use solid_notify_core::notice::last_record;
use tokio::sync::oneshot;

use super::erased::{AnyHandler, read};
use super::failure::AfterFailure;
use super::handler::{Facts, Failure, HandlerResult, Notice};
use super::under_way::{Call, UnderWay};
use crate::supervise::panic_text;

/// The result of a batch handler: a result for each notice, in the order in which it got them. An error says nothing of the single
/// notices: the sweeper calls the handler again with each half of them, and so on, until only those fail that fail alone. Only
/// [`Failure::retry_in`], [`Failure::pause`] and [`Failure::skip`] hold for each notice at once.
pub type BatchResult = Result<Vec<HandlerResult>, Failure>;

/// The size of a batch, and how long its first notice waits for others.
///
/// ```
/// # use std::time::Duration;
/// use solid_notify_sweeper::Batch;
///
/// let batch = Batch::up_to(100).wait(Duration::from_millis(20));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    most: usize,
    wait: Duration,
}

impl Batch {
    /// Up to this many notices (zero counts as one). The first one waits 5 ms for others.
    pub const fn up_to(most: usize) -> Self {
        Self { most: if most == 0 { 1 } else { most }, wait: Duration::from_millis(5) }
    }

    /// Sets how long the first notice of a batch waits for others. It is part of the time that `timeout` limits.
    #[must_use]
    pub const fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }
}

/// A batch handler as an [`AnyHandler`].
pub(crate) struct Batching<T, F> {
    call: F,
    batch: Batch,
    gathering: Mutex<Gathering<T>>,
    under_way: UnderWay,
}

struct Gathering<T> {
    attempts: Vec<Attempt<T>>,
    /// The number of batches that began before this one, so that a timer ends only its own batch.
    number: u64,
}

/// An attempt that waits for its result.
struct Attempt<T> {
    notice: Notice<T>,
    result: oneshot::Sender<HandlerResult>,
}

impl<T, F, Fut> Batching<T, F>
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(Vec<Notice<T>>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = BatchResult> + Send + 'static,
{
    pub(crate) fn new(batch: Batch, call: F) -> Self {
        Self {
            call,
            batch,
            gathering: Mutex::new(Gathering { attempts: Vec::new(), number: 0 }),
            under_way: UnderWay::default(),
        }
    }

    /// Adds an attempt to the batch that is being gathered, and runs a full batch.
    fn add(self: &Arc<Self>, attempt: Attempt<T>) {
        let mut gathering = self.gathering.lock();
        gathering.attempts.push(attempt);
        match gathering.attempts.len() {
            full if full >= self.batch.most => drop(tokio::spawn(Arc::clone(self).run(gathering.take()))),
            1 => {
                let (batching, number) = (Arc::clone(self), gathering.number);
                tokio::spawn(async move {
                    tokio::time::sleep(batching.batch.wait).await;
                    let attempts = {
                        let mut gathering = batching.gathering.lock();
                        if gathering.number == number { gathering.take() } else { Vec::new() }
                    };
                    batching.run(attempts).await;
                });
            }
            _ => {}
        }
    }

    /// Calls the handler and hands each attempt its result. Repeats a call that failed as a whole in halves.
    fn run(self: Arc<Self>, mut attempts: Vec<Attempt<T>>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // An attempt that ended meanwhile, by its time-out or a shutdown, must not be sent.
            attempts.retain(|attempt| !attempt.result.is_closed());
            if attempts.is_empty() {
                return;
            }
            let facts: Vec<_> = attempts.iter().map(|attempt| Arc::clone(&attempt.notice.facts)).collect();
            let (notices, mut results): (Vec<_>, Vec<_>) =
                attempts.into_iter().map(|attempt| (attempt.notice, attempt.result)).unzip();
            let call = async {
                let _under_way = self.under_way.begin(&facts);
                (self.call)(notices).await
            };
            let returned = tokio::select! {
                biased;
                returned = AssertUnwindSafe(call).catch_unwind() => returned,
                // Nothing waits for it any more: it is cancelled as a single handler would be.
                () = all_closed(&mut results) => return,
            };
            let whole = match returned {
                Ok(Ok(returned)) if returned.len() == results.len() => return send(results, returned),
                Ok(Ok(returned)) => {
                    let wrong =
                        format!("the batch handler returned {} results for {} notices", returned.len(), results.len());
                    Failure::retry(wrong)
                }
                Ok(Err(failure)) => failure,
                Err(panic) => {
                    let message = format!("the batch handler panicked: {}", panic_text(&*panic));
                    // The panic's payload may panic again when it is dropped.
                    std::mem::forget(panic);
                    Failure::retry(message)
                }
            };
            let count = results.len();
            if count == 1 || !matches!(whole.next, AfterFailure::Retry | AfterFailure::GiveUp) {
                return send(results, whole.for_each(count));
            }
            let mut first: Vec<_> = facts.into_iter().zip(results).collect();
            let second = first.split_off(count.div_ceil(2));
            let again = async |half| Arc::clone(&self).run(read_again(half).await).await;
            tokio::join!(again(first), again(second));
        })
    }
}

/// Hands each attempt its result. One that ended meanwhile has an outcome already.
fn send(results: Vec<oneshot::Sender<HandlerResult>>, returned: Vec<HandlerResult>) {
    for (result, returned) in results.into_iter().zip(returned) {
        let _ = result.send(returned);
    }
}

/// Reads the parameters once more: the handler took them.
async fn read_again<T>(attempts: Vec<(Arc<Facts>, oneshot::Sender<HandlerResult>)>) -> Vec<Attempt<T>>
where
    T: DeserializeOwned + Send + 'static,
{
    let mut readable = Vec::with_capacity(attempts.len());
    for (facts, result) in attempts {
        match read::<T>(&facts).await {
            Ok(param) => readable.push(Attempt { notice: Notice { param, facts }, result }),
            Err(unreadable) => drop(result.send(Err(Failure::retry(unreadable).class(ErrorClass::Invalid)))),
        }
    }
    readable
}

impl<T> Gathering<T> {
    /// Ends the batch and begins the next one.
    fn take(&mut self) -> Vec<Attempt<T>> {
        self.number += 1;
        std::mem::take(&mut self.attempts)
    }
}

async fn all_closed(results: &mut [oneshot::Sender<HandlerResult>]) {
    for result in results {
        result.closed().await;
    }
}

impl<T, F, Fut> AnyHandler for Batching<T, F>
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(Vec<Notice<T>>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = BatchResult> + Send + 'static,
{
    fn call(self: Arc<Self>, facts: Arc<Facts>) -> BoxFuture<'static, Result<HandlerResult, String>> {
        Box::pin(async move {
            let param = read::<T>(&facts).await?;
            let (result, returned) = oneshot::channel();
            let alone = is_suspect(&facts);
            let attempt = Attempt { notice: Notice { param, facts }, result };
            match alone {
                true => drop(tokio::spawn(Arc::clone(&self).run(vec![attempt]))),
                false => self.add(attempt),
            }
            let lost = || Failure::retry("the batch ended without a result, because the process is shutting down");
            Ok(returned.await.unwrap_or_else(|_| Err(lost())))
        })
    }

    fn own_calls(&self) -> Vec<Call> {
        self.under_way.calls()
    }

    fn check(&self, _: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    fn check_recipients(&self, _: &[String], _: &[String]) -> Result<(), String> {
        Ok(())
    }
}

/// True where the latest attempt timed out or its process died: whatever was sent with this notice may have done the same.
fn is_suspect(facts: &Facts) -> bool {
    let latest = last_record(facts.claimed.errors.as_deref());
    latest.is_some_and(|latest| {
        [ErrorClass::Timeout, ErrorClass::Crash].iter().any(|suspect| latest.class == suspect.as_str())
    })
}

/// An error that several notices have in common. Its source is the error itself, which decides the class.
#[derive(Debug, Clone)]
struct Common(Arc<BoxError>);

impl fmt::Display for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Common {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&**self.0)
    }
}

impl Failure {
    /// Returns the failure once for each of `count` notices.
    fn for_each(self, count: usize) -> Vec<HandlerResult> {
        let Self { next, error, error_type, free_of_values } = self;
        let common = Common(Arc::new(error));
        (0..count).map(|_| Err(Self { next, error: Box::new(common.clone()), error_type, free_of_values })).collect()
    }
}
