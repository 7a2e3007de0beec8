//! Settles a batch in one transaction: locks the notices whose fence still holds, moves ended ones to history, and sets the next
//! time of the others. One statement does each step, or a shortcut does all of them. A refused outcome affects no other.

pub(crate) mod row;
pub(crate) mod statements;

use std::collections::HashMap;

use solid_notify_core::notice::Status;
use solid_notify_core::store::{Settle, Settled, StoredState};
use solid_notify_core::transition::Next;

use crate::alerts;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::fault::is_unique_violation;
use crate::dialect::statement::{Arg, json};
use crate::fence::Fences;
use crate::limits;
use crate::ordering::{keys_of_ended, unblock};
use crate::settle::row::{Fenced, NewState, PassedOn, read_stored};
use crate::settle::statements::SettleStatements;
use crate::shortcuts::MetLock;
use crate::shortcuts::settle::{Shortcut, archive_bare};

pub(crate) async fn settle<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    met_lock: &MetLock,
    batch: &[Settle],
) -> sqlx::Result<Vec<Settled>> {
    let mut shortcut = Shortcut::of::<DB>(met_lock, batch);
    let mut evict = false;
    loop {
        match settle_once(on, now, batch, shortcut, evict).await {
            // The only unique index that a settle can violate is on the ids of history.
            Err(error) if !evict && is_unique_violation(&error) => (shortcut, evict) = (None, true),
            Err(error) => match shortcut.and_then(|shortcut| shortcut.after::<DB>(&error, met_lock)) {
                Some(other) => shortcut = Some(other),
                None => return Err(error),
            },
            done => return done,
        }
    }
}

/// Settles a batch by its shortcut or in steps. With `evict`, rows of history are deleted whose ids were given to new notices.
async fn settle_once<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    batch: &[Settle],
    shortcut: Option<Shortcut>,
    evict: bool,
) -> sqlx::Result<Vec<Settled>> {
    let mut conn = on.get().await?;
    let keyed = batch.iter().any(|settle| settle.ordering_key.is_some());
    let unwritten = match shortcut {
        Some(shortcut) if !keyed => shortcut.settle::<DB>(&mut conn, now, batch).await?,
        _ => {
            let mut tx = conn.begin().await?;
            let unwritten = if let Some(shortcut) = shortcut {
                shortcut.settle::<DB>(&mut tx, now, batch).await?
            } else {
                settle_by_steps::<DB>(&mut tx, now, batch, evict).await?
            };
            // In the transaction of the end: otherwise a process that dies in between leaves the next notice blocked.
            let ended = keys_of_ended(batch.iter().filter(|settle| !unwritten.has(settle)));
            unblock::<DB>(&mut tx, now, ended).await?;
            tx.commit().await?;
            unwritten
        }
    };
    let mut settled = vec![Settled::Stored; batch.len()];
    if !unwritten.is_empty() {
        let ids = unwritten.of(batch).map(|settle| settle.id).collect::<Vec<_>>();
        let rows = DB::fetch(&mut conn, &SettleStatements::of(DB::KIND).verify, &[now, Arg::Ids(&ids)]).await?;
        let mut stored = rows.iter().map(read_stored::<DB>).collect::<sqlx::Result<Vec<_>>>()?;
        // The live one last, so that it wins where an ended notice has the same id: the outcome is the live one's.
        stored.sort_by_key(|(_, stored)| !stored.status.is_some_and(Status::is_final));
        let stored = HashMap::<i64, StoredState>::from_iter(stored);
        for (answer, settle) in settled.iter_mut().zip(batch) {
            if unwritten.has(settle) {
                *answer = settle.judge(stored.get(&settle.id));
            }
        }
    }
    conn.done();
    Ok(settled)
}

/// Locks the notices whose fence holds and writes their new state. Returns the fences of the others.
async fn settle_by_steps<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    batch: &[Settle],
    evict: bool,
) -> sqlx::Result<Fences> {
    let statements = SettleStatements::of(DB::KIND);
    let sent = json(&batch.iter().map(Fenced::new).collect::<Vec<_>>())?;
    let held = Fences::read::<DB>(&DB::fetch(tx, &statements.hold, &[now, sent.as_str().into()]).await?)?;
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
        let evicted = DB::execute(tx, &statements.evict, &[now, Arg::Ids(&ids)]).await?.rows;
        tracing::error!(
            evicted,
            ?ids,
            "ids of ended notices were given to new ones; the new ones replace them in notify_msg_history"
        );
    }
    pass_on::<DB>(tx, now, held.of(batch)).await?;
    let kept = archive_bare::<DB>(tx, now, kept).await?;
    if !kept.is_empty() {
        let rows = json(&kept.into_iter().map(NewState::new).collect::<Vec<_>>())?;
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

/// Inserts the notices of targets. They are copies of the notices that are passed on, which are still there.
async fn pass_on<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    held: impl Iterator<Item = &Settle>,
) -> sqlx::Result<()> {
    let mut passed: Vec<(i64, i64)> =
        held.flat_map(|settle| settle.pass_to.iter().map(|target| (settle.id, *target))).collect();
    if passed.is_empty() {
        return Ok(());
    }
    // In one order, so that two sweepers with the same dedupe keys do not wait for each other.
    passed.sort_unstable();
    let row = |(place, (notice_id, target)): (usize, (i64, i64))| PassedOn { place, notice_id, target };
    let rows = json(&passed.into_iter().enumerate().map(row).collect::<Vec<_>>())?;
    DB::execute(tx, &SettleStatements::of(DB::KIND).pass_on, &[now, rows.as_str().into()]).await?;
    Ok(())
}

/// Ends a notice that the caller has locked.
pub(crate) async fn end_one<DB: Dialect>(conn: &mut DB::Connection, now: Arg<'_>, settle: &Settle) -> sqlx::Result<()> {
    let statements = SettleStatements::of(DB::KIND);
    let id = Arg::Ids(std::slice::from_ref(&settle.id));
    // Deletes an ended notice with the same id, because an error would end the caller's transaction.
    DB::execute(conn, &statements.evict, &[now, id]).await?;
    DB::execute(conn, &statements.archive, &[now, json(&[NewState::new(settle)])?.as_str().into()]).await?;
    DB::execute(conn, &statements.remove, &[now, id]).await?;
    unblock::<DB>(conn, now, keys_of_ended(std::iter::once(settle))).await
}
