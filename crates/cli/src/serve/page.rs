//! [`Page`]: the page of metrics, which all clients share for a second. Its length is that of all series of all databases, so a client that asks again
//! and again, and reads nothing, must cost neither the thread of HTTP nor memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// How old a page may be.
const FRESH: Duration = Duration::from_secs(1);

/// The latest page.
#[derive(Clone, Default)]
pub(super) struct Page(Arc<Mutex<Option<(Instant, Bytes)>>>);

impl Page {
    /// Returns the page, which `render` makes on a thread that may block, unless there is one. `None`: it panicked.
    pub(super) async fn get(&self, render: impl FnOnce() -> Bytes + Send + 'static) -> Option<Bytes> {
        // Those that come meanwhile wait for this one.
        let mut latest = self.0.lock().await;
        if let Some((_, page)) = latest.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Some(page.clone());
        }
        let page = spawn_blocking(render).await.ok()?;
        *latest = Some((Instant::now(), page.clone()));
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn page_is_rendered_once_for_all_that_ask_within_a_second() {
        let (page, rendered) = (Page::default(), Arc::new(AtomicUsize::new(0)));
        let get = async || {
            let counter = Arc::clone(&rendered);
            page.get(move || format!("{}", counter.fetch_add(1, Ordering::Relaxed)).into()).await.unwrap()
        };
        for second in 0..3 {
            let pages = join_all((0..100).map(|_| get())).await;
            assert!(pages.iter().all(|page| *page == second.to_string()), "{pages:?}");
            tokio::time::advance(FRESH).await;
        }
        assert_eq!(rendered.load(Ordering::Relaxed), 3);
    }
}
