//! Settles a batch in one transaction: locks the notices whose fence still holds, moves ended ones to history, and sets the next
//! time of the others. One statement does each step, or a shortcut does all of them. A refused outcome affects no other.

pub(crate) mod pass_on;
pub(crate) mod row;
pub(crate) mod statements;
pub(crate) mod twice;

use std::collections::HashMap;

use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::Status;
use solid_notify_core::store::{Settle, Settled, StoredState};
use solid_notify_core::transition::Next;

use crate::alerts;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::fault::{fault, is_unique_violation};
use crate::dialect::row::explain;
use crate::dialect::statement::{Arg, Statement, json};
use crate::fence::Fences;
use crate::limits;
use crate::ordering::{keys_of_ended, unblock};
use crate::settle::pass_on::{changed, pass_on};
use crate::settle::row::{Fenced, NewState, read_stored};
use crate::settle::statements::SettleStatements;
use crate::settle::twice::make_room;
use crate::shortcuts::MetLock;
use crate::shortcuts::archive_bare::archive_bare;
use crate::shortcuts::settle_at_once::{at_once, settle_at_once};
use crate::shortcuts::settle_bare::{bare, settle_bare};

/// What a batch meets that the fences do not say.
#[derive(Default)]
struct Met {
    /// The notices whose outcomes were decided by rows of targets that have changed.
    changed: Vec<i64>,
    /// The end reasons of notices that were passed on while targets kept earlier ones, instead of the decided reasons.
    reasons: HashMap<i64, String>,
}

/// How a batch is written: by the plain path, or by a shortcut, which is one statement.
#[derive(Clone, Copy)]
enum Way {
    /// One statement for each step. `evict`: rows of history make room whose ids were given to new notices.
    Steps { evict: bool },
    /// See [`settle_at_once`].
    AtOnce(&'static Statement),
    /// See [`settle_bare`].
    Bare(&'static Statement),
}

impl Way {
    fn of<DB: Dialect>(met_lock: &MetLock, batch: &[Settle]) -> Self {
        bare::<DB>(met_lock, batch).map(Self::Bare).unwrap_or_else(|| Self::beside_locks::<DB>(batch))
    }

    /// The way that skips locked rows.
    fn beside_locks<DB: Dialect>(batch: &[Settle]) -> Self {
        at_once::<DB>(batch).map_or(Self::Steps { evict: false }, Self::AtOnce)
    }

    /// Returns the way to try after this one has failed, if another one may succeed.
    fn after<DB: Dialect>(self, error: &sqlx::Error, met_lock: &MetLock, batch: &[Settle]) -> Option<Self> {
        match self {
            Self::Steps { evict: true } => None,
            // The only unique index that a settle can violate is on the ids of history.
            _ if is_unique_violation(error) => Some(Self::Steps { evict: true }),
            Self::Bare(_) if fault::<DB>(error) == FaultKind::Conflict => {
                met_lock.note();
                Some(Self::beside_locks::<DB>(batch))
            }
            _ => None,
        }
    }
}

pub(crate) async fn settle<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    met_lock: &MetLock,
    batch: &[Settle],
) -> sqlx::Result<Vec<Settled>> {
    let mut way = Way::of::<DB>(met_lock, batch);
    loop {
        match settle_once(on, now, batch, way).await {
            Err(error) => way = way.after::<DB>(&error, met_lock, batch).ok_or(error)?,
            done => return done,
        }
    }
}

async fn settle_once<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    batch: &[Settle],
    way: Way,
) -> sqlx::Result<Vec<Settled>> {
    let mut conn = on.get().await?;
    let keyed = batch.iter().any(|settle| settle.ordering_key.is_some());
    let mut met = Met::default();
    let unwritten = if keyed || matches!(way, Way::Steps { .. }) {
        let mut tx = conn.begin().await?;
        match write_and_unblock::<DB>(&mut tx, now, batch, way, &mut met).await {
            Ok(unwritten) => {
                tx.commit().await?;
                unwritten
            }
            Err(error) => {
                // At once, not when the pool meets the connection again: the next try would wait for the locks of this one.
                _ = tx.rollback().await;
                return Err(error);
            }
        }
    } else {
        // A single statement is its own transaction.
        write::<DB>(&mut conn, now, batch, way, &mut met).await?
    };
    let stored = |settle: &Settle| met.reasons.get(&settle.id).cloned().map_or(Settled::Stored, Settled::PassedOn);
    let mut settled: Vec<Settled> = batch.iter().map(stored).collect();
    if !unwritten.is_empty() {
        let ids = unwritten.of(batch).map(|settle| settle.id).collect::<Vec<_>>();
        let rows = DB::fetch(&mut conn, &SettleStatements::of(DB::KIND).verify, &[now, Arg::Ids(&ids)]).await?;
        let mut stored = rows.iter().map(read_stored::<DB>).collect::<sqlx::Result<Vec<_>>>()?;
        // The live one last, so that it wins where an ended notice has the same id: the outcome is the live one's.
        stored.sort_by_key(|(_, stored)| !stored.status.is_some_and(Status::is_final));
        let stored = HashMap::<i64, StoredState>::from_iter(stored);
        for (answer, settle) in settled.iter_mut().zip(batch) {
            if unwritten.has(settle) {
                *answer = match met.changed.contains(&settle.id) {
                    true => Settled::Changed,
                    false => settle.judge(stored.get(&settle.id)),
                };
            }
        }
    }
    conn.done();
    Ok(settled)
}

/// As [`write`], and lets the next notices of the ordering keys go. In one transaction: otherwise a process that dies in between leaves them
/// blocked.
async fn write_and_unblock<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    batch: &[Settle],
    way: Way,
    met: &mut Met,
) -> sqlx::Result<Fences> {
    let unwritten = write::<DB>(tx, now, batch, way, met).await?;
    let ended = keys_of_ended(batch.iter().filter(|settle| !unwritten.has(settle)));
    unblock::<DB>(tx, now, ended).await?;
    Ok(unwritten)
}

/// Writes the outcomes whose fence holds. Returns the fences of the others, and adds to `met` what else the caller has to know.
async fn write<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    batch: &[Settle],
    way: Way,
    met: &mut Met,
) -> sqlx::Result<Fences> {
    match way {
        Way::Steps { evict } => settle_by_steps::<DB>(conn, now, batch, evict, met).await,
        Way::AtOnce(at_once) => settle_at_once::<DB>(conn, now, at_once, batch).await,
        Way::Bare(bare) => settle_bare::<DB>(conn, now, bare, batch).await,
    }
}

/// Locks the notices whose fence holds and writes their new state. Returns as [`write`] does.
async fn settle_by_steps<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    batch: &[Settle],
    evict: bool,
    met: &mut Met,
) -> sqlx::Result<Fences> {
    let statements = SettleStatements::of(DB::KIND);
    let sent = json(&batch.iter().map(Fenced::new).collect::<Vec<_>>())?;
    let mut held = Fences::read::<DB>(&DB::fetch(tx, &statements.lock, &[now, sent.as_str().into()]).await?)?;
    met.changed = changed::<DB>(tx, now, held.of(batch)).await?;
    held.leave(&met.changed);
    let inserted = pass_on::<DB>(tx, now, held.of(batch)).await?;
    held.leave(&inserted.blocked);
    let with_kept = |settle: &Settle| Some((settle.id, settle.reason_with(inserted.kept.get(&settle.id)?)?));
    met.reasons = held.of(batch).filter_map(with_kept).collect();
    let (mut ended, mut kept, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for settle in held.of(batch) {
        match &settle.transition.next {
            Next::Wait { .. } => waiting.push(NewState::new(settle)),
            Next::Finish { keep, .. } => {
                ended.push(settle.id);
                kept.extend(keep.then_some(settle));
            }
        }
    }
    if evict && !kept.is_empty() {
        let ids = kept.iter().map(|settle| settle.id).collect::<Vec<_>>();
        make_room::<DB>(tx, now, &ids).await?;
    }
    let kept = archive_bare::<DB>(tx, now, kept).await?;
    if !kept.is_empty() {
        let ended = |settle| NewState::new(settle).because(met.reasons.get(&settle.id));
        let rows = json(&kept.into_iter().map(ended).collect::<Vec<_>>())?;
        DB::execute(tx, &statements.archive, &[now, rows.as_str().into()]).await?;
    }
    if !ended.is_empty() {
        DB::execute(tx, &statements.remove, &[now, Arg::Ids(&ended)]).await?;
    }
    if !waiting.is_empty() {
        DB::execute(tx, &statements.reschedule, &[now, json(&waiting)?.as_str().into()]).await?;
    }
    let opened = limits::count_outcomes::<DB>(tx, now, held.of(batch)).await?;
    let alarms = held.of(batch).filter_map(|settle| settle.alarm.as_deref()).chain(opened);
    alerts::apply::<DB>(tx, now, alarms).await?;
    Ok(held.others(batch))
}

/// Has the database explain the statements of [`end_one`].
pub(crate) async fn explain_end<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    settle: &Settle,
) -> sqlx::Result<()> {
    let statements = SettleStatements::of(DB::KIND);
    let id = Arg::Ids(std::slice::from_ref(&settle.id));
    explain::<DB>(conn, &statements.evict, &[now, id]).await?;
    explain::<DB>(conn, &statements.archive, &[now, json(&[NewState::new(settle)])?.as_str().into()]).await?;
    explain::<DB>(conn, &statements.remove, &[now, id]).await
}

/// Ends a notice that the caller has locked, in the caller's transaction.
pub(crate) async fn end_one<DB: Dialect>(conn: &mut DB::Connection, now: Arg<'_>, settle: &Settle) -> sqlx::Result<()> {
    let statements = SettleStatements::of(DB::KIND);
    let id = Arg::Ids(std::slice::from_ref(&settle.id));
    // Makes room where an ended notice has the same id, because an error would end the caller's transaction.
    if !DB::fetch(conn, &statements.has_ended, &[now, settle.id.into()]).await?.is_empty() {
        make_room::<DB>(conn, now, std::slice::from_ref(&settle.id)).await?;
    }
    DB::execute(conn, &statements.archive, &[now, json(&[NewState::new(settle)])?.as_str().into()]).await?;
    DB::execute(conn, &statements.remove, &[now, id]).await?;
    unblock::<DB>(conn, now, keys_of_ended(std::iter::once(settle))).await
}
