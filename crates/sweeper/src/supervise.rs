//! Keeps the loops alive: restarts a loop that panics. A loop should never panic, but a sweeper that silently stopped
//! sending would be noticed late. Log lines and metrics run code of the application (a tracing layer, a recorder), so a
//! panic of them is caught where it would leave work unfinished.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::sleep::pause_after;

/// Runs code that only reports, and catches its panic.
pub(crate) fn report(what: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(what)) {
        std::mem::forget(panic);
    }
}

/// Returns the text of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Runs `make`'s future in a task of its own, and again after a panic.
pub(crate) fn supervised<F>(name: &'static str, make: impl Fn() -> F + Send + 'static) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send,
{
    tokio::spawn(async move {
        let mut panics = 0;
        while let Err(panic) = AssertUnwindSafe(make()).catch_unwind().await {
            report(|| {
                tracing::error!(
                    name,
                    panic = panic_text(&*panic),
                    "a loop of the sweeper panicked; it is started again"
                );
            });
            // The panic's payload may panic again when it is dropped.
            std::mem::forget(panic);
            tokio::time::sleep(pause_after(panics)).await;
            panics += 1;
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::supervised;
    use crate::subscribed::{OnEvent, subscribed};

    async fn a_loop_is_started_again() {
        let starts = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&starts);
        let task = supervised("test", move || {
            let start = count.fetch_add(1, Ordering::SeqCst);
            async move { assert!(start == 2, "not yet") }
        });
        task.await.unwrap();
        assert_eq!(starts.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_is_started_again() {
        a_loop_is_started_again().await;
    }

    #[tokio::test(start_paused = true)]
    async fn loop_is_started_again_where_its_own_log_line_panics() {
        let _panics = subscribed(OnEvent(|_: &tracing::Event<'_>| panic!("a tracing layer")));
        a_loop_is_started_again().await;
    }
}
