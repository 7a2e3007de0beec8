//! A subscriber of the log for the thread of one test.

use std::sync::LazyLock;

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Subscriber};

/// A process with one subscriber asks only the thread that writes a log line first whether anybody reads it. The thread of another test
/// has no subscriber, and the line would be off for all. So there are always two.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// The subscriber gets what this thread writes as long as the guard lives.
pub(crate) fn subscribed(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    LazyLock::force(&ANOTHER);
    tracing::subscriber::set_default(subscriber)
}
