//! Tells the runners of this process that a task may be due earlier than they know. Other processes are not reached: a runner also
//! looks by itself.

use std::sync::Arc;

use chrono::Utc;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;

use crate::model::When;

/// Kind and time of tasks that have been added or moved, shared by all clones of a handle.
#[derive(Debug, Clone)]
pub(crate) struct News(broadcast::Sender<(Arc<str>, Instant)>);

/// Hears the news of one kind.
pub(crate) struct Listener {
    kind: Arc<str>,
    news: broadcast::Receiver<(Arc<str>, Instant)>,
}

impl News {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(256))
    }

    /// Tells that a task is due at this time. A wrong clock of this process delays it, and loses nothing.
    pub(crate) fn tell(&self, kind: &str, when: When) {
        if self.0.receiver_count() == 0 {
            return;
        }
        let delay = match when {
            When::After(delay) => delay,
            When::At(time) => (time - Utc::now()).to_std().unwrap_or_default(),
        };
        if let Some(at) = Instant::now().checked_add(delay) {
            // An error says that the last listener has gone.
            let _ = self.0.send((kind.into(), at));
        }
    }

    pub(crate) fn listen(&self, kind: &Arc<str>) -> Listener {
        Listener { kind: Arc::clone(kind), news: self.0.subscribe() }
    }
}

impl Listener {
    /// Waits for the next news and returns when a task is due.
    pub(crate) async fn next(&mut self) -> Instant {
        loop {
            match self.news.recv().await {
                Ok((kind, at)) if kind == self.kind => return at,
                Ok(_) => {}
                // Some were lost; they may have been about this kind.
                Err(RecvError::Lagged(_)) => return Instant::now(),
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
