//! [`Uncancelled`]: a future that a task of its own finishes if it is dropped half-way.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// Runs in the task that awaits it, and moves to a task of its own when it is dropped early. So work that must not be cut short
/// costs no task in the normal case. Outside a runtime it is dropped, because nothing could run it there.
pub(crate) struct Uncancelled<T>
where
    T: Send + 'static,
{
    future: Option<BoxFuture<'static, T>>,
    begun: bool,
}

impl<T: Send + 'static> Uncancelled<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Some(Box::pin(future)), begun: false }
    }
}

impl<T: Send + 'static> Future for Uncancelled<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.begun = true;
        let Some(future) = &mut self.future else { return Poll::Pending };
        let done = future.as_mut().poll(context);
        if done.is_ready() {
            self.future = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for Uncancelled<T> {
    fn drop(&mut self) {
        if let (true, Some(future), Ok(runtime)) = (self.begun, self.future.take(), Handle::try_current()) {
            runtime.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn begun_work_ends_with_and_without_a_waiting_caller() {
        for waits in [true, false] {
            let (tell, told) = oneshot::channel();
            let work = Uncancelled::new(async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                tell.send(7).unwrap();
            });
            let done = tokio::time::timeout(Duration::from_secs(if waits { 3 } else { 1 }), work).await;
            assert_eq!(done.is_ok(), waits);
            assert_eq!(told.await, Ok(7));
        }
    }

    #[tokio::test]
    async fn work_that_is_dropped_before_it_begins_never_runs() {
        let (tell, told) = oneshot::channel::<()>();
        drop(Uncancelled::new(async move { tell.send(()).unwrap() }));
        assert!(told.await.is_err());
    }
}
