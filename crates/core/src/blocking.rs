//! [`Blocking`]: calls that may block a thread for long, such as the opening of a file on a dead network mount, or much computing. Each definition
//! has a few at a time, so that one whose calls hang leaves the threads to the others.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How many calls of a definition that wait for files and names run at the same time. The runtime has 512 threads for all of them.
const WAITING: usize = 4;
/// How many that compute: one, which leaves the other processors to other work.
const COMPUTING: usize = 1;

/// The blocking calls of a process, of one kind.
pub struct Blocking {
    of_a_definition: usize,
    places: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Blocking {
    /// Returns the calls that wait.
    pub fn waiting() -> Self {
        Self { of_a_definition: WAITING, places: Mutex::default() }
    }

    /// Returns the calls that compute.
    pub fn computing() -> Self {
        Self { of_a_definition: COMPUTING, places: Mutex::default() }
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
        let place = self.places(definition).acquire_owned().await.map_err(io::Error::other)?;
        let call = move || {
            let _place = place;
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
    use std::time::Duration;

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
}
