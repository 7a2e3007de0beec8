//! The fence: the number of a claim. What follows from a claim is written only while that claim is the notice's last one.
//!
//! A statement reads the fences of a batch, writes where they hold, and returns which ones these are.

use std::collections::HashSet;

use solid_notify_core::store::Settle;

use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, required};

/// The condition that a row `b` of a batch has the fence of its notice `m`, and that the notice has this status. (`+ 0` for the
/// reason of the macro `due_by_id` in `claim/claim.sql`.)
pub(crate) fn holds(status: &str) -> String {
    format!("m.fence = b.fence AND m.status + 0 = {status}")
}

/// Locks the notice `$2` while it is being sent under the fence `$3`; no row where that claim was lost, or another session has locked it.
pub(crate) fn lock_sending(kind: Kind) -> String {
    let lock = kind.lock_if_free();
    format!("SELECT id FROM notify_msg WHERE id = $2 AND fence = $3 AND status + 0 = 5{lock}")
}

/// The notice, the fence and the status that an outcome was decided for. A batch may have the outcomes of two claims of the same
/// notice, or the outcome of an attempt and the failure that its nack causes.
type Fence = (i64, i64, i64);

fn fence_of(settle: &Settle) -> Fence {
    (settle.id, settle.fence, settle.from.code())
}

columns! {
    /// What a statement of a settle returns of an outcome: the notice, the fence, and the status that it had.
    pub(crate) OfClaim(id: &str, fence: &str, was: &str):
    id = id;
    fence = fence;
    was = was;
}

/// The fences of some outcomes of a batch.
pub(crate) struct Fences(HashSet<Fence>);

impl Fences {
    /// Reads the fences that a statement of a settle returns.
    pub(crate) fn read<DB: Dialect>(rows: &[DB::Row]) -> sqlx::Result<Self> {
        const AT: OfClaim = OfClaim::AT;
        let fence =
            |row| Ok((required::<DB>(row, AT.id)?, required::<DB>(row, AT.fence)?, required::<DB>(row, AT.was)?));
        rows.iter().map(fence).collect::<sqlx::Result<_>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, settle: &Settle) -> bool {
        self.0.contains(&fence_of(settle))
    }

    /// Leaves out these notices.
    pub(crate) fn leave(&mut self, ids: &[i64]) {
        self.0.retain(|(id, ..)| !ids.contains(id));
    }

    /// The outcomes of a batch that have one of these fences.
    pub(crate) fn of<'a>(&self, batch: &'a [Settle]) -> impl Iterator<Item = &'a Settle> {
        batch.iter().filter(|settle| self.has(settle))
    }

    /// The fences of the other outcomes of a batch.
    pub(crate) fn others(&self, batch: &[Settle]) -> Self {
        Self(batch.iter().filter(|settle| !self.has(settle)).map(fence_of).collect())
    }
}
