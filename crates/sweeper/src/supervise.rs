//! Keeps the loops alive: one that panics is started again. They should never, but a sweeper that silently stopped
//! sending would be found out last.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::health::pause_after;
use crate::run::panic_text;

/// Runs `make`'s future on a task of its own, and again after a panic.
pub(crate) fn supervised<F>(name: &'static str, make: impl Fn() -> F + Send + 'static) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send,
{
    tokio::spawn(async move {
        let mut panics = 0;
        while let Err(panic) = AssertUnwindSafe(make()).catch_unwind().await {
            tracing::error!(name, panic = panic_text(&*panic), "a loop of the sweeper panicked; it is started again");
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

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_is_started_again() {
        let starts = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&starts);
        let task = supervised("test", move || {
            let start = count.fetch_add(1, Ordering::SeqCst);
            async move { assert!(start == 2, "not yet") }
        });
        task.await.unwrap();
        assert_eq!(starts.load(Ordering::SeqCst), 3);
    }
}
