//! The room for large parameters. A claim leaves them in the store, and an attempt reads its own when there is room for it, so all of them together
//! take a limited amount of memory, whatever producers add.
//!
//! No definition has more than half of the room, and those whose latest attempt was slow (`slots.rs`) share half of it. So others wait only for
//! attempts that end soon.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A place is for so many bytes.
const PLACE: usize = 1 << 20;
/// How many places there are.
const PLACES: usize = 256;

/// The places for large parameters.
pub(crate) struct Room {
    all: Arc<Semaphore>,
    of_slow: Arc<Semaphore>,
    of_def: Mutex<HashMap<i64, Weak<Semaphore>>>,
}

impl Default for Room {
    fn default() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self { all: places(PLACES), of_slow: places(PLACES / 2), of_def: Mutex::default() }
    }
}

/// What a parameter takes. It becomes free when this is dropped.
pub(crate) struct Taken(#[allow(dead_code)] Vec<OwnedSemaphorePermit>);

impl Room {
    /// Takes what a parameter of so many bytes needs, once it is free. The places that others want, too, are taken last.
    pub(crate) async fn take(&self, def_id: i64, is_slow: bool, bytes: usize) -> Taken {
        let places = u32::try_from(bytes.div_ceil(PLACE).clamp(1, PLACES / 2)).unwrap_or(1);
        let of_slow = is_slow.then(|| Arc::clone(&self.of_slow));
        let mut taken = Vec::with_capacity(3);
        for from in [Some(self.of_def(def_id)), of_slow, Some(Arc::clone(&self.all))].into_iter().flatten() {
            // No semaphore is ever closed.
            taken.extend(from.acquire_many_owned(places).await);
        }
        Taken(taken)
    }

    fn of_def(&self, def_id: i64) -> Arc<Semaphore> {
        let mut of_def = self.of_def.lock();
        if let Some(places) = of_def.get(&def_id).and_then(Weak::upgrade) {
            return places;
        }
        of_def.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(PLACES / 2));
        of_def.insert(def_id, Arc::downgrade(&places));
        places
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const HALF: usize = PLACES / 2 * PLACE;

    #[tokio::test]
    async fn no_definition_and_no_slow_ones_take_more_than_half_of_the_room() {
        let room = Room::default();
        let take = |def_id, is_slow, bytes| room.take(def_id, is_slow, bytes).now_or_never();
        let first = take(1, false, HALF - PLACE).unwrap();
        assert!(take(1, false, PLACE + 1).is_none(), "two places");
        let rest = take(1, false, PLACE).unwrap();
        assert!(take(1, false, 1).is_none());
        // Another one that is slow has the other half, and a third one none of it.
        let slow = take(2, true, HALF).unwrap();
        assert!(take(3, false, 1).is_none(), "all is taken");
        drop((first, rest));
        assert!(take(3, true, 1).is_none(), "slow ones share a half");
        let other = take(3, false, HALF).unwrap();
        drop((slow, other));
        assert!(take(3, true, usize::MAX).is_some(), "no parameter needs more than there is");
        assert_eq!((room.all.available_permits(), room.of_slow.available_permits()), (PLACES, PLACES / 2));
        assert_eq!(room.of_def.lock().values().filter(|places| places.strong_count() > 0).count(), 0);
    }
}
