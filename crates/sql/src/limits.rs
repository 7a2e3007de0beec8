//! Limits over all nodes, in the database. A claim under a quota and a settle that a circuit breaker watches lock the definition's
//! row of `notify_limit`. [`solid_notify_core::limit`] makes the decisions.

use solid_notify_core::limit::{CLOSE_CIRCUIT, LimitRow, end};
use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{Alarm, AuditEntry, PauseScope, Paused, SendLimits, Settle, breaker_inputs};

use crate::audit::write_entry;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, locked_row, readable, required};
use crate::dialect::statement::{Arg, Statement, json, statements};

columns! {
    Limit(kind: Kind):
    def_id = "m.def_id";
    begun = "m.begun";
    failures = "m.failures";
    open_until = kind.epoch("m.open_until");
    probe = "m.probe";
}

/// Where the statements that lock a row have the time, behind the columns of the row.
const TIME: usize = Limit::COUNT;

columns! {
    /// Who pauses everything or all retries, in `send_limits` behind the columns of a limit.
    Switch(scope: &str, who: &str, since: &str, reason: &str):
    scope = scope;
    who = who;
    since = since;
    reason = reason;
}

statements! {
    LimitStatements:
    try_limit,
    limit_now,
    has_limit,
    open_limit,
    write_limit,
    close_limit,
    forget_limit,
    send_limits,
}

impl LimitStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let row = Limit::list(kind);
        let locked = |lock: &str| {
            statement(format!("SELECT {row}, {} FROM notify_limit m WHERE m.def_id = $2{lock}", kind.epoch_down(&now)))
        };
        Self {
            try_limit: locked(kind.lock()),
            limit_now: locked(kind.lock_now()),
            has_limit: statement("SELECT 1 FROM notify_limit WHERE def_id = $2".into()),
            open_limit: statement(kind.insert_unless_there("INTO notify_limit (def_id) VALUES ($2)")),
            write_limit: statement(format!(
                "UPDATE notify_limit SET begun = $3, failures = $4, open_until = {}, probe = $6 WHERE def_id = $2",
                kind.epoch_time("$5")
            )),
            // Waits for a claim or settle that has locked the row. The condition makes one of several operators the one who closed it.
            close_limit: statement(
                "UPDATE notify_limit SET failures = 0, open_until = NULL, probe = NULL WHERE def_id = $2 AND open_until IS NOT NULL"
                    .into(),
            ),
            forget_limit: statement("DELETE FROM notify_limit WHERE def_id = $2".into()),
            send_limits: statement(format!(
                "SELECT {row}, {} FROM notify_limit m
                 UNION ALL SELECT 0, NULL, 0, NULL, NULL, {} FROM notify_switch WHERE paused OR retries_paused",
                Switch::list("NULL", "NULL", "NULL", "NULL"),
                Switch::list("CASE WHEN paused THEN 'everything' ELSE 'retries' END", "who", &kind.epoch("since"), "reason")
            )),
        }
    }
}

/// Locks the row, and creates it where it is missing. `None`: another session has locked it.
pub(crate) async fn try_lock<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    def_id: i64,
) -> sqlx::Result<Option<(LimitRow, i64)>> {
    let statements = LimitStatements::of(DB::KIND);
    let key = [now, def_id.into()];
    if let Some(locked) = DB::fetch(tx, &statements.try_limit, &key).await?.first() {
        return read::<DB>(locked).map(Some);
    }
    // Search before the insert: on MySQL an insert would wait for the session that has locked the row.
    if DB::fetch(tx, &statements.has_limit, &key).await?.is_empty() {
        DB::execute(tx, &statements.open_limit, &key).await?;
    }
    let rows = DB::fetch(tx, &statements.try_limit, &key).await?;
    rows.first().map(read::<DB>).transpose()
}

/// Reads the rows of all definitions, and what the switch pauses.
pub(crate) async fn send_limits<DB: Dialect>(on: &Share<DB>, now: Arg<'_>) -> sqlx::Result<SendLimits> {
    let mut conn = on.get().await?;
    let rows = DB::fetch(&mut conn, &LimitStatements::of(DB::KIND).send_limits, &[now]).await?;
    conn.done();
    let mut send_limits = SendLimits::default();
    let [scope, who, since, reason] =
        [Switch::AT.scope, Switch::AT.who, Switch::AT.since, Switch::AT.reason].map(|at| Limit::COUNT + at);
    let read = |row: &DB::Row| match required::<DB>(row, Limit::AT.def_id)? {
        0 => {
            let since = DB::int(row, since)?.map(time_from_millis);
            let scope = PauseScope::of_name(DB::text(row, scope)?.as_deref());
            Ok((0, None, Some(Paused { scope, who: DB::text(row, who)?, since, reason: DB::text(row, reason)? })))
        }
        def_id => Ok((def_id, Some(limit_row::<DB>(row)?), None)),
    };
    for (def_id, limit, paused) in readable::<DB, _>(&rows, "limit", read) {
        send_limits.limits.extend(limit.map(|limit| (def_id, limit)));
        send_limits.paused = send_limits.paused.or(paused);
    }
    Ok(send_limits)
}

/// Applies the outcomes of attempts to the circuit breakers. Returns the alarms of the breakers that opened. A row that another
/// node has locked is a conflict, which a retry resolves; the other node may hang, so this does not wait.
pub(crate) async fn count_outcomes<'a, DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    settled: impl Iterator<Item = &'a Settle>,
) -> sqlx::Result<Vec<&'a Alarm>> {
    let statements = LimitStatements::of(DB::KIND);
    let mut alarms = Vec::new();
    for (def_id, outcomes) in breaker_inputs(settled) {
        let key = [now, def_id.into()];
        let locked = locked_row::<DB>(tx, &statements.limit_now, &statements.open_limit, &key).await?;
        let (row, time) = read::<DB>(&locked)?;
        let (new, alarm) = end(&row, &outcomes, time);
        if new != row {
            write::<DB>(tx, now, def_id, &new).await?;
        }
        alarms.extend(alarm);
    }
    Ok(alarms)
}

/// Stores a row that this transaction has locked.
pub(crate) async fn write<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    def_id: i64,
    row: &LimitRow,
) -> sqlx::Result<()> {
    let begun = if row.begun.is_empty() { None } else { Some(json(&row.begun)?) };
    let args = [
        now,
        def_id.into(),
        Arg::Text(begun.as_deref()),
        row.failures.into(),
        Arg::Int(row.open_until),
        Arg::Int(row.probe),
    ];
    DB::execute(tx, &LimitStatements::of(DB::KIND).write_limit, &args).await?;
    Ok(())
}

/// Closes the circuit, as [`solid_notify_core::limit::close`] does, for an operator. Returns false if it was not open.
pub(crate) async fn close_circuit<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    def_id: i64,
    who: &str,
) -> sqlx::Result<bool> {
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let closed =
        DB::execute(&mut tx, &LimitStatements::of(DB::KIND).close_limit, &[now, def_id.into()]).await?.rows > 0;
    if closed {
        let mut entry = AuditEntry::new(time_from_millis(0), who, CLOSE_CIRCUIT);
        entry.def_id = Some(def_id);
        write_entry::<DB>(&mut tx, now, &entry).await?;
    }
    tx.commit().await?;
    conn.done();
    Ok(closed)
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<(LimitRow, i64)> {
    Ok((limit_row::<DB>(row)?, required::<DB>(row, TIME)?))
}

/// Reads a row. Values that cannot be read, after an edit by hand, count as missing.
fn limit_row<DB: Dialect>(row: &DB::Row) -> sqlx::Result<LimitRow> {
    const AT: Limit = Limit::AT;
    let begun = DB::text(row, AT.begun)?.and_then(|text| serde_json::from_str(&text).ok());
    Ok(LimitRow {
        begun: begun.unwrap_or_default(),
        failures: DB::int(row, AT.failures)?.unwrap_or(0),
        open_until: DB::int(row, AT.open_until)?,
        probe: DB::int(row, AT.probe)?,
    })
}

/// Deletes the row of a deleted definition.
pub(crate) async fn forget<DB: Dialect>(tx: &mut DB::Connection, now: Arg<'_>, def_id: i64) -> sqlx::Result<()> {
    DB::execute(tx, &LimitStatements::of(DB::KIND).forget_limit, &[now, def_id.into()]).await.map(drop)
}
