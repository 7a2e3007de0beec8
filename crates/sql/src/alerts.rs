//! Alarms in the database. Each alarm is compared with the cool-down in its row of `notify_alert`, in the transaction that stores
//! its cause. [`solid_notify_core::alert::cooldown`] makes the decisions.

use std::collections::BTreeMap;

use solid_notify_core::alert::AlertReason;
use solid_notify_core::alert::cooldown::{AlertFacts, AlertRow, raise};
use solid_notify_core::alert::silence::{AlertChange, AlertVerb, decide};
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{Advanced, Alarm, AlertStep, AuditEntry, Authority};

use crate::audit::write_entry;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::fault::fault;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, locked_row, required, required_text};
use crate::dialect::statement::{Arg, Statement, int, statements};
use crate::own;

columns! {
    AlertKey():
    def_id = "a.def_id";
    reason = "a.reason";
}

columns! {
    Alert(kind: Kind):
    opened = kind.epoch("a.opened");
    last_notified = kind.epoch("a.last_notified");
    suppressed = "a.suppressed";
    last_seen = kind.epoch("a.last_seen");
    due = kind.epoch("a.due");
    notice_id = "a.notice_id";
    description = "a.description";
    class = "a.class";
    message = "a.message";
    node = "a.node";
    silenced_until = kind.epoch("a.silenced_until");
    acknowledged_at = kind.epoch("a.acknowledged_at");
    acknowledged_by = "a.acknowledged_by";
    now = kind.epoch_down(&kind.now());
}

columns! {
    /// What else decides what becomes of an alert: the first success since the last alarm, and whether notices wait for a retry.
    Facts(kind: Kind):
    succeeded = format!(
        "(SELECT {} FROM notify_msg_history m{}
          WHERE m.def_id = $2 AND m.status = 1 AND m.finish_time >= a.last_seen
          ORDER BY m.finish_time LIMIT 1)",
        kind.epoch("m.finish_time"),
        kind.by_index("notify_msg_history_finished")
    );
    still_failing =
        "CASE WHEN EXISTS (SELECT 1 FROM notify_msg m WHERE m.def_id = $2 AND m.status = 2) THEN 1 ELSE 0 END";
}

statements! {
    AlertStatements:
    open_alert,
    lock_alert,
    due_alerts,
    look_alert,
    list_alerts,
    write_alert,
    close_alert,
}

impl AlertStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let row = Alert::list(kind);
        let one = "FROM notify_alert a WHERE a.def_id = $2 AND a.reason = $3";
        Self {
            // When two nodes raise the first alarm, one waits for the other.
            open_alert: statement(kind.insert_unless_there(&format!(
                "INTO notify_alert (def_id, reason, opened, last_seen) VALUES ($2, $3, {now}, {now})"
            ))),
            // No node waits for a row that another session has locked: that session's node may hang, and all others would hang
            // with it.
            lock_alert: statement(format!("SELECT {row} {one}{}", kind.lock_now())),
            due_alerts: statement(format!(
                "SELECT {} FROM notify_alert a WHERE a.due <= {now} ORDER BY a.due LIMIT $2",
                AlertKey::list()
            )),
            look_alert: statement(format!("SELECT {row}, {} {one}", Facts::list(kind))),
            list_alerts: statement(format!(
                "SELECT {row}, {} FROM notify_alert a ORDER BY a.def_id, a.reason LIMIT $2",
                AlertKey::list()
            )),
            write_alert: statement(format!(
                "UPDATE notify_alert SET opened = {}, last_notified = {}, suppressed = $6, last_seen = {}, due = {},
                 notice_id = $9, description = $10, class = $11, message = $12, node = $13, silenced_until = {},
                 acknowledged_at = {}, acknowledged_by = $16 WHERE def_id = $2 AND reason = $3",
                kind.epoch_time("$4"),
                kind.epoch_time("$5"),
                kind.epoch_time("$7"),
                kind.epoch_time("$8"),
                kind.epoch_time("$14"),
                kind.epoch_time("$15")
            )),
            close_alert: statement("DELETE FROM notify_alert WHERE def_id = $2 AND reason = $3".into()),
        }
    }
}

/// Applies the cool-downs to new alarms, and inserts the notices of those that are not suppressed. Runs in the transaction that
/// stores the cause of the alarms. A row that another session has locked is a conflict, which a retry resolves.
pub(crate) async fn apply<'a, DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    alarms: impl Iterator<Item = &'a Alarm>,
) -> sqlx::Result<()> {
    // Each row once, and always in the same order, because two nodes could deadlock otherwise.
    let mut of_rows: BTreeMap<(i64, AlertReason), Vec<&Alarm>> = BTreeMap::new();
    for alarm in alarms {
        of_rows.entry((alarm.def_id, alarm.reason)).or_default().push(alarm);
    }
    let statements = AlertStatements::of(DB::KIND);
    for ((def_id, reason), alarms) in of_rows {
        let (Some(first), Some(last)) = (alarms.first(), alarms.last()) else { continue };
        let key = [now, def_id.into(), reason.as_str().into()];
        let locked = locked_row::<DB>(conn, &statements.lock_alert, &statements.open_alert, &key).await?;
        let (row, time) = read::<DB>(&locked)?;
        let raised = raise(&row, int(alarms.len()), last, time);
        if raised.notify {
            let alert = first.to_alert(time).to_json();
            own::add_with_authority::<DB>(conn, now, first.alert_def, &alert, &Authority::of_alert()).await?;
        }
        write::<DB>(conn, &key, &raised.row).await?;
    }
    Ok(())
}

pub(crate) async fn due_alerts<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    limit: usize,
) -> sqlx::Result<Vec<(i64, AlertReason)>> {
    let args = [now, int(limit).into()];
    let mut keys = Vec::new();
    for row in on.rows(&AlertStatements::of(DB::KIND).due_alerts, &args).await? {
        // A row whose reason a newer release has written is left to that release.
        if let Some(reason) = AlertReason::from_name(&required_text::<DB>(&row, AlertKey::AT.reason)?) {
            keys.push((required::<DB>(&row, AlertKey::AT.def_id)?, reason));
        }
    }
    Ok(keys)
}

/// Reads the row of an alert and the facts that decide what becomes of it.
pub(crate) async fn alert<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    def_id: i64,
    reason: AlertReason,
) -> sqlx::Result<Option<(AlertRow, AlertFacts)>> {
    let key = [now, def_id.into(), reason.as_str().into()];
    let rows = on.rows(&AlertStatements::of(DB::KIND).look_alert, &key).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (alert, now) = read::<DB>(row)?;
    let [succeeded, still_failing] = [Alert::COUNT + Facts::AT.succeeded, Alert::COUNT + Facts::AT.still_failing];
    let (succeeded, still_failing) = (DB::int(row, succeeded)?, required::<DB>(row, still_failing)? != 0);
    Ok(Some((alert, AlertFacts { now, succeeded, still_failing })))
}

pub(crate) async fn advance_alert<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    step: &AlertStep,
) -> sqlx::Result<Advanced> {
    let key = [now, step.def_id.into(), step.reason.as_str().into()];
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let advanced = match lock::<DB>(&mut tx, &key).await {
        Ok(Some((row, _))) if row == step.seen => {
            match &step.new {
                Some(row) => write::<DB>(&mut tx, &key, row).await?,
                None => drop(DB::execute(&mut tx, &AlertStatements::of(DB::KIND).close_alert, &key).await?),
            }
            if let Some((alert_def, param)) = &step.notice {
                own::add_with_authority::<DB>(&mut tx, now, *alert_def, param, &Authority::of_alert()).await?;
            }
            Advanced::Stored
        }
        Ok(_) => Advanced::Changed,
        Err(error) if fault::<DB>(&error) == FaultKind::Conflict => Advanced::Locked,
        Err(error) => return Err(error),
    };
    match advanced {
        Advanced::Stored => tx.commit().await?,
        Advanced::Changed | Advanced::Locked => tx.rollback().await?,
    }
    conn.done();
    Ok(advanced)
}

pub(crate) async fn alerts<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    limit: usize,
) -> sqlx::Result<Vec<(i64, AlertReason, AlertRow)>> {
    let mut alerts = Vec::new();
    for row in on.rows(&AlertStatements::of(DB::KIND).list_alerts, &[now, int(limit).into()]).await? {
        let [def_id, reason] = [AlertKey::AT.def_id, AlertKey::AT.reason].map(|at| Alert::COUNT + at);
        if let Some(reason) = AlertReason::from_name(&required_text::<DB>(&row, reason)?) {
            alerts.push((required::<DB>(&row, def_id)?, reason, read::<DB>(&row)?.0));
        }
    }
    Ok(alerts)
}

pub(crate) async fn change_alerts<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    change: &AlertChange,
    who: &str,
) -> sqlx::Result<bool> {
    let statements = AlertStatements::of(DB::KIND);
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let mut changed = false;
    for reason in change.reasons() {
        let key = [now, change.def_id.into(), reason.as_str().into()];
        let seen = match change.verb {
            AlertVerb::Silence { .. } => Some(read::<DB>(
                &locked_row::<DB>(&mut tx, &statements.lock_alert, &statements.open_alert, &key).await?,
            )?),
            _ => lock::<DB>(&mut tx, &key).await?,
        };
        let Some((row, time)) = seen else { continue };
        match decide(Some(&row), &change.verb, who, time) {
            None => continue,
            Some(Some(new)) => write::<DB>(&mut tx, &key, &new).await?,
            Some(None) => drop(DB::execute(&mut tx, &statements.close_alert, &key).await?),
        }
        changed = true;
    }
    if changed {
        let mut entry = AuditEntry::new(time_from_millis(0), who, change.act());
        (entry.def_id, entry.detail) = (Some(change.def_id), Some(change.detail()));
        write_entry::<DB>(&mut tx, now, &entry).await?;
        tx.commit().await?;
    } else {
        tx.rollback().await?;
    }
    conn.done();
    Ok(changed)
}

/// Locks the row. Returns it and the time.
async fn lock<DB: Dialect>(conn: &mut DB::Connection, key: &[Arg<'_>; 3]) -> sqlx::Result<Option<(AlertRow, i64)>> {
    let rows = DB::fetch(conn, &AlertStatements::of(DB::KIND).lock_alert, key).await?;
    rows.first().map(read::<DB>).transpose()
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<(AlertRow, i64)> {
    const AT: Alert = Alert::AT;
    let alert = AlertRow {
        opened: DB::int(row, AT.opened)?.unwrap_or(0),
        last_notified: DB::int(row, AT.last_notified)?,
        suppressed: required::<DB>(row, AT.suppressed)?,
        last_seen: DB::int(row, AT.last_seen)?.unwrap_or(0),
        due: DB::int(row, AT.due)?,
        notice_id: DB::int(row, AT.notice_id)?,
        description: DB::text(row, AT.description)?,
        class: DB::text(row, AT.class)?,
        message: DB::text(row, AT.message)?,
        node: DB::text(row, AT.node)?,
        silenced_until: DB::int(row, AT.silenced_until)?,
        acknowledged_at: DB::int(row, AT.acknowledged_at)?,
        acknowledged_by: DB::text(row, AT.acknowledged_by)?,
    };
    Ok((alert, required::<DB>(row, AT.now)?))
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
        Arg::Int(row.due),
        Arg::Int(row.notice_id),
        Arg::Text(row.description.as_deref()),
        Arg::Text(row.class.as_deref()),
        Arg::Text(row.message.as_deref()),
        Arg::Text(row.node.as_deref()),
        Arg::Int(row.silenced_until),
        Arg::Int(row.acknowledged_at),
        Arg::Text(row.acknowledged_by.as_deref()),
    ];
    DB::execute(conn, &AlertStatements::of(DB::KIND).write_alert, &args).await?;
    Ok(())
}
