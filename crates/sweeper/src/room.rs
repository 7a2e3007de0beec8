//! The room for large parameters. A claim leaves them in the store, and an attempt reads its own when there is room for it, so all of them together
//! take a limited amount of memory, whatever producers add.
//!
//! A definition takes only as much as leaves at least that much free: the first one half of the room, the next one a quarter, and so on. So several
//! whose receivers hang leave room for others.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

/// A place is for so many bytes.
const PLACE: usize = 1 << 20;
/// How many places there are.
const PLACES: usize = 256;

/// The places for large parameters.
pub(crate) struct Room {
    left: Mutex<Left>,
    freed: Notify,
    /// The place of the attempt that reads: all of them share few connections with the claims and outcomes of all definitions.
    pub(crate) reading: Semaphore,
}

struct Left {
    free: usize,
    of_def: HashMap<i64, usize>,
}

impl Room {
    pub(crate) fn new() -> Arc<Self> {
        let left = Left { free: PLACES, of_def: HashMap::new() };
        Arc::new(Self { left: Mutex::new(left), freed: Notify::new(), reading: Semaphore::new(1) })
    }

    /// Takes what a parameter of so many bytes needs, once it is free.
    pub(crate) async fn take(self: &Arc<Self>, def_id: i64, bytes: usize) -> Taken {
        let places = bytes.div_ceil(PLACE).clamp(1, PLACES / 2);
        loop {
            // Subscribed before the look, so that a place that becomes free meanwhile is not missed.
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            if self.left.lock().take(def_id, places) {
                return Taken { room: Arc::clone(self), def_id, places };
            }
            freed.await;
        }
    }
}

impl Left {
    fn take(&mut self, def_id: i64, places: usize) -> bool {
        let would_have = self.of_def.get(&def_id).copied().unwrap_or(0) + places;
        let fits = would_have + places <= self.free;
        if fits {
            self.free -= places;
            self.of_def.insert(def_id, would_have);
        }
        fits
    }
}

/// What a parameter takes. It becomes free when this is dropped.
pub(crate) struct Taken {
    room: Arc<Room>,
    def_id: i64,
    places: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut left = self.room.left.lock();
        left.free += self.places;
        if let Some(has) = left.of_def.get_mut(&self.def_id) {
            *has -= self.places;
            if *has == 0 {
                left.of_def.remove(&self.def_id);
            }
        }
        drop(left);
        self.room.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn definition_takes_no_more_than_it_leaves_free() {
        let room = Room::new();
        let take = |def_id, places: usize| room.take(def_id, places * PLACE).now_or_never();
        let mut taken = Vec::new();
        // Each of them wants all.
        for (def_id, gets) in [(1, 128), (2, 64), (3, 32), (4, 16), (5, 8), (6, 4), (7, 2), (8, 1)] {
            taken.push((0..gets).map(|_| take(def_id, 1).unwrap()).collect::<Vec<_>>());
            assert!(take(def_id, 1).is_none(), "{def_id} has {gets}");
        }
        assert!(take(9, 1).is_none(), "the last place would be taken");
        taken.remove(2);
        assert!(take(9, 17).is_none());
        drop(take(9, 16).unwrap());
        // It begins to wait before there is room.
        let waiting = tokio::spawn({
            let room = Arc::clone(&room);
            async move { room.take(9, 100 * PLACE).await.places }
        });
        tokio::task::yield_now().await;
        drop(taken);
        assert_eq!(waiting.await.unwrap(), 100);
        assert!(take(1, 100_000).is_some(), "no parameter needs more than there is");
        let left = room.left.lock();
        assert!(left.free == PLACES && left.of_def.is_empty());
    }
}
