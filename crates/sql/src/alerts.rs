//! Alarms in the database. Each alarm is compared with the cool-down in its row of `notify_alert`, in the transaction that stores
//! its cause. [`solid_notify_core::alert::cooldown`] makes the decisions.

use std::collections::BTreeMap;
use std::time::Duration;

use solid_notify_core::alert::cooldown::{AlertRow, FollowUp, FollowUpFacts, raise, tell};
use solid_notify_core::alert::{AlertReason, StoredAlert};
use solid_notify_core::notice::{Status, duration_millis};
use solid_notify_core::store::{Alarm, FollowUpResult};

use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::required;
use crate::dialect::statement::{Arg, Statement};
use crate::statements::statements;
use crate::store::int;

/// Maximum number of tries to create a row that another session deletes at the same moment.
const OPEN_TRIES: usize = 5;

statements! {
    AlertStatements:
    open_alert,
    lock_alert,
    follow_up,
    look_alert,
    write_alert,
    close_alert,
    add_alert,
    advance_follow_up,
}

impl AlertStatements {
    pub(crate) fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let row = format!(
            "{}, {}, a.suppressed, {}, a.follow_up, a.notice_id, a.class, a.message, a.node, {}",
            kind.epoch("a.opened"),
            kind.epoch("a.last_notified"),
            kind.epoch("a.last_seen"),
            kind.epoch_down(&now)
        );
        let one = "FROM notify_alert a WHERE a.def_id = $2 AND a.reason = $3";
        let returning = if kind.insert_returns_its_id() { " RETURNING id" } else { "" };
        Self {
            // When two nodes raise the first alarm, one waits for the other.
            open_alert: statement(kind.insert_unless_there(&format!(
                "INTO notify_alert (def_id, reason, opened, last_seen) VALUES ($2, $3, {now}, {now})"
            ))),
            // No node waits for a row that another session has locked: that session's node may hang, and all others would hang
            // with it.
            lock_alert: statement(format!("SELECT {row} {one}{}", kind.lock_now())),
            // A statement apart from the lock: this notice may have been sent during the wait, and Postgres would not see that.
            follow_up: statement(format!(
                "SELECT m.status, {}, {} FROM notify_msg m WHERE m.id = $2 AND m.def_id + 0 = $3",
                kind.epoch_up("m.next_call_time"),
                kind.epoch_down(&now)
            )),
            look_alert: statement(format!(
                "SELECT {row},
                 (SELECT {} FROM notify_msg_history m{} WHERE m.def_id = $2 AND m.status = 1 AND m.finish_time > a.last_seen
                  ORDER BY m.finish_time LIMIT 1),
                 CASE WHEN EXISTS (SELECT 1 FROM notify_msg m WHERE m.def_id = $2 AND m.status = 2) THEN 1 ELSE 0 END {one}",
                kind.epoch("m.finish_time"),
                kind.by_index("notify_msg_history_finished")
            )),
            write_alert: statement(format!(
                "UPDATE notify_alert SET opened = {}, last_notified = {}, suppressed = $6, last_seen = {}, follow_up = $8,
                 notice_id = $9, class = $10, message = $11, node = $12 WHERE def_id = $2 AND reason = $3",
                kind.epoch_time("$4"),
                kind.epoch_time("$5"),
                kind.epoch_time("$7")
            )),
            close_alert: statement("DELETE FROM notify_alert WHERE def_id = $2 AND reason = $3".into()),
            add_alert: statement(format!(
                "INSERT INTO notify_msg (def_id, param, create_time, next_call_time) VALUES ($2, {}, {now}, {}){returning}",
                kind.to_json("$3"),
                kind.plus(&now, "$4")
            )),
            advance_follow_up: statement(format!(
                "UPDATE notify_msg SET next_call_time = {} WHERE id = $2 AND status + 0 = 0",
                kind.plus(&now, "$3")
            )),
        }
    }
}

/// Writes what follow-ups reported, applies the cool-downs to new alarms, and inserts the alert notices. Runs in the transaction
/// that stores the cause of the alarms or the end of the follow-up. A row that another session has locked is a conflict, which a
/// retry resolves.
pub(crate) async fn apply<'a, DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    alarms: impl Iterator<Item = &'a Alarm>,
    told: impl Iterator<Item = &'a FollowUpResult>,
) -> sqlx::Result<()> {
    // Each row once, and always in the same order, because two nodes could deadlock otherwise.
    let mut of_rows: BTreeMap<(i64, AlertReason), OfRow<'_>> = BTreeMap::new();
    for told in told {
        of_rows.entry((told.def_id, told.reason)).or_default().told.push(told);
    }
    for alarm in alarms {
        of_rows.entry((alarm.def_id, alarm.reason)).or_default().alarms.push(alarm);
    }
    for ((def_id, reason), OfRow { told, alarms }) in of_rows {
        let key = [now, def_id.into(), reason.as_str().into()];
        // First, so that new alarms do not repeat what a follow-up has reported.
        for told in told {
            write_told::<DB>(conn, &key, told).await?;
        }
        if let (Some(first), Some(last)) = (alarms.first(), alarms.last()) {
            raise_one::<DB>(conn, &key, int(alarms.len()), (first, last)).await?;
        }
    }
    Ok(())
}

/// The reports and alarms of a batch for one row.
#[derive(Default)]
struct OfRow<'a> {
    told: Vec<&'a FollowUpResult>,
    alarms: Vec<&'a Alarm>,
}

async fn raise_one<DB: Dialect>(
    conn: &mut DB::Connection,
    key: &[Arg<'_>; 3],
    count: i64,
    (first, last): (&Alarm, &Alarm),
) -> sqlx::Result<()> {
    let (row, follow_up, time) = open::<DB>(conn, key, last.alert_def).await?;
    let mut raised = raise(&row, follow_up, count, last, time);
    if raised.notify {
        add::<DB>(conn, key[0], first.alert_def, &StoredAlert::new(first, false), Duration::ZERO).await?;
    }
    match (raised.follow_up, follow_up, row.follow_up) {
        (Some(after), FollowUp::Asleep(_), Some(id)) => {
            let args = [key[0], id.into(), duration_millis(after).into()];
            DB::execute(conn, &DB::statements().alerts.advance_follow_up, &args).await?;
        }
        (Some(after), ..) => {
            let added = add::<DB>(conn, key[0], last.alert_def, &StoredAlert::new(last, true), after).await?;
            raised.row.follow_up = Some(added);
        }
        (None, ..) => {}
    }
    write::<DB>(conn, key, &raised.row).await
}

async fn write_told<DB: Dialect>(
    conn: &mut DB::Connection,
    key: &[Arg<'_>; 3],
    told: &FollowUpResult,
) -> sqlx::Result<()> {
    let Some((row, follow_up, time)) = lock::<DB>(conn, key, told.alert_def).await? else { return Ok(()) };
    match tell(&row, told, time) {
        None => DB::execute(conn, &DB::statements().alerts.close_alert, key).await.map(drop),
        // The row already has another follow-up: an operator revived an old one. Only one chain of follow-ups continues.
        Some((row, _)) if follow_up != FollowUp::None => write::<DB>(conn, key, &row).await,
        Some((mut row, next)) => {
            let again = StoredAlert::again(told, &row);
            row.follow_up = Some(add::<DB>(conn, key[0], told.alert_def, &again, next).await?);
            write::<DB>(conn, key, &row).await
        }
    }
}

/// Locks the row, and creates it where it is missing. Searches first: on MySQL an insert that finds the row would keep a shared
/// lock on it and wait for other sessions.
async fn open<DB: Dialect>(
    conn: &mut DB::Connection,
    key: &[Arg<'_>; 3],
    alert_def: i64,
) -> sqlx::Result<(AlertRow, FollowUp, i64)> {
    for _ in 0..OPEN_TRIES {
        if let Some(locked) = lock::<DB>(conn, key, alert_def).await? {
            return Ok(locked);
        }
        DB::execute(conn, &DB::statements().alerts.open_alert, key).await?;
    }
    Err(sqlx::Error::RowNotFound)
}

async fn lock<DB: Dialect>(
    conn: &mut DB::Connection,
    key: &[Arg<'_>; 3],
    alert_def: i64,
) -> sqlx::Result<Option<(AlertRow, FollowUp, i64)>> {
    let statements = &DB::statements().alerts;
    let rows = DB::fetch(conn, &statements.lock_alert, key).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (alert, now) = read::<DB>(row)?;
    let Some(id) = alert.follow_up else { return Ok(Some((alert, FollowUp::None, now))) };
    let args = [key[0], id.into(), alert_def.into()];
    let rows = DB::fetch(conn, &DB::statements().alerts.follow_up, &args).await?;
    let Some(row) = rows.first() else { return Ok(Some((alert, FollowUp::None, now))) };
    let now = required::<DB>(row, 2)?;
    let follow_up = match (required::<DB>(row, 0)?, DB::int(row, 1)?) {
        (status, Some(due)) if status == Status::NotSent.code() && due > now => FollowUp::Asleep(due),
        _ => FollowUp::AtWork,
    };
    Ok(Some((alert, follow_up, now)))
}

/// Reads the row of an alert and what a follow-up needs beside it.
pub(crate) async fn look<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    def_id: i64,
    reason: AlertReason,
) -> sqlx::Result<Option<(AlertRow, FollowUpFacts)>> {
    let key = [now, def_id.into(), reason.as_str().into()];
    let rows = DB::fetch(conn, &DB::statements().alerts.look_alert, &key).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (alert, now) = read::<DB>(row)?;
    Ok(Some((alert, FollowUpFacts { now, succeeded: DB::int(row, 10)?, still_failing: required::<DB>(row, 11)? != 0 })))
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<(AlertRow, i64)> {
    let alert = AlertRow {
        opened: DB::int(row, 0)?.unwrap_or(0),
        last_notified: DB::int(row, 1)?,
        suppressed: required::<DB>(row, 2)?,
        last_seen: DB::int(row, 3)?.unwrap_or(0),
        follow_up: DB::int(row, 4)?,
        notice_id: DB::int(row, 5)?,
        class: DB::text(row, 6)?,
        message: DB::text(row, 7)?,
        node: DB::text(row, 8)?,
    };
    Ok((alert, required::<DB>(row, 9)?))
}

async fn write<DB: Dialect>(conn: &mut DB::Connection, key: &[Arg<'_>; 3], row: &AlertRow) -> sqlx::Result<()> {
    let args = [
        key[0],
        key[1],
        key[2],
        row.opened.into(),
        Arg::Int(row.last_notified),
        row.suppressed.into(),
        row.last_seen.into(),
        Arg::Int(row.follow_up),
        Arg::Int(row.notice_id),
        Arg::Text(row.class.as_deref()),
        Arg::Text(row.message.as_deref()),
        Arg::Text(row.node.as_deref()),
    ];
    DB::execute(conn, &DB::statements().alerts.write_alert, &args).await?;
    Ok(())
}

/// Inserts a notice of the built-in definition and returns its id.
async fn add<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    alert_def: i64,
    alert: &StoredAlert,
    after: Duration,
) -> sqlx::Result<i64> {
    let param = alert.to_json();
    let args = [now, alert_def.into(), param.as_str().into(), duration_millis(after).into()];
    if !DB::KIND.insert_returns_its_id() {
        return Ok(DB::execute(conn, &DB::statements().alerts.add_alert, &args).await?.last_id);
    }
    let rows = DB::fetch(conn, &DB::statements().alerts.add_alert, &args).await?;
    rows.first().map(|row| required::<DB>(row, 0)).transpose()?.ok_or(sqlx::Error::RowNotFound)
}
