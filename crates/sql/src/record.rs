//! The whole record of a notice, live or ended: what people see, and what a verb decides by.

use solid_notify_core::notice::{LastResponse, NEVER, NoticeRecord, OwnLimits, Status, time_from_millis};

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, required, required_text};
use crate::dialect::statement::{Arg, Statement, statements};

/// When a live notice is due. While it is blocked, `next_call_time` is the time of the next look at it.
pub(crate) const DUE: &str = "coalesce(m.blocked_since, m.next_call_time)";
/// The stored due time of an ended notice.
const ENDED: &str = "m.next_call_time";

columns! {
    /// The columns of a notice's record. `next` is the expression for the next time that people see.
    Record(kind: Kind, next: &str, finished: &str, reason: &str):
    id = "m.id";
    def_id = "m.def_id";
    status = "m.status";
    param = "m.param";
    description = "m.description";
    errors = "m.errors";
    fence = "m.fence";
    failures = "m.failures";
    crashes = "m.crashes";
    worker = "m.worker";
    last_class = "m.last_class";
    next_call_time = kind.epoch(next);
    create_time = kind.epoch("m.create_time");
    trace_context = "m.trace_context";
    last_call_time = kind.epoch("m.last_call_time");
    ordering_key = "m.ordering_key";
    dedupe_key = "m.dedupe_key";
    tag = "m.tag";
    until_ended = "CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END";
    max_tries = "m.max_tries";
    expires_at = kind.epoch("m.expires_at");
    parent_id = "m.parent_id";
    response = "m.response";
    finish_time = finished;
    end_reason = reason;
}

statements! {
    RecordStatements:
    find,
    lock_live,
    lock_ended,
}

impl RecordStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        let live = Record::list(kind, DUE, "NULL", "NULL");
        let ended = Record::list(kind, ENDED, &kind.epoch("m.finish_time"), "m.end_reason");
        let lock = kind.lock_if_free();
        Self {
            find: statement(format!(
                "SELECT {live} FROM notify_msg m WHERE m.id = $2
                 UNION ALL SELECT {ended} FROM notify_msg_history m WHERE m.id = $2"
            )),
            lock_live: statement(format!("SELECT {live} FROM notify_msg m WHERE m.id = $2{lock}")),
            lock_ended: statement(format!("SELECT {ended} FROM notify_msg_history m WHERE m.id = $2{lock}")),
        }
    }
}

pub(crate) async fn find<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, id: i64) -> sqlx::Result<Option<NoticeRecord>> {
    let rows = on.rows(&RecordStatements::of(DB::KIND).find, &[now, id.into()]).await?;
    rows.first().map(read::<DB>).transpose()
}

/// The result of a look for a row that a call needs locked.
pub(crate) enum Found<T> {
    /// It is locked by this transaction.
    Locked(T),
    /// Another session has locked it.
    Taken,
    /// There is none.
    Missing,
}

/// Locks the notice. One that has just moved to the other table counts as taken.
pub(crate) async fn lock_record<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    id: i64,
) -> sqlx::Result<Found<NoticeRecord>> {
    let statements = RecordStatements::of(DB::KIND);
    for statement in [&statements.lock_live, &statements.lock_ended] {
        let rows = DB::fetch(tx, statement, &[now, id.into()]).await?;
        if let Some(row) = rows.first() {
            return read::<DB>(row).map(Found::Locked);
        }
    }
    let there = DB::fetch(tx, &statements.find, &[now, id.into()]).await?;
    Ok(if there.is_empty() { Found::Missing } else { Found::Taken })
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<NoticeRecord> {
    const AT: Record = Record::AT;
    let code = required::<DB>(row, AT.status)?;
    let status = Status::from_code(code).ok_or_else(|| sqlx::Error::Decode(format!("unknown status {code}").into()))?;
    let mut record = NoticeRecord::new(
        required::<DB>(row, AT.id)?,
        required::<DB>(row, AT.def_id)?,
        status,
        required_text::<DB>(row, AT.param)?,
        time_from_millis(required::<DB>(row, AT.create_time)?),
    );
    record.description = DB::text(row, AT.description)?;
    let errors = DB::text(row, AT.errors)?;
    record.errors = errors.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    record.fence = required::<DB>(row, AT.fence)?;
    record.failures = required::<DB>(row, AT.failures)?;
    record.crashes = required::<DB>(row, AT.crashes)?;
    record.worker = DB::text(row, AT.worker)?;
    record.last_class = DB::text(row, AT.last_class)?;
    record.next_call_time = DB::int(row, AT.next_call_time)?.filter(|next| *next < NEVER).map(time_from_millis);
    record.trace_context = DB::text(row, AT.trace_context)?;
    record.last_call_time = DB::int(row, AT.last_call_time)?.map(time_from_millis);
    record.ordering_key = DB::text(row, AT.ordering_key)?;
    record.dedupe_key = DB::text(row, AT.dedupe_key)?;
    record.tag = DB::text(row, AT.tag)?;
    record.unique_until_ended = DB::int(row, AT.until_ended)? == Some(1);
    record.own = OwnLimits::new(DB::int(row, AT.max_tries)?, DB::int(row, AT.expires_at)?.map(time_from_millis));
    record.parent_id = DB::int(row, AT.parent_id)?;
    record.response = LastResponse::from_stored(DB::text(row, AT.response)?.as_deref());
    record.finish_time = DB::int(row, AT.finish_time)?.map(time_from_millis);
    record.end_reason = DB::text(row, AT.end_reason)?;
    Ok(record.with_progress())
}
