//! Inserts the notices of targets: with the outcome of the notice that is passed on, or in parts before it. They are copies of that
//! notice, which is still there.
//!
//! Where a target still has an earlier notice of the dedupe key, it keeps that one, and the caller gets to know which one it is.
//!
//! Where another transaction has inserted the dedupe key that a target would get, and has not ended, an insert would wait for it, with all
//! locks of its own transaction. So notices with a key are passed on one by one, each within a savepoint, and none waits.

use std::collections::HashMap;

use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{Kept, PassOn, PassedOn, SeenTarget, Settle, TargetRow, same_targets};
use sqlx::Connection;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::fault::fault;
use crate::dialect::kind::{Kind, Ty};
use crate::dialect::row::{columns, numbers, required, required_text};
use crate::dialect::statement::{Arg, Statement, json, statements};
use crate::fence::lock_sending;
use crate::own;
use crate::settle::row::ToTarget;

/// The columns of a notice that is passed on to a target.
const PASSED_ON: &str = "def_id, param, description, trace_context, tag, ordering_key, dedupe_key, dedupe_until_ended, max_tries, \
     expires_at, parent_id, create_time, next_call_time";

columns! {
    /// A definition, as far as it decides which notices a target gets.
    TargetColumns(kind: Kind):
    id = "d.id";
    of = "d.target_of";
    filter = "d.target_filter";
    deleted = kind.moment("d.delete_time");
}

columns! {
    /// The notice that has the dedupe key which a target would get. (The fence is in no index, see [`Kind::lock_shared`].)
    Holder():
    target = "b.target";
    id = "t.id";
    is_passed_on = "CASE WHEN t.parent_id = m.id THEN 1 ELSE 0 END";
    _fence = "t.fence";
}

columns! {
    Progress():
    targets = "p.targets";
    done = "p.done";
}

statements! {
    PassOnStatements:
    pass_on,
    pass_on_keyed,
    keyed,
    holders,
    lock_to_pass_on,
    families,
    passing,
    begin_passing,
    note_passing,
    old_passing,
    forget_passing,
}

impl PassOnStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        let now = kind.now();
        let passed = kind.batch("$2", &[("place", Ty::Int), ("notice_id", Ty::Int), ("target", Ty::Int)]);
        let notices = kind.notices_of_batch();
        // A target has one live notice of a dedupe key. The batch has the notices in the order of their ids, so those of a key stay
        // in their order.
        let pass_on = |condition: &str| {
            statement(kind.insert_unless_duplicate(&format!(
                "INTO notify_msg ({PASSED_ON})
                 SELECT b.target, m.param, m.description, m.trace_context, m.tag, m.ordering_key, m.dedupe_key,
                        m.dedupe_until_ended, m.max_tries, m.expires_at, m.id, {now}, {now}
                 FROM {passed}
                 {notices}
                 WHERE {condition}
                 ORDER BY b.place"
            )))
        };
        Self {
            pass_on: pass_on("true"),
            pass_on_keyed: pass_on(kind.wait_briefly().unwrap_or("true")),
            keyed: statement(format!(
                "SELECT m.id FROM notify_msg m WHERE {} AND m.dedupe_key IS NOT NULL",
                kind.listed("m.id", "$2")
            )),
            holders: statement(format!(
                "SELECT {columns} FROM {passed} {notices} {holders}",
                columns = Holder::list(),
                holders = kind.holders_of_keys()
            )),
            lock_to_pass_on: statement(lock_sending(kind)),
            // Definitions and their targets.
            families: statement(format!(
                "SELECT {columns} FROM notify_def d WHERE {itself} OR {target}",
                columns = TargetColumns::list(kind),
                itself = kind.listed("d.id", "$2"),
                target = kind.listed("d.target_of", "$2")
            )),
            passing: statement(format!("SELECT {} FROM notify_passing p WHERE p.notice_id = $2", Progress::list())),
            begin_passing: statement("INSERT INTO notify_passing (notice_id, targets, done) VALUES ($2, $3, 0)".into()),
            note_passing: statement("UPDATE notify_passing SET done = $3, targets = $4 WHERE notice_id = $2".into()),
            old_passing: statement(own::orphans("notify_passing p", "p")),
            forget_passing: statement(format!("DELETE FROM notify_passing WHERE {}", kind.listed("notice_id", "$2"))),
        }
    }
}

/// Returns the notices of these outcomes that were decided by rows which have changed since then. The rows are read in the transaction that
/// stores the outcomes, so an edit that was committed before decides.
pub(crate) async fn changed<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    held: impl Iterator<Item = &Settle>,
) -> sqlx::Result<Vec<i64>> {
    let decided: Vec<_> =
        held.filter_map(|settle| Some((settle.id, settle.def_id, settle.decided_by.as_deref()?))).collect();
    if decided.is_empty() {
        return Ok(Vec::new());
    }
    let mut definitions: Vec<i64> = decided.iter().map(|(_, def_id, _)| *def_id).collect();
    definitions.sort_unstable();
    definitions.dedup();
    let rows = families::<DB>(tx, now, &definitions).await?;
    let differs = decided.into_iter().filter(|(_, def_id, by)| !by.still_holds(*def_id, &rows));
    Ok(differs.map(|(id, ..)| id).collect())
}

/// Reads definitions and their targets.
async fn families<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    definitions: &[i64],
) -> sqlx::Result<Vec<TargetRow>> {
    const AT: TargetColumns = TargetColumns::AT;
    let rows = DB::fetch(conn, &PassOnStatements::of(DB::KIND).families, &[now, Arg::Ids(definitions)]).await?;
    let read = |row: &DB::Row| {
        Ok(TargetRow {
            seen: SeenTarget { id: required::<DB>(row, AT.id)?, filter: DB::text(row, AT.filter)? },
            of: DB::int(row, AT.of)?,
            is_deleted: DB::moment(row, AT.deleted)?.is_some(),
        })
    };
    rows.iter().map(read).collect()
}

/// What became of the notices of targets of some outcomes.
#[derive(Default)]
pub(crate) struct Inserted {
    /// The notices for which a dedupe key is held by another transaction. Of these nothing is inserted.
    pub(crate) blocked: Vec<i64>,
    /// The targets that kept an earlier notice, by the notice that was passed on.
    pub(crate) kept: HashMap<i64, Vec<Kept>>,
}

/// Inserts the notices of targets of these outcomes.
pub(crate) async fn pass_on<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    held: impl Iterator<Item = &Settle>,
) -> sqlx::Result<Inserted> {
    let mut passed: Vec<(i64, i64)> =
        held.flat_map(|settle| settle.pass_to.iter().map(|target| (settle.id, target.id))).collect();
    let mut inserted = Inserted::default();
    if passed.is_empty() {
        return Ok(inserted);
    }
    // In one order, so that two sweepers with the same dedupe keys do not wait for each other.
    passed.sort_unstable();
    let mut ids: Vec<i64> = passed.iter().map(|(id, _)| *id).collect();
    ids.dedup();
    let statements = PassOnStatements::of(DB::KIND);
    let keyed = numbers::<DB>(&DB::fetch(tx, &statements.keyed, &[now, Arg::Ids(&ids)]).await?)?;
    let (of_keyed, plain): (Vec<_>, Vec<_>) = passed.into_iter().partition(|(id, _)| keyed.contains(id));
    if !plain.is_empty() {
        DB::execute(tx, &statements.pass_on, &[now, rows(&plain)?.as_str().into()]).await?;
    }
    for of_one in of_keyed.chunk_by(|one, next| one.0 == next.0) {
        let Some((id, _)) = of_one.first() else { continue };
        match insert_keyed::<DB>(tx, now, of_one).await? {
            Some(kept) if kept.is_empty() => {}
            Some(kept) => drop(inserted.kept.insert(*id, kept)),
            None => inserted.blocked.push(*id),
        }
    }
    Ok(inserted)
}

/// Inserts the notices of targets of one notice that may have a dedupe key. Returns the targets that kept an earlier notice of the key; `None`,
/// and inserts none, where another transaction holds the key of one of them.
async fn insert_keyed<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    passed: &[(i64, i64)],
) -> sqlx::Result<Option<Vec<Kept>>> {
    let rows = rows(passed)?;
    let args = [now, rows.as_str().into()];
    let mut point = tx.begin().await?;
    match insert_or_find::<DB>(&mut point, &args, passed.len()).await {
        Ok(Some(kept)) => point.commit().await.map(|()| Some(kept)),
        Ok(None) => point.rollback().await.map(|()| None),
        Err(error) if fault::<DB>(&error) == FaultKind::Conflict => point.rollback().await.map(|()| None),
        Err(error) => Err(error),
    }
}

/// Inserts these notices, and returns which targets kept an earlier one; `None` where an earlier one has ended between the two.
async fn insert_or_find<DB: Dialect>(
    point: &mut DB::Connection,
    args: &[Arg<'_>],
    count: usize,
) -> sqlx::Result<Option<Vec<Kept>>> {
    let PassOnStatements { pass_on_keyed, holders, .. } = PassOnStatements::of(DB::KIND);
    // MySQL's shortest wait is a second, but a lock can be asked for without waiting.
    if DB::KIND.asks_for_keys() {
        DB::fetch(point, holders, args).await?;
    }
    if usize::try_from(DB::execute(point, pass_on_keyed, args).await?.rows).is_ok_and(|rows| rows == count) {
        return Ok(Some(Vec::new()));
    }
    const AT: Holder = Holder::AT;
    let rows = DB::fetch(point, holders, args).await?;
    let mut kept = Vec::new();
    for row in &rows {
        if required::<DB>(row, AT.is_passed_on)? == 0 {
            kept.push(Kept { target: required::<DB>(row, AT.target)?, notice: required::<DB>(row, AT.id)? });
        }
    }
    // Of a notice without a key there is none.
    Ok((rows.len() == count).then_some(kept))
}

/// The notices and their targets as the statements read them.
fn rows(passed: &[(i64, i64)]) -> sqlx::Result<String> {
    let row =
        |(place, (notice_id, target)): (usize, &(i64, i64))| ToTarget { place, notice_id: *notice_id, target: *target };
    json(&passed.iter().enumerate().map(row).collect::<Vec<_>>())
}

/// Passes a notice on to some of its targets.
pub(crate) async fn pass_on_part<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, part: &PassOn) -> sqlx::Result<PassedOn> {
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let result = carry_out::<DB>(&mut tx, now, part).await?;
    match &result {
        PassedOn::Part { .. } => tx.commit().await?,
        PassedOn::Changed | PassedOn::Busy => tx.rollback().await?,
    }
    conn.done();
    Ok(result)
}

async fn carry_out<DB: Dialect>(tx: &mut DB::Connection, now: Arg<'_>, part: &PassOn) -> sqlx::Result<PassedOn> {
    let statements = PassOnStatements::of(DB::KIND);
    let claim = [now, part.id.into(), part.fence.into()];
    if DB::fetch(tx, &statements.lock_to_pass_on, &claim).await?.is_empty() {
        return Ok(PassedOn::Busy);
    }
    let (targets, done, mut kept) = match DB::fetch(tx, &statements.passing, &claim[..2]).await?.first() {
        Some(row) => {
            let (text, done) =
                (required_text::<DB>(row, Progress::AT.targets)?, required::<DB>(row, Progress::AT.done)?);
            let (targets, kept) = progress(&text);
            (targets, usize::try_from(done).unwrap_or_default(), kept)
        }
        None => {
            let current = families::<DB>(tx, now, &[part.def_id]).await?;
            if !same_targets(&part.known, part.def_id, &current) {
                return Ok(PassedOn::Changed);
            }
            let text = listed(&part.targets, &[]);
            DB::execute(tx, &statements.begin_passing, &[now, part.id.into(), text.as_str().into()]).await?;
            (part.targets.clone(), 0, Vec::new())
        }
    };
    let (targets, next) = part.step(&targets, done);
    let passed: Vec<(i64, i64)> =
        targets.get(done..next).unwrap_or_default().iter().map(|target| (part.id, *target)).collect();
    if !passed.is_empty() {
        let Some(keep) = insert_keyed::<DB>(tx, now, &passed).await? else { return Ok(PassedOn::Busy) };
        kept.extend(keep);
        let (text, next) = (listed(&targets, &kept), i64::try_from(next).unwrap_or(i64::MAX));
        DB::execute(tx, &statements.note_passing, &[now, part.id.into(), next.into(), text.as_str().into()]).await?;
    }
    Ok(PassedOn::Part { targets, done: next, kept })
}

/// The targets as `notify_passing` has them: their ids, and behind one that kept an earlier notice `=` and the id of that notice.
fn listed(targets: &[i64], kept: &[Kept]) -> String {
    let target = |target: &i64| match kept.iter().find(|kept| kept.target == *target) {
        Some(kept) => format!("{target}={}", kept.notice),
        None => target.to_string(),
    };
    targets.iter().map(target).collect::<Vec<_>>().join(" ")
}

/// Reads what [`listed`] returned.
fn progress(text: &str) -> (Vec<i64>, Vec<Kept>) {
    let (mut targets, mut kept) = (Vec::new(), Vec::new());
    for word in text.split(' ') {
        let (target, notice) = word.split_once('=').map_or((word, None), |(target, notice)| (target, Some(notice)));
        let Ok(target) = target.parse() else { continue };
        targets.push(target);
        kept.extend(notice.and_then(|notice| notice.parse().ok()).map(|notice| Kept { target, notice }));
    }
    (targets, kept)
}

/// Deletes at most `limit` rows of progress whose notices are gone. Returns how many.
pub(crate) async fn purge<DB: Dialect>(conn: &mut DB::Connection, now: Arg<'_>, limit: i64) -> sqlx::Result<usize> {
    let PassOnStatements { old_passing, forget_passing, .. } = PassOnStatements::of(DB::KIND);
    own::forget::<DB>(conn, now, [old_passing, forget_passing], limit).await
}
