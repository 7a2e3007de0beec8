//! Runs a case of a suite on a store of each kind. Thousands of tests call these, so nothing here is generic over the case.
//!
//! The cases use migrated databases one after the other, because to create the tables takes longer than most cases. They reach the database
//! through a [`Backend`](solid_notify_conformance::Backend), so they write rows and change no table. Before a case begins, the rows
//! of the one before are deleted. The last case that runs drops the databases, so a run leaves none.

use std::any::TypeId;
use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use solid_notify_conformance::Case;
use tokio::runtime::Builder;

use crate::databases::{Cleanup, Database, TestDb};
use crate::memory::MemoryBackend;
use crate::redis::{RedisBackend, RedisServer};

/// So many databases rest. So a statement that a server still runs for the case before has ended long ago.
const RESTING: usize = 2;

static IDLE: Mutex<BTreeMap<TypeId, Idle>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Idle {
    databases: VecDeque<Cleanup>,
    running_cases: usize,
}

/// Runs a case on a database, whose clock is turned by hand, with so many threads. With one, the test's own thread runs all.
pub fn on_database<D: Database>(threads: usize, case: Case) {
    let running = Running::begin::<D>();
    let used = running.take();
    let used = block_on(threads, async {
        let db = TestDb::<D>::reusing(used).await;
        case(&db).await;
        db.release().await
    });
    // The runtime has ended, and with it all that the case left running.
    block_on(1, async {
        for idle in running.end(used) {
            idle.run().await;
        }
    });
}

/// As [`on_database`], on keys of its own in Redis.
pub fn on_redis<R: RedisServer>(threads: usize, case: Case) {
    block_on(threads, async {
        let backend = RedisBackend::new::<R>().await;
        case(&backend).await;
        backend.close();
    });
}

/// As [`on_database`], on a store in memory.
pub fn in_memory(threads: usize, case: Case) {
    block_on(threads, async { case(&MemoryBackend::default()).await });
}

fn block_on<T>(threads: usize, work: impl Future<Output = T>) -> T {
    let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.worker_threads(threads).enable_all().build().unwrap().block_on(work)
}

/// A case runs on a database of this kind. A case that fails ends by the drop: its database stays as it is, for an inspection.
struct Running(TypeId);

impl Running {
    fn begin<D: Database>() -> Self {
        let kind = TypeId::of::<D>();
        idle(kind, |idle| idle.running_cases += 1);
        Self(kind)
    }

    /// Returns a database that another case has used.
    fn take(&self) -> Option<Cleanup> {
        idle(self.0, |idle| if idle.databases.len() > RESTING { idle.databases.pop_front() } else { None })
    }

    /// Ends a case that succeeded. Returns what is to be dropped: nothing, while other cases run.
    fn end(self, used: Cleanup) -> VecDeque<Cleanup> {
        let kind = self.0;
        idle(kind, |idle| idle.databases.push_back(used));
        drop(self);
        idle(kind, |idle| if idle.running_cases == 0 { std::mem::take(&mut idle.databases) } else { VecDeque::new() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        idle(self.0, |idle| idle.running_cases -= 1);
    }
}

fn idle<T>(kind: TypeId, work: impl FnOnce(&mut Idle) -> T) -> T {
    work(IDLE.lock().entry(kind).or_default())
}
