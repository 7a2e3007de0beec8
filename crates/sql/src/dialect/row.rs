//! Reads rows. A row that an edit by hand made unreadable is skipped and does not affect the others.

use solid_notify_core::notice::{ClaimedNotice, NEVER, NoticeRecord, Status, time_from_millis};

use crate::dialect::Dialect;
use crate::dialect::kind::Kind;

pub(crate) fn required<DB: Dialect>(row: &DB::Row, column: usize) -> sqlx::Result<i64> {
    DB::int(row, column)?.ok_or_else(|| unexpected("a number", column))
}

pub(crate) fn required_text<DB: Dialect>(row: &DB::Row, column: usize) -> sqlx::Result<String> {
    DB::text(row, column)?.ok_or_else(|| unexpected("a text", column))
}

fn unexpected(what: &str, column: usize) -> sqlx::Error {
    sqlx::Error::Decode(format!("column {column} is null, not {what}").into())
}

/// Reads the claimed notices of `rows`. Skips rows that an edit by hand made unreadable.
pub(crate) fn read_claimed<DB: Dialect>(rows: &[DB::Row], status: Status) -> Vec<ClaimedNotice> {
    let read = |row: &DB::Row| {
        let last_call = DB::moment(row, 9)?.unwrap_or(0);
        // An unreadable time of creation is replaced by the time of the call, because the notice must still be sent.
        let created = DB::moment(row, 10)?.unwrap_or(last_call);
        Ok(ClaimedNotice {
            id: required::<DB>(row, 0)?,
            def_id: required::<DB>(row, 1)?,
            param: required_text::<DB>(row, 2)?,
            description: DB::text(row, 3)?,
            errors: DB::text(row, 4)?,
            status,
            fence: required::<DB>(row, 5)?,
            failures: required::<DB>(row, 6)?,
            crashes: required::<DB>(row, 7)?,
            worker: DB::text(row, 8)?.unwrap_or_default(),
            last_call_time: time_from_millis(last_call),
            create_time: time_from_millis(created),
            trace_context: DB::text(row, 11)?,
            ordering_key: DB::text(row, 12)?,
        })
    };
    readable::<DB, _>(rows, "notice", read)
}

/// Applies `read` to each row. Logs and skips rows that it fails for, with their id, which is the first column.
pub(crate) fn readable<DB: Dialect, T>(
    rows: &[DB::Row],
    what: &'static str,
    read: impl Fn(&DB::Row) -> sqlx::Result<T>,
) -> Vec<T> {
    let logged = |row: &DB::Row| {
        let failed = |error: sqlx::Error| {
            let id = DB::int(row, 0).ok().flatten();
            tracing::error!(what, id, %error, "skipped a row that cannot be read");
        };
        read(row).map_err(failed).ok()
    };
    rows.iter().filter_map(logged).collect()
}

pub(crate) fn read_record<DB: Dialect>(row: &DB::Row) -> sqlx::Result<NoticeRecord> {
    let code = required::<DB>(row, 2)?;
    let status = Status::from_code(code).ok_or_else(|| sqlx::Error::Decode(format!("unknown status {code}").into()))?;
    let created = time_from_millis(required::<DB>(row, 12)?);
    let mut record = NoticeRecord::new(
        required::<DB>(row, 0)?,
        required::<DB>(row, 1)?,
        status,
        required_text::<DB>(row, 3)?,
        created,
    );
    record.description = DB::text(row, 4)?;
    let errors = DB::text(row, 5)?;
    record.errors = errors.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    record.fence = required::<DB>(row, 6)?;
    record.failures = required::<DB>(row, 7)?;
    record.crashes = required::<DB>(row, 8)?;
    record.worker = DB::text(row, 9)?;
    record.last_class = DB::text(row, 10)?;
    record.next_call_time = DB::int(row, 11)?.filter(|next| *next < NEVER).map(time_from_millis);
    record.trace_context = DB::text(row, 13)?;
    record.last_call_time = DB::int(row, 14)?.map(time_from_millis);
    record.ordering_key = DB::text(row, 15)?;
    record.dedupe_key = DB::text(row, 16)?;
    record.unique_until_ended = DB::int(row, 17)? == Some(1);
    record.finish_time = DB::int(row, 18)?.map(time_from_millis);
    record.end_reason = DB::text(row, 19)?;
    Ok(record)
}

/// When a live notice is due. While it is blocked, `next_call_time` is the time of the next look at it.
pub(crate) const DUE: &str = "coalesce(m.blocked_since, m.next_call_time)";
/// The stored due time of an ended notice.
pub(crate) const ENDED: &str = "m.next_call_time";

/// The columns that a claim returns. No alias in front, because SQLite allows none in RETURNING; hence no batch has a column
/// `id`.
pub(crate) fn claimed_columns(kind: Kind, fence: &str, last_call_time: &str) -> String {
    format!(
        "id, def_id, param, description, errors, {fence}, failures, crashes, worker, {}, {}, trace_context, ordering_key",
        kind.moment(last_call_time),
        kind.moment("create_time")
    )
}

/// The columns of a notice's record. `next` is the expression for the next time that people see.
pub(crate) fn record_columns(kind: Kind, next: &str) -> String {
    format!(
        "m.id, m.def_id, m.status, m.param, m.description, m.errors, m.fence, m.failures, m.crashes, m.worker, m.last_class, {}, {}, m.trace_context, {}, m.ordering_key, m.dedupe_key, CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END",
        kind.epoch(next),
        kind.epoch("m.create_time"),
        kind.epoch("m.last_call_time")
    )
}
