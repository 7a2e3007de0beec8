//! The operator's verbs in the database: lock, decide, change, and write the audit entry, in one transaction.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use solid_notify_core::notice::{NoticeRecord, Status, millis_from_time, time_from_millis};
use solid_notify_core::operate::{AuditEntry, Change, Target, Verb, VerbResult, Window, WindowDone, decide, detail};

use crate::claim::blocked::{keys_of, unblock};
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::{Kind, Ty};
use crate::dialect::row::required;
use crate::dialect::statement::{Arg, Statement};
use crate::operate::audit::write_entry;
use crate::settle::statements::HISTORY;
use crate::statements::statements;
use crate::store::{SqlStore, json};

statements! {
    VerbStatements:
    hold_ended,
    revive,
    cancel,
    retime,
    retime_window,
    rewrite,
}

/// The columns of a live notice.
const LIVE: &str = "id, def_id, param, description, errors, status, fence, failures, crashes, worker, last_class, \
     last_call_time, next_call_time, create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context";

impl VerbStatements {
    pub(crate) fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let ids = kind.batch("$2", &[("notice_id", Ty::Int), ("fence", Ty::Int), ("was", Ty::Int)]);
        let due = |at: &str| kind.later(&kind.epoch_time(at), &now);
        Self {
            // The notices of a window that are unchanged. Locked ones are skipped, because another session purges or revives
            // them. So is an ended notice whose id a live notice has as well (a restored sequence).
            hold_ended: statement(format!(
                "SELECT m.id, CASE WHEN m.fence = 0 OR m.dedupe_until_ended THEN m.dedupe_key END {}",
                kind.batch_rows(
                    &ids,
                    "notify_msg_history",
                    "m.fence = b.fence AND m.status + 0 = b.was
                     AND NOT EXISTS (SELECT 1 FROM notify_msg o WHERE o.id = m.id)",
                    kind.lock(),
                )
            )),
            // Keeps the fence. A notice that was never claimed becomes "not sent".
            revive: statement(format!(
                "INSERT INTO notify_msg ({LIVE})
                 SELECT m.id, m.def_id, m.param, m.description, m.errors, CASE WHEN m.fence > 0 THEN 2 ELSE 0 END,
                        m.fence, 0, 0, m.worker, m.last_class, m.last_call_time, {}, m.create_time, m.dedupe_key,
                        m.dedupe_until_ended, m.ordering_key, m.trace_context {}",
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
                        m.ordering_key, m.trace_context, {now}, $3 {}",
                kind.listed_rows("$2", "notify_msg", "true", "")
            )),
            retime: statement(format!(
                "UPDATE notify_msg SET next_call_time = {}, blocked_since = NULL WHERE id = $2",
                due("$3")
            )),
            retime_window: statement(kind.batch_update(
                &kind.batch("$2", &[("notice_id", Ty::Int), ("due", Ty::Int)]),
                "notify_msg",
                &format!("next_call_time = {}, blocked_since = NULL", due("b.due")),
                "",
            )),
            rewrite: statement(format!("UPDATE notify_msg SET param = {} WHERE id = $2", kind.to_json("$3"))),
        }
    }
}

/// A notice of a window, as the statements `hold`, `hold_ended` and `revive` read it.
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

impl<DB: Dialect> SqlStore<DB> {
    pub(crate) async fn try_change(&self, on: &Share<DB>, id: i64, verb: &Verb, who: &str) -> sqlx::Result<VerbResult> {
        let mut conn = on.get().await?;
        let mut tx = conn.begin().await?;
        let Some(notice) = self.lock_record(&mut tx, id).await? else {
            tx.rollback().await?;
            conn.done();
            return Ok(VerbResult::NotFound);
        };
        let now = self.time(&mut tx).await?;
        let answer = match decide(&notice, verb, now) {
            Ok(change) => self.carry_out(&mut tx, &notice, &change).await?,
            Err(answer) => answer,
        };
        if answer.is_done() {
            let mut entry = AuditEntry::new(now, who, verb.act());
            (entry.def_id, entry.notice_id) = (Some(notice.def_id), Some(id));
            entry.detail = Some(detail(&notice, verb));
            write_entry::<DB>(&mut tx, self.now(), &entry).await?;
            tx.commit().await?;
        } else {
            tx.rollback().await?;
        }
        conn.done();
        Ok(answer)
    }

    async fn carry_out(
        &self,
        tx: &mut DB::Connection,
        notice: &NoticeRecord,
        change: &Change,
    ) -> sqlx::Result<VerbResult> {
        let statements = &DB::statements().verbs;
        let id = notice.id;
        match change {
            Change::Revive { param } => {
                let keys = notice.unique_key().map(|key| (id, key));
                if let Some(other) = self.keys_taken(tx, notice.def_id, keys.into_iter()).await?.into_values().next() {
                    return Ok(VerbResult::DedupeKeyTaken(other));
                }
                // A time long ago: due now.
                let target = Target { id, fence: notice.fence, due: time_from_millis(0) };
                self.revive(tx, &[VerbRow::new(&target, notice.status)]).await?;
                if let Some(param) = param {
                    self.update(tx, &statements.rewrite, id, param.as_str().into()).await?;
                }
            }
            Change::Retime { at } => {
                self.update(tx, &statements.retime, id, Arg::from(millis_from_time(*at))).await?;
            }
            Change::Rewrite { param } => self.update(tx, &statements.rewrite, id, param.as_str().into()).await?,
            Change::End { reason, .. } => self.cancel(tx, &[id], reason).await?,
            Change::Nothing => {}
        }
        Ok(change.answer())
    }

    async fn update(&self, tx: &mut DB::Connection, statement: &Statement, id: i64, to: Arg<'_>) -> sqlx::Result<()> {
        DB::execute(tx, statement, &[self.now(), id.into(), to]).await?;
        Ok(())
    }

    /// Returns which of these notices have a dedupe key that a live notice has, and the id of that live notice.
    async fn keys_taken<'k>(
        &self,
        tx: &mut DB::Connection,
        def_id: i64,
        keys: impl Iterator<Item = (i64, &'k str)>,
    ) -> sqlx::Result<HashMap<i64, i64>> {
        let keys: Vec<(i64, &str)> = keys.collect();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let batch = keys.iter().map(|(_, key)| serde_json::json!({ "owner": def_id, "own_key": key }));
        let batch = serde_json::Value::from_iter(batch).to_string();
        let rows = DB::fetch(tx, &DB::statements().add.duplicates, &[self.now(), batch.as_str().into()]).await?;
        let mut live = HashMap::new();
        for row in &rows {
            live.insert(DB::text(row, 2)?.unwrap_or_default(), required::<DB>(row, 0)?);
        }
        Ok(keys.into_iter().filter_map(|(id, key)| live.get(key).map(|other| (id, *other))).collect())
    }

    /// Moves ended notices back to the live ones.
    async fn revive(&self, tx: &mut DB::Connection, rows: &[VerbRow]) -> sqlx::Result<()> {
        let statements = DB::statements();
        let batch = json(&rows)?;
        DB::execute(tx, &statements.verbs.revive, &[self.now(), batch.as_str().into()]).await?;
        let ids = rows.iter().map(|row| row.notice_id).collect::<Vec<_>>();
        DB::execute(tx, &statements.settle.evict, &[self.now(), Arg::Ids(&ids)]).await?;
        Ok(())
    }

    /// Moves live notices to history as cancelled. As in a settle, deletes rows of history that have the same ids (ids that were
    /// given twice).
    async fn cancel(&self, tx: &mut DB::Connection, ids: &[i64], reason: &str) -> sqlx::Result<()> {
        let statements = DB::statements();
        let args = [self.now(), Arg::Ids(ids), reason.into()];
        let keys = keys_of::<DB>(tx, self.now(), ids).await?;
        DB::execute(tx, &statements.settle.evict, &args[..2]).await?;
        DB::execute(tx, &statements.verbs.cancel, &args).await?;
        DB::execute(tx, &statements.settle.remove, &args[..2]).await?;
        unblock::<DB>(tx, self.now(), keys).await
    }

    pub(crate) async fn try_change_window(&self, on: &Share<DB>, window: &Window) -> sqlx::Result<WindowDone> {
        let mut conn = on.get().await?;
        let mut tx = conn.begin().await?;
        let done = self.window(&mut tx, window).await?;
        if done.changed.is_empty() {
            tx.rollback().await?;
        } else {
            let mut entry = AuditEntry::new(time_from_millis(0), window.who.as_str(), window.verb.act());
            (entry.def_id, entry.detail) = (Some(window.def_id), Some(done.detail(window)));
            write_entry::<DB>(&mut tx, self.now(), &entry).await?;
            tx.commit().await?;
        }
        conn.done();
        Ok(done)
    }

    async fn window(&self, tx: &mut DB::Connection, window: &Window) -> sqlx::Result<WindowDone> {
        let statements = DB::statements();
        let rows: Vec<VerbRow> = window.notices.iter().map(|target| VerbRow::new(target, window.status)).collect();
        let batch = json(&rows)?;
        let args = [self.now(), batch.as_str().into()];
        let mut done = WindowDone::default();
        match &window.verb {
            Verb::Retry if window.status.is_final() => {
                let held = DB::fetch(tx, &statements.verbs.hold_ended, &args).await?;
                let mut keys = HashMap::new();
                for row in &held {
                    keys.insert(required::<DB>(row, 0)?, DB::text(row, 1)?);
                }
                let with_key = keys.iter().filter_map(|(id, key)| key.as_deref().map(|key| (*id, key)));
                let taken = self.keys_taken(tx, window.def_id, with_key).await?;
                // Of several dead letters with the same dedupe key, the first one gets it.
                let mut given = HashSet::new();
                let may = |row: &VerbRow| match keys.get(&row.notice_id) {
                    None => None,
                    Some(None) => Some(true),
                    Some(Some(key)) => Some(!taken.contains_key(&row.notice_id) && given.insert(key.as_str())),
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
                    self.revive(tx, &revived).await?;
                }
                done.changed = revived.iter().map(|row| row.notice_id).collect();
            }
            Verb::Reschedule { .. } if matches!(window.status, Status::NotSent | Status::Failed) => {
                let held = DB::fetch(tx, &statements.settle.hold, &args).await?;
                done.changed = held.iter().map(|row| required::<DB>(row, 0)).collect::<sqlx::Result<_>>()?;
                if !done.changed.is_empty() {
                    let held: HashSet<i64> = done.changed.iter().copied().collect();
                    let rows: Vec<VerbRow> = rows.into_iter().filter(|row| held.contains(&row.notice_id)).collect();
                    let batch = json(&rows)?;
                    DB::execute(tx, &statements.verbs.retime_window, &[args[0], batch.as_str().into()]).await?;
                }
            }
            Verb::Cancel { reason } if !window.status.is_final() => {
                let held = DB::fetch(tx, &statements.settle.hold, &args).await?;
                done.changed = held.iter().map(|row| required::<DB>(row, 0)).collect::<sqlx::Result<_>>()?;
                if !done.changed.is_empty() {
                    self.cancel(tx, &done.changed, reason).await?;
                }
            }
            _ => {}
        }
        Ok(done)
    }
}
