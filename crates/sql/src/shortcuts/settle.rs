//! Settles in one statement, and of bare successes: those that change no column but the status.

use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{Settle, Shape};

use crate::dialect::Dialect;
use crate::dialect::fault::fault;
use crate::dialect::kind::{Kind, Ty};
use crate::dialect::statement::{Arg, Statement, json, statements};
use crate::fence::Fences;
use crate::settle::row::NewState;
use crate::settle::statements::{HISTORY, SETTLED, archived, rescheduled, still_settles};
use crate::shortcuts::MetLock;

statements! {
    AtOnceStatements:
    archive_bare,
    [
        settle,
        settle_kept,
        settle_gone,
    ]
}

impl AtOnceStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        Self {
            archive_bare: statement(format!(
                "{copied}
                 {rows}",
                copied = bare_archived(kind),
                rows = kind.listed_rows("$2", "notify_msg", "true", "")
            )),
            settle: settle_at_once(kind).map(statement),
            settle_kept: settle_bare(kind, true).map(statement),
            settle_gone: settle_bare(kind, false).map(statement),
        }
    }
}

/// All steps of a settle in one statement. Only Postgres can change several tables in one: `held` locks and reads the notices,
/// and the other parts change only those. `held` has all columns of notice and batch, because Postgres knows no sizes of
/// the two results and would join them by comparing row with row.
fn settle_at_once(kind: Kind) -> Option<String> {
    if kind != Kind::Postgres {
        return None;
    }
    let fences = [("fence", Ty::Int), ("was", Ty::Int), ("overdue", Ty::Int), ("ends", Ty::Int), ("keep", Ty::Int)];
    let batch = kind.batch("$2", &[SETTLED, &fences[..]].concat());
    let columns = SETTLED.iter().map(|(name, _)| format!(", b.{name}")).collect::<String>();
    let (still_settles, lock) = (still_settles(kind), kind.lock());
    let (archived, rescheduled) = (archived(kind, "m"), rescheduled(kind));
    Some(format!(
        "WITH held AS MATERIALIZED (
             SELECT m.*, b.was, b.ends, b.keep{columns}
             FROM {batch}
             CROSS JOIN LATERAL (
                 SELECT m.*
                 FROM notify_msg m
                 WHERE m.id = b.notice_id AND {still_settles}{lock}
             ) AS m
         ),
         gone AS (DELETE FROM notify_msg AS m WHERE m.id = ANY (ARRAY(SELECT notice_id FROM held WHERE ends = 1))),
         kept AS (
             {archived}
             FROM held m
             WHERE m.ends = 1 AND m.keep = 1
         ),
         moved AS (
             UPDATE notify_msg AS m
             SET {rescheduled}
             FROM held b
             WHERE m.id = b.notice_id AND b.ends = 0 AND m.id = ANY (ARRAY(SELECT notice_id FROM held WHERE ends = 0)))
         SELECT notice_id, fence, was FROM held"
    ))
}

/// Ends bare successes, given as two arrays of Postgres: ids in `$2`, fences in `$3`. Returns those that it did not find, with the status "sending".
///
/// It waits for rows that another session locks, but only for a moment. Then it fails and has changed nothing.
fn settle_bare(kind: Kind, keep: bool) -> Option<String> {
    let wait_briefly = kind.wait_briefly()?;
    let (columns, kept) = match keep {
        true => ("m.*", format!(",\n         kept AS (\n             {} FROM gone m\n         )", bare_archived(kind))),
        false => ("m.id, m.fence", String::new()),
    };
    // Without `IS TRUE` it becomes a join that may compare each row with each key, because Postgres does not know their number.
    Some(format!(
        "WITH gone AS (
             DELETE FROM notify_msg AS m
             WHERE m.id = ANY ($2::text::bigint[]) AND m.status + 0 = 5
                 AND ((m.id, m.fence) IN (SELECT * FROM unnest($2::text::bigint[], $3::text::bigint[]))) IS TRUE
                 AND {wait_briefly}
             RETURNING {columns}
         ){kept}
         SELECT b.notice_id, b.fence, 5
         FROM unnest($2::text::bigint[], $3::text::bigint[]) AS b(notice_id, fence)
         WHERE (SELECT count(*) FROM gone) < cardinality($2::text::bigint[])
             AND NOT EXISTS (SELECT 1 FROM gone WHERE gone.id = b.notice_id AND gone.fence = b.fence)"
    ))
}

/// Copies bare successes `m` to history.
fn bare_archived(kind: Kind) -> String {
    let (now, no_errors) = (kind.now(), kind.to_json("NULL"));
    format!(
        "INSERT INTO notify_msg_history ({HISTORY})
             SELECT m.id, m.def_id, m.param, NULL, {no_errors}, 1, m.fence, 0, 0, m.worker, NULL, m.last_call_time, NULL,
                    m.create_time, m.dedupe_key, m.dedupe_until_ended, m.ordering_key, m.trace_context, m.max_tries,
                    m.expires_at, m.response, m.parent_id, {now}, NULL"
    )
}

/// A statement that settles a whole batch.
#[derive(Clone, Copy)]
pub(crate) enum Shortcut {
    /// The statement `bare`, which waits a moment for rows that other sessions lock, and then fails.
    Bare { bare: &'static Statement, at_once: &'static Statement },
    /// One statement that skips locked rows.
    AtOnce(&'static Statement),
}

impl Shortcut {
    /// Chooses the statement that settles a batch, if there is one: no alarm and no circuit breaker is stored with the outcomes.
    ///
    /// The plain path is one statement for each step of the settle, in a transaction. One statement for all steps, which only
    /// PostgreSQL has, saves four round trips or more: 118 instead of 156 µs for one outcome, 4.0 instead of 4.6 ms for 500.
    ///
    /// Bare successes, which most outcomes are, travel as ids and fences alone, and their rows are not locked first (decision 0018):
    /// 2.3 instead of 4.0 ms for 500.
    pub(crate) fn of<DB: Dialect>(met_lock: &MetLock, batch: &[Settle]) -> Option<Self> {
        let statements = AtOnceStatements::of(DB::KIND);
        let full = batch.iter().any(|settle| settle.shape() == Shape::Full);
        let at_once = statements.settle.as_ref().filter(|_| !full)?;
        let first = batch.first().map(Settle::shape);
        let bare = match first {
            Some(Shape::Bare { keep: true }) => statements.settle_kept.as_ref(),
            Some(Shape::Bare { keep: false }) => statements.settle_gone.as_ref(),
            _ => None,
        };
        let alike = batch.iter().all(|settle| Some(settle.shape()) == first);
        Some(match bare {
            Some(bare) if alike && !met_lock.lately() => Self::Bare { bare, at_once },
            _ => Self::AtOnce(at_once),
        })
    }

    /// Returns the statement to use after this one has failed, if another one may succeed.
    pub(crate) fn after<DB: Dialect>(self, error: &sqlx::Error, met_lock: &MetLock) -> Option<Self> {
        match self {
            Self::Bare { at_once, .. } if fault::<DB>(error) == FaultKind::Conflict => {
                met_lock.note();
                Some(Self::AtOnce(at_once))
            }
            Self::Bare { .. } | Self::AtOnce(_) => None,
        }
    }

    /// Settles the outcomes of a batch whose fences hold. Returns the fences of the others.
    pub(crate) async fn settle<DB: Dialect>(
        self,
        conn: &mut DB::Connection,
        now: Arg<'_>,
        batch: &[Settle],
    ) -> sqlx::Result<Fences> {
        match self {
            Self::Bare { bare, .. } => {
                let (ids, fences): (Vec<i64>, Vec<i64>) = batch.iter().map(|settle| (settle.id, settle.fence)).unzip();
                Fences::read::<DB>(&DB::fetch(conn, bare, &[now, Arg::Ids(&ids), Arg::Ids(&fences)]).await?)
            }
            Self::AtOnce(at_once) => {
                let rows = json(&batch.iter().map(NewState::new).collect::<Vec<_>>())?;
                let held = Fences::read::<DB>(&DB::fetch(conn, at_once, &[now, rows.as_str().into()]).await?)?;
                Ok(held.others(batch))
            }
        }
    }
}

/// Copies the bare successes among ended notices to history, by their ids. Returns the other notices.
///
/// The plain path is the statement `archive`, which reads their new state as JSON: a settle in steps of 500 takes 4.6 instead of 3.4 ms.
/// On MySQL and MariaDB, reading a list from a JSON table was a seventh of what a sweeper cost the server (decision 0069).
pub(crate) async fn archive_bare<'a, DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    ended: Vec<&'a Settle>,
) -> sqlx::Result<Vec<&'a Settle>> {
    let is_bare = |settle: &&Settle| settle.shape() == Shape::Bare { keep: true };
    let (bare, others): (Vec<_>, Vec<_>) = ended.into_iter().partition(is_bare);
    if !bare.is_empty() {
        let ids = bare.iter().map(|settle| settle.id).collect::<Vec<_>>();
        DB::execute(conn, &AtOnceStatements::of(DB::KIND).archive_bare, &[now, Arg::Ids(&ids)]).await?;
    }
    Ok(others)
}
