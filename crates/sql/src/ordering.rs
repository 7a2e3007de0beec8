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
use solid_notify_core::store::{CRASH_LOOP, Claim, Settle};
use solid_notify_core::transition::Next;

use crate::claim::hints::ClaimHints;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::{Kind, Ty};
use crate::dialect::row::{columns, numbers, one_number, required};
use crate::dialect::statement::{Arg, Statement, int, statements};

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

columns! {
    /// A due notice. It is the first one of its key where no other is under way or before it, or where it has no key.
    Part(kind: Kind):
    id = "m.id";
    is_first = format!("CASE WHEN {} THEN 1 ELSE 0 END", kind.its_turn());
    ordering_key = "m.ordering_key";
}

columns! {
    /// The first notice of an ordering key.
    First():
    id = "m.id";
    ordering_key = "m.ordering_key";
}

columns! {
    /// The ordering key of a notice, and its definition.
    KeyOf():
    def_id = "m.def_id";
    ordering_key = "m.ordering_key";
}

statements! {
    OrderingStatements:
    part,
    lock_first,
    block,
    keys_of,
    first_blocked,
    free,
    unblock,
    oldest_blocked,
}

impl OrderingStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let lock = kind.lock();
        let own_key = ("own_key", Ty::Key);
        Self {
            part: statement(format!(
                "SELECT {} FROM notify_msg m{}
                 WHERE m.def_id = $2 AND m.status = $3 AND m.next_call_time <= {now}{} AND m.crashes < {CRASH_LOOP}
                 ORDER BY m.next_call_time LIMIT $4{lock}",
                Part::list(kind),
                kind.by_slice(),
                kind.from_mark("$5")
            )),
            lock_first: statement(format!(
                "SELECT {} {}",
                First::list(),
                kind.batch_rows(&kind.first_of_keys("$2", &kind.batch("$3", &[own_key])), "notify_msg", "true", lock)
            )),
            // MySQL assigns from left to right: `blocked_since` keeps the due time before `next_call_time` is overwritten.
            block: statement(format!(
                "UPDATE notify_msg AS m{} SET blocked_since = coalesce(blocked_since, next_call_time), next_call_time = {}
                 WHERE {}",
                kind.by_index("PRIMARY"),
                kind.plus(&now, "$3"),
                kind.listed("m.id", "$2")
            )),
            keys_of: statement(format!(
                "SELECT {} {}",
                KeyOf::list(),
                kind.listed_rows("$2", "notify_msg", "true", "")
            )),
            first_blocked: statement(format!(
                "SELECT m.id {}",
                kind.batch_rows(
                    &kind.first_of_keys("b.owner", &kind.batch("$2", &[("owner", Ty::Int), own_key])),
                    "notify_msg",
                    "m.blocked_since IS NOT NULL",
                    ""
                )
            )),
            free: statement(format!("SELECT m.id {}", kind.listed_rows("$2", "notify_msg", "true", lock))),
            unblock: statement(format!(
                "UPDATE notify_msg AS m{} SET next_call_time = {now}, blocked_since = NULL
                 WHERE {} AND m.blocked_since IS NOT NULL",
                kind.by_index("PRIMARY"),
                kind.listed("m.id", "$2")
            )),
            // The order of the next looks does not show how long a notice has been blocked: these rows are a sample.
            oldest_blocked: statement(format!(
                "SELECT min({}) FROM (SELECT m.blocked_since FROM notify_msg m{}
                 WHERE m.def_id = $2 AND m.status = 0 ORDER BY {} LIMIT $3) AS blocked",
                kind.epoch("blocked_since"),
                kind.by_slice(),
                kind.order_of_slice()
            )),
        }
    }
}

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
    const AT: Part = Part::AT;
    let began = Instant::now();
    let mut size = (2 * limit).clamp(50, LARGEST_PART);
    loop {
        let mark = Arg::Int(hints.marks.of(claim.def_id, status));
        let args = [now, claim.def_id.into(), status.code().into(), int(size).into(), mark];
        let rows = DB::fetch(tx, &OrderingStatements::of(DB::KIND).part, &args).await?;
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
pub(crate) async fn oldest_blocked<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    def_id: i64,
) -> sqlx::Result<Option<DateTime<Utc>>> {
    let mut conn = on.get().await?;
    let args = [now, def_id.into(), SAMPLE.into()];
    let rows = DB::fetch(&mut conn, &OrderingStatements::of(DB::KIND).oldest_blocked, &args).await?;
    conn.done();
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
    let statements = OrderingStatements::of(DB::KIND);
    let keys: HashSet<&str> = behind.iter().map(|(_, key)| key.as_str()).collect();
    let keys = keys.iter().map(|key| serde_json::json!({ "own_key": key }));
    let batch = serde_json::Value::from_iter(keys).to_string();
    let rows = DB::fetch(tx, &statements.lock_first, &[now, def_id.into(), batch.as_str().into()]).await?;
    let mut first = HashSet::new();
    for row in &rows {
        first.insert((required::<DB>(row, First::AT.id)?, DB::text(row, First::AT.ordering_key)?.unwrap_or_default()));
    }
    let locked: HashSet<&str> = first.iter().map(|(_, key)| key.as_str()).collect();
    let is_blocked = |notice: &&(i64, String)| locked.contains(notice.1.as_str()) && !first.contains(*notice);
    let ids: Vec<i64> = behind.iter().filter(is_blocked).map(|(id, _)| *id).collect();
    if !ids.is_empty() {
        let after = duration_millis(LOOK_AGAIN).into();
        DB::execute(tx, &statements.block, &[now, Arg::Ids(&ids), after]).await?;
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
    now: Arg<'_>,
    ids: &[i64],
) -> sqlx::Result<HashSet<(i64, String)>> {
    let rows = DB::fetch(conn, &OrderingStatements::of(DB::KIND).keys_of, &[now, Arg::Ids(ids)]).await?;
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
    let statements = OrderingStatements::of(DB::KIND);
    let batch = keys.iter().map(|(owner, key)| serde_json::json!({ "owner": owner, "own_key": key }));
    let batch = serde_json::Value::from_iter(batch).to_string();
    for _ in 0..TRIES {
        let rows = DB::fetch(conn, &statements.first_blocked, &[now, batch.as_str().into()]).await?;
        let blocked = numbers::<DB>(&rows)?;
        if blocked.is_empty() {
            return Ok(());
        }
        // A claim may have locked one of them. It skips the notice, but keeps the lock until its transaction ends.
        let free = numbers::<DB>(&DB::fetch(conn, &statements.free, &[now, Arg::Ids(&blocked)]).await?)?;
        if !free.is_empty() {
            DB::execute(conn, &statements.unblock, &[now, Arg::Ids(&free)]).await?;
        }
        if free.len() == blocked.len() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    tracing::debug!(?keys, "other transactions lock blocked notices; the next look unblocks them");
    Ok(())
}
