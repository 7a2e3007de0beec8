//! [`Blocking`]: calls that may block a thread for long, such as the opening of a file on a dead network mount, or much computing. Each definition
//! has a few at a time, so that one whose calls hang leaves the threads to the others. All that compute have half of the processors.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, LazyLock, Weak};
use std::thread::available_parallelism;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How many calls of a definition that wait for files and names run at the same time. The runtime has 512 threads for all of them.
const WAITING: usize = 4;
/// How many that compute.
const COMPUTING: usize = 1;
/// How long a call that computes has the place of a processor, before another definition gets it. The call itself cannot be stopped, and goes on beside
/// that one, one of its definition at a time.
const TURN: Duration = Duration::from_millis(100);
/// How many more wait for that, of those that can come again later.
const IN_LINE: usize = 3;

/// The places of all calls of the process that compute. A definition waits for one at a time, so they get them in turn.
static PROCESSORS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let half = available_parallelism().map_or(1, usize::from) / 2;
    Arc::new(Semaphore::new(half.max(1)))
});

/// The blocking calls of a store's engine, of one kind.
pub struct Blocking {
    of_a_definition: usize,
    places: Mutex<HashMap<String, Weak<Semaphore>>>,
    /// The places of all definitions; `None`: as many as they want.
    of_all: Option<Arc<Semaphore>>,
}

impl Blocking {
    /// Returns the calls that wait.
    pub fn waiting() -> Self {
        Self { of_a_definition: WAITING, places: Mutex::default(), of_all: None }
    }

    /// Returns the calls that compute.
    pub fn computing() -> Self {
        Self::computing_on(Arc::clone(&PROCESSORS))
    }

    fn computing_on(processors: Arc<Semaphore>) -> Self {
        Self { of_a_definition: COMPUTING, places: Mutex::default(), of_all: Some(processors) }
    }

    /// Runs `work` on a thread that may block, when there is a place for a call of this definition. A caller that stops waiting leaves a call that has
    /// begun, and its place, to its end.
    ///
    /// # Errors
    /// Those of `work`.
    pub async fn run<T: Send + 'static>(
        &self,
        definition: &str,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.run_at(self.places(definition), work).await
    }

    /// As [`Self::run`], if few calls of this definition wait for a place. `None`: it would take long, and the caller can come again later.
    pub async fn run_soon<T: Send + 'static>(
        &self,
        definition: &str,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Option<io::Result<T>> {
        let places = self.places(definition);
        // Each call has one of them, from its beginning to its end.
        if Arc::strong_count(&places) > self.of_a_definition + IN_LINE {
            return None;
        }
        Some(self.run_at(places, work).await)
    }

    async fn run_at<T: Send + 'static>(
        &self,
        places: Arc<Semaphore>,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let place = places.acquire_owned().await.map_err(io::Error::other)?;
        let of_all = match &self.of_all {
            Some(of_all) => Some(Arc::clone(of_all).acquire_owned().await.map_err(io::Error::other)?),
            None => None,
        };
        let turn = of_all.map(|place| Arc::new(Mutex::new(Some(place))));
        if let Some(turn) = turn.as_ref().map(Arc::downgrade) {
            tokio::spawn(async move {
                tokio::time::sleep(TURN).await;
                if let Some(turn) = turn.upgrade() {
                    turn.lock().take();
                }
            });
        }
        let call = move || {
            let _places = (place, turn);
            work()
        };
        spawn_blocking(call).await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    fn places(&self, definition: &str) -> Arc<Semaphore> {
        let mut places = self.places.lock();
        if let Some(known) = places.get(definition).and_then(Weak::upgrade) {
            return known;
        }
        places.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.of_a_definition));
        places.insert(definition.to_owned(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn hanging_calls_of_a_definition_leave_threads_to_the_others() {
        let blocking = Arc::new(Blocking::waiting());
        let (begun, begins): (Sender<()>, Receiver<()>) = channel();
        let (end, ends) = channel::<()>();
        let ends = Arc::new(std::sync::Mutex::new(ends));
        let mut calls = Vec::new();
        for _ in 0..2 * WAITING {
            let (blocking, begun, ends) = (Arc::clone(&blocking), begun.clone(), Arc::clone(&ends));
            calls.push(tokio::spawn(async move {
                let hang = move || {
                    begun.send(()).map_err(io::Error::other)?;
                    // Ends when the sender is dropped.
                    let _ = ends.lock().map(|ends| ends.recv());
                    Ok(())
                };
                blocking.run("hangs", hang).await
            }));
        }
        // Another definition is served, however many calls hang.
        for _ in 0..20 {
            assert_eq!(blocking.run("other", || Ok(7)).await.unwrap(), 7);
        }
        // A caller that gives up does not free the place of its call.
        calls[0].abort();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(begins.try_iter().count() <= WAITING);
        drop(end);
        for call in calls.drain(1..) {
            call.await.unwrap().unwrap();
        }
    }

    /// Starts calls that note their definition when they begin. The first one runs until its end is sent, and notes that.
    async fn calls(
        blocking: &Arc<Blocking>,
        definitions: &[&'static str],
    ) -> (Sender<()>, Arc<Mutex<Vec<&'static str>>>, JoinSet<()>) {
        let (end, ends) = channel::<()>();
        let (mut ends, order, mut calls) = (Some(ends), Arc::<Mutex<Vec<_>>>::default(), JoinSet::new());
        for (number, definition) in definitions.iter().copied().enumerate() {
            let (its, order, ends) = (Arc::clone(blocking), Arc::clone(&order), ends.take());
            calls.spawn(async move {
                let work = move || {
                    order.lock().push(definition);
                    if let Some(ends) = ends {
                        let _ = ends.recv();
                        order.lock().push("end");
                    }
                    Ok(())
                };
                its.run(definition, work).await.unwrap();
            });
            // Until it waits.
            let same = definitions[..=number].iter().filter(|other| **other == definition).count();
            while Arc::strong_count(&blocking.places(definition)) < same + 1 {
                tokio::task::yield_now().await;
            }
        }
        (end, order, calls)
    }

    /// The time stands still, so no turn ends by itself.
    #[tokio::test(start_paused = true)]
    async fn definitions_that_compute_share_the_processors_in_turn() {
        let blocking = Arc::new(Blocking::computing_on(Arc::new(Semaphore::new(1))));
        let (end, order, calls) = calls(&blocking, &["a", "a", "a", "b", "c", "b"]).await;
        // Time for those that do not wait.
        for _ in 0..20 {
            spawn_blocking(|| ()).await.unwrap();
        }
        end.send(()).unwrap();
        calls.join_all().await;
        assert_eq!(*order.lock(), ["a", "end", "b", "c", "a", "b", "a"]);
        assert!((1..=available_parallelism().unwrap().get()).contains(&PROCESSORS.available_permits()));
    }

    #[tokio::test(start_paused = true)]
    async fn call_that_computes_for_long_leaves_its_processor_to_another_definition() {
        let blocking = Arc::new(Blocking::computing_on(Arc::new(Semaphore::new(1))));
        let (end, order, calls) = calls(&blocking, &["a", "a", "b"]).await;
        tokio::time::advance(TURN).await;
        let began = std::time::Instant::now();
        while *order.lock() != ["a", "b"] {
            assert!(began.elapsed() < Duration::from_secs(60), "it hangs");
            tokio::task::yield_now().await;
        }
        end.send(()).unwrap();
        calls.join_all().await;
        assert_eq!(*order.lock(), ["a", "b", "end", "a"], "and not to its own definition");
    }

    #[tokio::test(start_paused = true)]
    async fn call_that_can_come_again_waits_behind_few() {
        let blocking = Arc::new(Blocking::computing_on(Arc::new(Semaphore::new(1))));
        let (end, _, calls) = calls(&blocking, &["a"; COMPUTING + IN_LINE]).await;
        assert!(blocking.run_soon("a", || Ok(7)).await.is_none());
        end.send(()).unwrap();
        calls.join_all().await;
        assert_eq!(blocking.run_soon("a", || Ok(7)).await.unwrap().unwrap(), 7);
    }
}
