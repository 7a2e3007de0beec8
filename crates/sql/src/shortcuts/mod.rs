//! Shortcuts: what exists only because a measurement pays for it. Each call names the plain path that it replaces, and its figure.
//!
//! Figures in µs are the server's processor time on PostgreSQL 15: each rendered statement 2,000 times (inserts), 400 times (claims) or
//! 40 times (settles) in one session with the settings of the store's connections, the median of nine runs (settles: five).
//!
//! Each file has one shortcut: its statements and its call. The plain paths that have shortcuts (`add/mod.rs`, `add/one.rs`,
//! `claim/mod.rs`, `settle/mod.rs`) ask for them, and `tx.rs` prepares those that add. Without this folder and these calls the stores
//! are correct and slower. What only shortcuts use elsewhere is then unused: the compiler names it.

pub(crate) mod archive_bare;
pub(crate) mod fresh;
pub(crate) mod insert_bare;
pub(crate) mod insert_known;
pub(crate) mod settle_at_once;
pub(crate) mod settle_bare;

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long shortcuts that wait for locked rows are not taken after one of them met a lock. A session that keeps many rows locked,
/// such as an open transaction in an editor, then delays one statement and not all of them.
const CAREFUL: Duration = Duration::from_secs(10);

/// When a shortcut last met a row that another session locks.
#[derive(Default)]
pub(crate) struct MetLock(Mutex<Option<Instant>>);

impl MetLock {
    pub(crate) fn note(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    fn lately(&self) -> bool {
        self.0.lock().is_some_and(|met| met.elapsed() < CAREFUL)
    }
}
