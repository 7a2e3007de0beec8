//! The audit: an entry for each change that a person or a late ack makes, written in the transaction of the change.

use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::AuditEntry;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, required, required_text};
use crate::dialect::statement::{Arg, Statement, int, statements};

columns! {
    Entry(kind: Kind):
    time = kind.epoch("time");
    who = "who";
    act = "act";
    def_id = "def_id";
    notice_id = "notice_id";
    detail = "detail";
}

statements! {
    AuditStatements:
    audit,
    audit_of,
    write_audit,
}

impl AuditStatements {
    fn new(kind: Kind) -> Self {
        let (now, columns) = (kind.now(), Entry::list(kind));
        let statement = |text: String| Statement::new(kind, &text);
        Self {
            audit: statement(format!("SELECT {columns} FROM notify_audit ORDER BY id DESC LIMIT $2")),
            audit_of: statement(format!(
                "SELECT {columns} FROM notify_audit WHERE notice_id = $2 ORDER BY id DESC LIMIT $3"
            )),
            write_audit: statement(format!(
                "INSERT INTO notify_audit (time, who, act, def_id, notice_id, detail) VALUES ({now}, $2, $3, $4, $5, $6)"
            )),
        }
    }
}

pub(crate) async fn audit<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, limit: usize) -> sqlx::Result<Vec<AuditEntry>> {
    let rows = on.rows(&AuditStatements::of(DB::KIND).audit, &[now, int(limit).into()]).await?;
    rows.iter().map(read::<DB>).collect()
}

pub(crate) async fn audit_of<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    notice_id: i64,
    limit: usize,
) -> sqlx::Result<Vec<AuditEntry>> {
    let rows = on.rows(&AuditStatements::of(DB::KIND).audit_of, &[now, notice_id.into(), int(limit).into()]).await?;
    rows.iter().map(read::<DB>).collect()
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<AuditEntry> {
    const AT: Entry = Entry::AT;
    let time = time_from_millis(required::<DB>(row, AT.time)?);
    let mut entry = AuditEntry::new(time, required_text::<DB>(row, AT.who)?, required_text::<DB>(row, AT.act)?);
    entry.def_id = DB::int(row, AT.def_id)?;
    entry.notice_id = DB::int(row, AT.notice_id)?;
    entry.detail = DB::text(row, AT.detail)?;
    Ok(entry)
}

/// Writes an audit entry, in the transaction of the change that it records.
pub(crate) async fn write_entry<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    entry: &AuditEntry,
) -> sqlx::Result<()> {
    let args = [
        now,
        entry.who.as_str().into(),
        entry.act.as_str().into(),
        Arg::Int(entry.def_id),
        Arg::Int(entry.notice_id),
        Arg::Text(entry.detail.as_deref()),
    ];
    DB::execute(conn, &AuditStatements::of(DB::KIND).write_audit, &args).await?;
    Ok(())
}
