//! Cluster-wide limits in the database. A claim under a quota and a settle that a circuit breaker watches lock the definition's
//! row of `notify_limit`. Also the switch that pauses all sending. [`solid_notify_core::limit`] makes the decisions.

use solid_notify_core::limit::{LimitRow, Quota, QuotaStop, allowance, begin, end, watched};
use solid_notify_core::notice::time_from_millis;
use solid_notify_core::operate::{AuditEntry, Paused, SendLimits, Switch};
use solid_notify_core::store::{Alarm, Claim, Claims, Settle};

use crate::claim::remembered::Remembered;
use crate::claim::take::{needs_windows, take};
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::fault::conflict_pause;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, readable, required};
use crate::dialect::statement::{Arg, Statement, int, json, statements};
use crate::operate::audit::write_entry;

/// Maximum number of tries to create a row that another session deletes at the same moment.
const OPEN_TRIES: usize = 5;

columns! {
    Limit(kind: Kind):
    def_id = "m.def_id";
    begun = "m.begun";
    failures = "m.failures";
    open_until = kind.epoch("m.open_until");
    probe = "m.probe";
}

statements! {
    LimitStatements:
    try_limit,
    limit_now,
    has_limit,
    open_limit,
    write_limit,
    forget_limit,
    count_sending,
    time_up,
    send_limits,
    open_switch,
    turn_switch,
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
            forget_limit: statement("DELETE FROM notify_limit WHERE def_id = $2".into()),
            // Reads at most as many index entries as the limit allows.
            count_sending: statement(format!(
                "SELECT count(*) FROM (SELECT 1 AS one FROM notify_msg m{} WHERE m.def_id = $2 AND m.status = 5 LIMIT $3) AS sent",
                kind.by_slice()
            )),
            time_up: statement(format!("SELECT {}", kind.epoch_up(&now))),
            send_limits: statement(format!(
                "SELECT {row}, NULL, NULL, NULL FROM notify_limit m
                 UNION ALL SELECT 0, NULL, 0, NULL, NULL, who, {}, reason FROM notify_switch WHERE paused",
                kind.epoch("since")
            )),
            open_switch: statement(kind.insert_unless_there("INTO notify_switch (id) VALUES (1)")),
            turn_switch: statement(format!(
                "UPDATE notify_switch SET paused = $2, who = $3, since = {now}, reason = $4 WHERE paused <> $2"
            )),
        }
    }
}

/// Claims as many notices as the quota allows. A concurrent claim of the same definition finds the row locked and returns
/// [`QuotaStop::Busy`], because a claim must not wait for another node, which may hang.
pub(crate) async fn take_within<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    remembered: &Remembered,
    claim: &Claim,
    quota: &Quota,
) -> sqlx::Result<Claims> {
    let Some((row, time)) = try_lock::<DB>(tx, now, claim.def_id).await? else {
        let after = conflict_pause();
        return Ok(Claims { notices: Vec::new(), stopped_by: Some(QuotaStop::Busy { after }) });
    };
    // After the lock, in statements of their own, so that they see all earlier claims.
    let sending = match quota.total {
        Some(most) => count_sending::<DB>(tx, now, claim.def_id, most).await?,
        None => 0,
    };
    let most = match allowance(&row, quota, time, sending, claim.lease) {
        Ok(most) => most,
        Err(hold) => return Ok(Claims { notices: Vec::new(), stopped_by: Some(hold) }),
    };
    let notices =
        take::<DB>(tx, now, remembered, claim, claim.limit.min(most), needs_windows(remembered, claim)).await?;
    if notices.is_empty() {
        return Ok(notices.into());
    }
    let ids: Vec<i64> = notices.iter().map(|notice| notice.id).collect();
    // The attempts began between the two times. Counted from the later one, no window has too many.
    let rows = DB::fetch(tx, &LimitStatements::of(DB::KIND).time_up, &[now]).await?;
    let at = rows.first().map(|row| required::<DB>(row, 0)).transpose()?.unwrap_or(time).max(time);
    let new = begin(&row, quota, at, &ids, claim.lease);
    if new != row {
        write::<DB>(tx, now, claim.def_id, &new).await?;
    }
    let stopped_by = allowance(&new, quota, at, sending + notices.len(), claim.lease).err();
    Ok(Claims { notices, stopped_by })
}

/// Locks the row, and creates it where it is missing. `None`: another session has locked it.
async fn try_lock<DB: Dialect>(
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

async fn count_sending<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    def_id: i64,
    most: usize,
) -> sqlx::Result<usize> {
    let args = [now, def_id.into(), int(most).into()];
    let rows = DB::fetch(tx, &LimitStatements::of(DB::KIND).count_sending, &args).await?;
    let count = rows.first().map(|row| required::<DB>(row, 0)).transpose()?.unwrap_or(0);
    Ok(usize::try_from(count).unwrap_or(0))
}

pub(crate) async fn send_limits<DB: Dialect>(on: &Share<DB>, now: Arg<'_>) -> sqlx::Result<SendLimits> {
    let mut conn = on.get().await?;
    let rows = DB::fetch(&mut conn, &LimitStatements::of(DB::KIND).send_limits, &[now]).await?;
    conn.done();
    let mut send_limits = SendLimits::default();
    let [who, since, reason] = [Limit::COUNT, Limit::COUNT + 1, Limit::COUNT + 2];
    let read = |row: &DB::Row| match required::<DB>(row, Limit::AT.def_id)? {
        0 => {
            let since = DB::int(row, since)?.map(time_from_millis);
            Ok((0, None, Some(Paused { who: DB::text(row, who)?, since, reason: DB::text(row, reason)? })))
        }
        def_id => Ok((def_id, Some(limit_row::<DB>(row)?), None)),
    };
    for (def_id, limit, paused) in readable::<DB, _>(&rows, "limit", read) {
        send_limits.limits.extend(limit.map(|limit| (def_id, limit)));
        send_limits.paused = send_limits.paused.or(paused);
    }
    Ok(send_limits)
}

pub(crate) async fn switch<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    switch: &Switch,
    who: &str,
) -> sqlx::Result<bool> {
    let statements = LimitStatements::of(DB::KIND);
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    DB::execute(&mut tx, &statements.open_switch, &[now]).await?;
    let args = [now, Arg::Bool(switch.pauses()), who.into(), Arg::Text(switch.reason())];
    let turned = DB::execute(&mut tx, &statements.turn_switch, &args).await?.rows > 0;
    if turned {
        let mut entry = AuditEntry::new(time_from_millis(0), who, switch.act());
        entry.detail = switch.reason().map(str::to_owned);
        write_entry::<DB>(&mut tx, now, &entry).await?;
    }
    tx.commit().await?;
    conn.done();
    Ok(turned)
}

/// Applies the outcomes of attempts to the circuit breakers. Returns the alarms of the breakers that opened. A row that another
/// node has locked is a conflict, which a retry resolves; the other node may hang, so this does not wait.
pub(crate) async fn watch<'a, DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    settled: impl Iterator<Item = &'a Settle>,
) -> sqlx::Result<Vec<&'a Alarm>> {
    let mut alarms = Vec::new();
    for (def_id, outcomes) in watched(settled) {
        let (row, time) = lock::<DB>(tx, now, def_id).await?;
        let (new, alarm) = end(&row, &outcomes, time);
        if new != row {
            write::<DB>(tx, now, def_id, &new).await?;
        }
        alarms.extend(alarm);
    }
    Ok(alarms)
}

/// Locks the row, and creates it where it is missing. Searches first: on MySQL an insert that finds the row would keep a shared
/// lock on it.
async fn lock<DB: Dialect>(tx: &mut DB::Connection, now: Arg<'_>, def_id: i64) -> sqlx::Result<(LimitRow, i64)> {
    let statements = LimitStatements::of(DB::KIND);
    let key = [now, def_id.into()];
    for _ in 0..OPEN_TRIES {
        if let Some(locked) = DB::fetch(tx, &statements.limit_now, &key).await?.first() {
            return read::<DB>(locked);
        }
        DB::execute(tx, &statements.open_limit, &key).await?;
    }
    Err(sqlx::Error::RowNotFound)
}

async fn write<DB: Dialect>(tx: &mut DB::Connection, now: Arg<'_>, def_id: i64, row: &LimitRow) -> sqlx::Result<()> {
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

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<(LimitRow, i64)> {
    Ok((limit_row::<DB>(row)?, required::<DB>(row, Limit::COUNT)?))
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
