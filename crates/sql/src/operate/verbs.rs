//! The operator's verbs in the database: lock, decide, change, and write the audit entry, in one transaction.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use solid_notify_core::notice::{NoticeRecord, Status, millis_from_time, time_from_millis};
use solid_notify_core::store::verb::{Change, Verb, VerbResult, decide, detail, errors_of_retry};
use solid_notify_core::store::{AuditEntry, BulkStep, BulkStepDone, BulkVerb, Target};

use crate::add::statements::{AddStatements, Duplicate};
use crate::audit::write_entry;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::{Kind, Ty};
use crate::dialect::row::{columns, numbers, required};
use crate::dialect::statement::{Arg, Statement, json, statements};
use crate::fence;
use crate::fence::lock_sending;
use crate::nodes::time;
use crate::operate::purge::{PurgedRow, read_purged};
use crate::ordering::{keys_of, unblock};
use crate::record::{Found, lock_record};
use crate::settle::statements::{HISTORY, SettleStatements};
use crate::settle::twice::make_room;

columns! {
    /// A dead letter, and the dedupe key that it gets back when it is retried.
    Held():
    id = "m.id";
    def_id = "m.def_id";
    key = "CASE WHEN m.fence = 0 OR m.dedupe_until_ended THEN m.dedupe_key END";
}

statements! {
    VerbStatements:
    lock_to_revive,
    lock_act,
    lock_to_purge,
    revive,
    cancel,
    retime,
    retime_step,
    recount,
    rewrite,
    rewrite_errors,
}

/// The columns of a live notice.
const LIVE: &str = "id, def_id, param, description, errors, status, fence, failures, crashes, worker, last_class, \
     last_call_time, next_call_time, create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context, tag, \
     max_tries, expires_at, response, parent_id";

impl VerbStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let ids = kind.batch("$2", &[("notice_id", Ty::Int), ("fence", Ty::Int), ("was", Ty::Int)]);
        // The notices of a step that are unchanged. Locked ones are skipped, because another session purges or revives
        // them. So is an ended notice whose id a live notice has as well (a restored sequence).
        let unchanged =
            format!("{} AND NOT EXISTS (SELECT 1 FROM notify_msg o WHERE o.id = m.id)", fence::holds("b.was"));
        let held = kind.batch_rows(&ids, "notify_msg_history", &unchanged, kind.lock());
        let due = |at: &str| kind.later(&kind.epoch_time(at), &now);
        Self {
            lock_to_revive: statement(format!("SELECT {} {held}", Held::list())),
            // A settle, or a node that rescues the act, would have to lock the row, too.
            lock_act: statement(lock_sending(kind)),
            lock_to_purge: statement(format!("SELECT {} {held}", PurgedRow::list())),
            // Keeps the fence. A notice that was never claimed becomes "not sent". An expiry that has passed is dropped, because
            // an operator who retries the notice wants it sent.
            revive: statement(format!(
                "INSERT INTO notify_msg ({LIVE})
                 SELECT m.id, m.def_id, m.param, m.description, m.errors, CASE WHEN m.fence > 0 THEN 2 ELSE 0 END,
                        m.fence, 0, 0, m.worker, m.last_class, m.last_call_time, {}, m.create_time, m.dedupe_key,
                        m.dedupe_until_ended, m.ordering_key, m.trace_context, m.tag, m.max_tries,
                        CASE WHEN m.expires_at > {} THEN m.expires_at END, m.response, m.parent_id {}",
                due("b.due"),
                due("b.due"),
                kind.batch_rows(
                    &kind.batch("$2", &[("notice_id", Ty::Int), ("due", Ty::Int)]),
                    "notify_msg_history",
                    "true",
                    ""
                )
            )),
            cancel: statement(format!(
                "INSERT INTO notify_msg_history ({HISTORY})
                 SELECT m.id, m.def_id, m.param, m.description, m.errors, 6, m.fence, m.failures, m.crashes, m.worker,
                        m.last_class, m.last_call_time, NULL, m.create_time, m.dedupe_key, m.dedupe_until_ended,
                        m.ordering_key, m.trace_context, m.tag, m.max_tries, m.expires_at, m.response, m.parent_id, {now}, $3 {}",
                kind.listed_rows("$2", "notify_msg", "true", "")
            )),
            retime: statement(format!(
                "UPDATE notify_msg SET next_call_time = {}, blocked_since = NULL WHERE id = $2",
                due("$3")
            )),
            retime_step: statement(kind.batch_update(
                &kind.batch("$2", &[("notice_id", Ty::Int), ("due", Ty::Int)]),
                "notify_msg",
                &format!("next_call_time = {}, blocked_since = NULL", due("b.due")),
                "",
            )),
            recount: statement(format!(
                "UPDATE notify_msg SET failures = $3, crashes = $4, next_call_time = {now}, blocked_since = NULL WHERE id = $2"
            )),
            rewrite: statement(format!("UPDATE notify_msg SET param = {} WHERE id = $2", kind.to_json("$3"))),
            rewrite_errors: statement(format!("UPDATE notify_msg SET errors = {} WHERE id = $2", kind.to_json("$3"))),
        }
    }
}

/// A notice of a step, as the statements `lock`, `lock_to_revive` and `revive` read it.
#[derive(Serialize)]
struct VerbRow {
    notice_id: i64,
    fence: i64,
    was: i64,
    overdue: i64,
    due: i64,
}

impl VerbRow {
    fn new(target: &Target, was: Status) -> Self {
        let (notice_id, fence, due) = (target.id, target.fence, millis_from_time(target.due));
        Self { notice_id, fence, was: was.code(), overdue: 0, due }
    }
}

/// `None`: another session has locked the notice.
pub(crate) async fn change<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    id: i64,
    verb: &Verb,
    who: &str,
) -> sqlx::Result<Option<VerbResult>> {
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let notice = match lock_record::<DB>(&mut tx, now, id).await? {
        Found::Locked(notice) => notice,
        other => {
            tx.rollback().await?;
            conn.done();
            return Ok(matches!(other, Found::Missing).then_some(VerbResult::NotFound));
        }
    };
    let time = time::<DB>(&mut tx, now).await?;
    let answer = match decide(&notice, verb, time) {
        Ok(change) => carry_out::<DB>(&mut tx, now, &notice, &change).await?,
        Err(answer) => answer,
    };
    if answer.is_applied() {
        if let Some(errors) = errors_of_retry(&notice, verb) {
            let statement = &VerbStatements::of(DB::KIND).rewrite_errors;
            update::<DB>(&mut tx, now, statement, id, errors.as_str().into()).await?;
        }
        let mut entry = AuditEntry::new(time, who, verb.act());
        (entry.def_id, entry.notice_id) = (Some(notice.def_id), Some(id));
        entry.detail = Some(detail(&notice, verb));
        write_entry::<DB>(&mut tx, now, &entry).await?;
        tx.commit().await?;
    } else {
        tx.rollback().await?;
    }
    conn.done();
    Ok(Some(answer))
}

async fn carry_out<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    notice: &NoticeRecord,
    change: &Change,
) -> sqlx::Result<VerbResult> {
    let statements = VerbStatements::of(DB::KIND);
    let id = notice.id;
    match change {
        Change::Revive { param } => {
            let keys = notice.unique_key().map(|key| (id, (notice.def_id, key)));
            if let Some(other) = keys_taken::<DB>(tx, now, keys.into_iter()).await?.into_values().next() {
                return Ok(VerbResult::DedupeKeyTaken(other));
            }
            // A time long ago: due now.
            let target = Target { id, fence: notice.fence, due: time_from_millis(0) };
            revive::<DB>(tx, now, &[VerbRow::new(&target, notice.status)]).await?;
            if let Some(param) = param {
                update::<DB>(tx, now, &statements.rewrite, id, param.as_str().into()).await?;
            }
        }
        Change::Retime { at } => {
            update::<DB>(tx, now, &statements.retime, id, Arg::from(millis_from_time(*at))).await?;
        }
        Change::Recount { failures, crashes } => {
            DB::execute(tx, &statements.recount, &[now, id.into(), (*failures).into(), (*crashes).into()]).await?;
        }
        Change::Rewrite { param } => update::<DB>(tx, now, &statements.rewrite, id, param.as_str().into()).await?,
        Change::End { reason, .. } => cancel::<DB>(tx, now, &[id], reason).await?,
        Change::Nothing => {}
    }
    Ok(change.result())
}

async fn update<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    statement: &Statement,
    id: i64,
    to: Arg<'_>,
) -> sqlx::Result<()> {
    DB::execute(tx, statement, &[now, id.into(), to]).await?;
    Ok(())
}

/// Returns which of these notices, each with its definition and its dedupe key, have one that a live notice has, and the id of that live
/// notice.
async fn keys_taken<'k, DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    keys: impl Iterator<Item = (i64, (i64, &'k str))>,
) -> sqlx::Result<HashMap<i64, i64>> {
    let keys: Vec<(i64, (i64, &str))> = keys.collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let batch = keys.iter().map(|(_, (owner, key))| serde_json::json!({ "owner": owner, "own_key": key }));
    let batch = serde_json::Value::from_iter(batch).to_string();
    let rows = DB::fetch(tx, &AddStatements::of(DB::KIND).duplicates, &[now, batch.as_str().into()]).await?;
    let mut live = HashMap::new();
    for row in &rows {
        let key = DB::text(row, Duplicate::AT.dedupe_key)?.unwrap_or_default();
        live.insert((required::<DB>(row, Duplicate::AT.def_id)?, key), required::<DB>(row, Duplicate::AT.id)?);
    }
    let other = |(owner, key): (i64, &str)| live.get(&(owner, key.to_owned())).copied();
    Ok(keys.into_iter().filter_map(|(id, key)| Some((id, other(key)?))).collect())
}

/// Moves ended notices back to the live ones.
async fn revive<DB: Dialect>(tx: &mut DB::Connection, now: Arg<'_>, rows: &[VerbRow]) -> sqlx::Result<()> {
    let (verbs, settle) = (VerbStatements::of(DB::KIND), SettleStatements::of(DB::KIND));
    let batch = json(&rows)?;
    DB::execute(tx, &verbs.revive, &[now, batch.as_str().into()]).await?;
    let ids = rows.iter().map(|row| row.notice_id).collect::<Vec<_>>();
    DB::execute(tx, &settle.evict, &[now, Arg::Ids(&ids)]).await?;
    Ok(())
}

/// Moves live notices to history as cancelled. As in a settle, rows of history that have the same ids make room (ids that were
/// given twice).
async fn cancel<DB: Dialect>(tx: &mut DB::Connection, now: Arg<'_>, ids: &[i64], reason: &str) -> sqlx::Result<()> {
    let (verbs, settle) = (VerbStatements::of(DB::KIND), SettleStatements::of(DB::KIND));
    let args = [now, Arg::Ids(ids), reason.into()];
    let keys = keys_of::<DB>(tx, ids).await?;
    make_room::<DB>(tx, now, ids).await?;
    DB::execute(tx, &verbs.cancel, &args).await?;
    DB::execute(tx, &settle.remove, &args[..2]).await?;
    unblock::<DB>(tx, now, keys).await
}

pub(crate) async fn change_step<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    step: &BulkStep,
) -> sqlx::Result<BulkStepDone> {
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    if let Some(act) = &step.act {
        let key = [now, act.id.into(), act.fence.into()];
        if DB::fetch(&mut tx, &VerbStatements::of(DB::KIND).lock_act, &key).await?.is_empty() {
            tx.rollback().await?;
            conn.done();
            return Ok(BulkStepDone { is_late: true, ..BulkStepDone::default() });
        }
    }
    let done = carry_out_step::<DB>(&mut tx, now, step).await?;
    if done.changed.is_empty() {
        tx.rollback().await?;
    } else {
        for entry in done.entries(step, time_from_millis(0)) {
            write_entry::<DB>(&mut tx, now, &entry).await?;
        }
        tx.commit().await?;
    }
    conn.done();
    Ok(done)
}

async fn carry_out_step<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    step: &BulkStep,
) -> sqlx::Result<BulkStepDone> {
    let (verbs, settle) = (VerbStatements::of(DB::KIND), SettleStatements::of(DB::KIND));
    let slices = step.slices.iter().filter(|slice| step.verb.applies_to(slice.status));
    let rows = slices.flat_map(|slice| slice.notices.iter().map(|target| VerbRow::new(target, slice.status)));
    let rows: Vec<VerbRow> = rows.collect();
    if rows.is_empty() {
        return Ok(BulkStepDone::default());
    }
    let batch = json(&rows)?;
    let args = [now, batch.as_str().into()];
    let mut done = BulkStepDone::default();
    match &step.verb {
        BulkVerb::Retry => {
            let held = DB::fetch(tx, &verbs.lock_to_revive, &args).await?;
            let mut keys = HashMap::new();
            for row in &held {
                let key = DB::text(row, Held::AT.key)?;
                let owner = required::<DB>(row, Held::AT.def_id)?;
                keys.insert(required::<DB>(row, Held::AT.id)?, key.map(|key| (owner, key)));
            }
            let with_key =
                keys.iter().filter_map(|(id, key)| key.as_ref().map(|(owner, key)| (*id, (*owner, key.as_str()))));
            let taken = keys_taken::<DB>(tx, now, with_key).await?;
            // Of several dead letters with the same dedupe key, the first one gets it.
            let mut given = HashSet::new();
            let may = |row: &VerbRow| match keys.get(&row.notice_id) {
                None => None,
                Some(None) => Some(true),
                Some(Some(key)) => Some(!taken.contains_key(&row.notice_id) && given.insert(key)),
            };
            let (mut revived, mut may) = (Vec::new(), may);
            for row in rows {
                match may(&row) {
                    Some(true) => revived.push(row),
                    Some(false) => done.dedupe_key_taken.push(row.notice_id),
                    None => {}
                }
            }
            if !revived.is_empty() {
                revive::<DB>(tx, now, &revived).await?;
            }
            done.changed = revived.iter().map(|row| row.notice_id).collect();
        }
        BulkVerb::Reschedule => {
            let held = DB::fetch(tx, &settle.lock, &args).await?;
            done.changed = numbers::<DB>(&held)?;
            if !done.changed.is_empty() {
                let held: HashSet<i64> = done.changed.iter().copied().collect();
                let rows: Vec<VerbRow> = rows.into_iter().filter(|row| held.contains(&row.notice_id)).collect();
                let batch = json(&rows)?;
                DB::execute(tx, &verbs.retime_step, &[args[0], batch.as_str().into()]).await?;
            }
        }
        BulkVerb::Cancel { reason } => {
            let held = DB::fetch(tx, &settle.lock, &args).await?;
            done.changed = numbers::<DB>(&held)?;
            if !done.changed.is_empty() {
                cancel::<DB>(tx, now, &done.changed, reason).await?;
            }
        }
        BulkVerb::Purge { .. } => {
            let held = DB::fetch(tx, &verbs.lock_to_purge, &args).await?;
            done.purged = held.iter().map(read_purged::<DB>).collect::<sqlx::Result<_>>()?;
            done.changed = done.purged.iter().map(|row| row.id).collect();
            if !done.changed.is_empty() {
                DB::execute(tx, &settle.evict, &[now, Arg::Ids(&done.changed)]).await?;
            }
        }
    }
    Ok(done)
}
