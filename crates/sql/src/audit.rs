//! The audit: an entry for each change that a person or a late ack makes, written in the transaction of the change, and read page by
//! page. A page begins after a position, never at an offset.

use chrono::{DateTime, Utc};
use solid_notify_core::notice::{rfc3339, time_from_millis};
use solid_notify_core::store::{AuditEntry, AuditQuery, Position};

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, required, required_text};
use crate::dialect::statement::{Arg, Statement, int, statements};

columns! {
    Entry(kind: Kind):
    id = "e.id";
    time = kind.epoch("e.time");
    position = kind.time_text("e.time");
    who = "e.who";
    act = "e.act";
    def_id = "e.def_id";
    notice_id = "e.notice_id";
    notice_ids = "e.notice_ids";
    detail = "e.detail";
}

statements! {
    AuditStatements:
    audit,
    audit_of_definition,
    audit_of_notice,
    audit_of_steps,
    audit_by_who,
    audit_by_act,
    write_audit,
}

impl AuditStatements {
    fn new(kind: Kind) -> Self {
        let (now, columns) = (kind.now(), Entry::list(kind));
        let statement = |text: String| Statement::new(kind, &text);
        // At most `$6` entries before the position `$4`, `$5` and from `$3` on, the latest first. Only what an index serves: with
        // more conditions Postgres expects few entries, and sorts all.
        let ordered = |index: &str, which: &str, time: &str| {
            statement(format!(
                "SELECT {columns} FROM notify_audit e{}
                 WHERE {which} AND {time} >= {} AND {time} <= {until} AND ({time} < {until} OR e.id < $5)
                 ORDER BY {time} DESC, e.id DESC LIMIT $6",
                kind.by_index(index),
                kind.text_time("$3"),
                until = kind.text_time("$4"),
            ))
        };
        let page = |index: &str, which: &str| ordered(index, which, "e.time");
        Self {
            audit: page("notify_audit_time", "$2 = 0"),
            audit_of_definition: page("notify_audit_definition", "e.def_id = $2"),
            audit_of_notice: page("notify_audit_notice", "e.notice_id = $2"),
            // The steps of bulk verbs that changed the notice `$2`. Their ids are near each other, so few texts are searched. The few
            // that are found are sorted: no index has this form of the time, so that no database reads all entries in its order.
            audit_of_steps: ordered(
                "notify_audit_steps",
                "e.last_id >= $2 AND e.first_id <= $2 AND e.notice_ids LIKE $7",
                "coalesce(e.time, e.time)",
            ),
            audit_by_who: page("notify_audit_who", "e.who = $2"),
            audit_by_act: page("notify_audit_act", "e.act = $2"),
            write_audit: statement(format!(
                "INSERT INTO notify_audit (time, who, act, def_id, notice_id, detail, notice_ids, first_id, last_id)
                 VALUES ({now}, $2, $3, $4, $5, $6, $7, $8, $9)"
            )),
        }
    }
}

/// The maximum number of entries that are read at once, if few of them are selected.
const LONGEST_PART: usize = 1000;

pub(crate) async fn audit<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    query: &AuditQuery,
    limit: usize,
) -> sqlx::Result<Vec<(Position, AuditEntry)>> {
    let statements = AuditStatements::of(DB::KIND);
    let (from, last) = bounds::<DB>(query);
    let (who, act) = (query.who.as_deref(), query.act.as_deref());
    // The condition that selects the fewest entries has the index; the others are checked here.
    let selected: Vec<(&Statement, Arg<'_>)> = match (query.notice_id, query.def_id, who, act) {
        (Some(id), ..) => vec![(&statements.audit_of_notice, id.into()), (&statements.audit_of_steps, id.into())],
        (None, Some(id), ..) => vec![(&statements.audit_of_definition, id.into())],
        (None, None, Some(who), _) => vec![(&statements.audit_by_who, who.into())],
        (None, None, None, Some(act)) => vec![(&statements.audit_by_act, act.into())],
        (None, None, None, None) => vec![(&statements.audit, 0.into())],
    };
    let pattern = query.notice_id.map(|id| format!("%,{id},%"));
    let mut found = Vec::new();
    for (statement, by) in selected {
        let (mut last, mut part, mut rest) = (last.clone(), limit, limit);
        loop {
            let bounds = [from.as_str().into(), last.0.as_str().into(), last.1.into()];
            let args = [&[now, by], &bounds[..], &[int(part).into(), Arg::Text(pattern.as_deref())]].concat();
            let rows = on.rows(statement, &args).await?;
            for row in &rows {
                let (position, entry) = read::<DB>(row)?;
                last = (position.time().to_owned(), position.id());
                if query.selects(&entry) {
                    found.push((position, entry));
                    rest = rest.saturating_sub(1);
                }
            }
            if rows.len() < part || rest == 0 {
                break;
            }
            part = (2 * part).min(LONGEST_PART);
        }
    }
    found.sort_by(|(one, _), (other, _)| other.cmp(one));
    found.truncate(limit);
    Ok(found)
}

/// Returns the first time, the last one, and the id before which a page begins, as the database has them.
fn bounds<DB: Dialect>(query: &AuditQuery) -> (String, (String, i64)) {
    let text = |time: DateTime<Utc>| {
        let text = rfc3339(time);
        DB::KIND.padded_time(&text.trim_end_matches('Z').replace('T', " "))
    };
    let from = query.from.map_or_else(|| "1970-01-01 00:00:00".to_owned(), text);
    let until = query.until.map_or_else(|| DB::KIND.last_time().to_owned(), text);
    let last = match &query.after {
        // The position may be later than the end of the filter.
        Some(after) if after.time() <= until.as_str() => (after.time().to_owned(), after.id()),
        _ => (until, i64::MAX),
    };
    (from, last)
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<(Position, AuditEntry)> {
    const AT: Entry = Entry::AT;
    let time = time_from_millis(required::<DB>(row, AT.time)?);
    let mut entry = AuditEntry::new(time, required_text::<DB>(row, AT.who)?, required_text::<DB>(row, AT.act)?);
    entry.def_id = DB::int(row, AT.def_id)?;
    entry.notice_id = DB::int(row, AT.notice_id)?;
    let ids = DB::text(row, AT.notice_ids)?.unwrap_or_default();
    entry.notice_ids = ids.split(',').filter_map(|id| id.parse().ok()).collect();
    entry.detail = DB::text(row, AT.detail)?;
    Ok((Position::new(required_text::<DB>(row, AT.position)?, required::<DB>(row, AT.id)?), entry))
}

/// Writes an audit entry, in the transaction of the change that it records.
pub(crate) async fn write_entry<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    entry: &AuditEntry,
) -> sqlx::Result<()> {
    let ids: String = entry.notice_ids.iter().map(|id| format!("{id},")).collect();
    let ids = Some(format!(",{ids}")).filter(|_| !entry.notice_ids.is_empty());
    let args = [
        now,
        entry.who.as_str().into(),
        entry.act.as_str().into(),
        Arg::Int(entry.def_id),
        Arg::Int(entry.notice_id),
        Arg::Text(entry.detail.as_deref()),
        Arg::Text(ids.as_deref()),
        Arg::Int(entry.notice_ids.first().copied()),
        Arg::Int(entry.notice_ids.last().copied()),
    ];
    DB::execute(conn, &AuditStatements::of(DB::KIND).write_audit, &args).await?;
    Ok(())
}
