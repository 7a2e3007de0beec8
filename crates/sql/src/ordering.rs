//! Ordering keys. A notice is blocked while it is due, but behind an unfinished notice of its ordering key.
//!
//! A claim that steps over blocked notices costs as much as notices wait behind the key. So where ordering keys occur, a claim
//! reads the queue slice in parts. It claims the first notice of each key and takes the others out of the due part of the
//! slice: `blocked_since` keeps the time at which a notice was due, and `next_call_time` moves [`LOOK_AGAIN`] ahead.
//!
//! When a notice ends, the first remaining one of its key is unblocked. No unblocking is lost: a claim blocks a notice only while
//! it holds the lock of the notice in front, and a locked notice cannot end. The end and the unblocking are one transaction.
//! After other changes (a notice deleted by hand) the next look finds the blocked notice.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use solid_notify_core::notice::{Status, duration_millis, time_from_millis};
use solid_notify_core::store::{Claim, Settle};
use solid_notify_core::transition::Next;

use crate::claim::hints::ClaimHints;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::query::Query;
use crate::dialect::row::{numbers, one_number, required};
use crate::dialect::statement::{Arg, int};
use crate::sql::ordering::{
    Block, First, FirstBlocked, Free, KeyOf, KeysOf, LockFirst, OldestBlocked, Part, PartColumns, Unblock,
};

/// How long a blocked notice stays out of the due part of its queue slice. A look costs about 20 µs of the server: with 100,000
/// blocked notices 0.3 % of a core, over all nodes.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
/// How long one claim continues to read parts while it has found fewer notices than its limit.
const LONGEST: Duration = Duration::from_secs(1);
/// Maximum number of notices in one part: each is locked until the claim commits.
const LARGEST_PART: usize = 1000;

/// Number of tries to unblock a notice that another session locks, and the pause between them. A claim holds such a lock for
/// milliseconds.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);
/// Number of notices that are read to find out how long the oldest one has been blocked.
const SAMPLE: i64 = 10_000;

/// Reads a queue slice in parts. Returns the ids of up to `limit` locked notices that are the first of their key, and
/// blocks the other notices that it reads.
pub(crate) async fn pick_by_parts<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    hints: &ClaimHints,
    claim: &Claim,
    status: Status,
    limit: usize,
) -> sqlx::Result<Vec<i64>> {
    const AT: PartColumns = PartColumns::AT;
    let began = Instant::now();
    let mut size = (2 * limit).clamp(50, LARGEST_PART);
    loop {
        let (mark, def_id) = (hints.marks.of(claim.def_id, status), claim.def_id);
        let part = Part { clock: now.into(), def_id, status: status.code(), size: int(size), mark };
        let rows = part.fetch::<DB>(tx).await?;
        let (mut first, mut behind, mut ordered) = (Vec::new(), Vec::new(), false);
        for row in &rows {
            let (id, key) = (required::<DB>(row, AT.id)?, DB::text(row, AT.ordering_key)?);
            let is_first = required::<DB>(row, AT.is_first)? == 1;
            ordered |= key.is_some();
            match key.filter(|_| !is_first) {
                Some(key) => behind.push((id, key)),
                None => first.push(id),
            }
        }
        if !rows.is_empty() && !ordered {
            hints.unordered.add(claim.def_id);
        }
        let blocked = block::<DB>(tx, now, claim.def_id, behind).await?;
        let is_last = rows.len() < size || (blocked == 0 && size == LARGEST_PART);
        if first.len() >= limit || is_last || began.elapsed() > LONGEST {
            first.truncate(limit);
            return Ok(first);
        }
        size = (4 * size).min(LARGEST_PART);
    }
}

/// Returns since when the longest blocked notice with status "not sent" has been due, among the first [`SAMPLE`] of its queue
/// slice.
pub(crate) async fn oldest_blocked<DB: Dialect>(on: &Share<DB>, def_id: i64) -> sqlx::Result<Option<DateTime<Utc>>> {
    let rows = on.read(&OldestBlocked { def_id, sample: SAMPLE }).await?;
    Ok(one_number::<DB>(&rows)?.map(time_from_millis))
}

/// Blocks notices of a definition where the first one of their key can be locked. Returns how many it blocked.
async fn block<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    def_id: i64,
    behind: Vec<(i64, String)>,
) -> sqlx::Result<usize> {
    if behind.is_empty() {
        return Ok(0);
    }
    let keys: HashSet<&str> = behind.iter().map(|(_, key)| key.as_str()).collect();
    let keys = keys.iter().map(|key| serde_json::json!({ "own_key": key }));
    let keys = &serde_json::Value::from_iter(keys).to_string();
    let rows = LockFirst { def_id, keys }.fetch::<DB>(tx).await?;
    let mut first = HashSet::new();
    for row in &rows {
        first.insert((required::<DB>(row, First::AT.id)?, DB::text(row, First::AT.ordering_key)?.unwrap_or_default()));
    }
    let locked: HashSet<&str> = first.iter().map(|(_, key)| key.as_str()).collect();
    let is_blocked = |notice: &&(i64, String)| locked.contains(notice.1.as_str()) && !first.contains(*notice);
    let ids: Vec<i64> = behind.iter().filter(is_blocked).map(|(id, _)| *id).collect();
    if !ids.is_empty() {
        let after = duration_millis(LOOK_AGAIN);
        Block { clock: now.into(), ids: &ids, after }.execute::<DB>(tx).await?;
    }
    Ok(ids.len())
}

/// Returns the ordering keys, with their definitions, of the notices of a batch that end.
pub(crate) fn keys_of_ended<'a>(batch: impl Iterator<Item = &'a Settle>) -> HashSet<(i64, String)> {
    let ends = |settle: &&Settle| matches!(settle.transition.next, Next::Finish { .. });
    batch.filter(ends).filter_map(|settle| Some((settle.def_id, settle.ordering_key.clone()?))).collect()
}

/// Returns the ordering keys, with their definitions, of live notices by their ids.
pub(crate) async fn keys_of<DB: Dialect>(
    conn: &mut DB::Connection,
    ids: &[i64],
) -> sqlx::Result<HashSet<(i64, String)>> {
    let rows = KeysOf { ids }.fetch::<DB>(conn).await?;
    let mut keys = HashSet::new();
    for row in &rows {
        if let Some(key) = DB::text(row, KeyOf::AT.ordering_key)? {
            keys.insert((required::<DB>(row, KeyOf::AT.def_id)?, key));
        }
    }
    Ok(keys)
}

/// Unblocks the first notice of each key, after the notice in front of it has ended. Waits for the locks of other sessions for at
/// most a tenth of a second.
pub(crate) async fn unblock<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    keys: HashSet<(i64, String)>,
) -> sqlx::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let batch = keys.iter().map(|(owner, key)| serde_json::json!({ "owner": owner, "own_key": key }));
    let batch = serde_json::Value::from_iter(batch).to_string();
    for _ in 0..TRIES {
        let rows = FirstBlocked { keys: &batch }.fetch::<DB>(conn).await?;
        let blocked = numbers::<DB>(&rows)?;
        if blocked.is_empty() {
            return Ok(());
        }
        // A claim may have locked one of them. It skips the notice, but keeps the lock until its transaction ends.
        let free = numbers::<DB>(&Free { ids: &blocked }.fetch::<DB>(conn).await?)?;
        if !free.is_empty() {
            Unblock { clock: now.into(), ids: &free }.execute::<DB>(conn).await?;
        }
        if free.len() == blocked.len() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    tracing::debug!(?keys, "other transactions lock blocked notices; the next look unblocks them");
    Ok(())
}
