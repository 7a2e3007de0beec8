//! Inserts many notices by lists of VALUES, for MySQL and MariaDB.
//!
//! MySQL reports only the first id of an insert, and gives consecutive ids only to such a list. The values are arguments, because sqlx
//! logs the text of a slow statement, on the application's connection too. So a list has one of two lengths: its text is constant, and
//! each connection prepares it once.

use std::sync::OnceLock;

use solid_notify_core::add::NewNotice;

use crate::add::find::{DedupeKey, duplicates};
use crate::add::new_row::{CHUNK_BYTES, NewRow};
use crate::add::one::insert_of;
use crate::add::statements::AddStatements;
use crate::caller::Inserted;
use crate::dialect::Dialect;
use crate::dialect::fault::is_unique_violation;
use crate::dialect::kind::Kind;
use crate::dialect::row::one_number;
use crate::dialect::statement::{Arg, Statement};

/// The lengths of lists, the longest first. What remains is inserted one by one.
const LENGTHS: [usize; 2] = [256, 16];

struct List {
    length: usize,
    statement: Statement,
}

/// Returns the lists of a database that needs them.
fn lists(kind: Kind) -> &'static [List] {
    static MADE: OnceLock<[List; 2]> = OnceLock::new();
    if kind.update_returns() {
        return &[];
    }
    MADE.get_or_init(|| LENGTHS.map(|length| List { length, statement: statement(kind, length) }))
}

/// Returns the statements, for a connection that is prepared.
pub(crate) fn statements(kind: Kind) -> impl Iterator<Item = &'static Statement> {
    lists(kind).iter().map(|list| &list.statement)
}

/// Inserts all rows. A duplicate fails its whole list, so visible duplicates are left out first. Where a list still fails for a
/// duplicate, its rows are inserted one by one.
pub(super) async fn values_lists<DB: Dialect>(
    conn: &mut DB::Connection,
    mut rows: Vec<NewRow<'_>>,
    notices: &[NewNotice],
    (now, tables): (Arg<'_>, &str),
    inserted: &mut [Option<Inserted>],
) -> sqlx::Result<()> {
    let mut seen = duplicates::<DB>(conn, rows.iter().filter_map(NewRow::key), now, false).await?;
    let is_seen = |row: &&NewRow<'_>| row.key().is_some_and(|key| seen.contains_key(&key.owned()));
    let to_hold = rows.iter().filter(|row| row.until_ended.is_none()).filter(is_seen).filter_map(NewRow::key);
    let to_hold = to_hold.collect::<Vec<_>>();
    let held = duplicates::<DB>(conn, to_hold.iter().copied(), now, true).await?;
    for key in to_hold.iter().map(DedupeKey::owned).filter(|key| !held.contains_key(key)) {
        seen.remove(&key);
    }
    rows.retain(|row| match row.key().and_then(|key| seen.get(&key.owned())) {
        Some(id) => {
            inserted[row.asked] = Some(Inserted::Duplicate(*id));
            false
        }
        None => true,
    });
    let step = match &AddStatements::of(DB::KIND).id_step {
        Some(id_step) if !rows.is_empty() => {
            let answer = DB::fetch(conn, id_step, &[]).await?;
            one_number::<DB>(&answer)?.unwrap_or(1)
        }
        _ => 1,
    };
    let mut rest = rows.as_slice();
    while !rest.is_empty() {
        let fitting = lists(DB::KIND).iter().find(|list| {
            rest.get(..list.length).is_some_and(|rows| rows.iter().map(NewRow::size).sum::<usize>() <= CHUNK_BYTES)
        });
        let (chunk, left) = rest.split_at(fitting.map_or(1, |list| list.length));
        rest = left;
        if let Some(list) = fitting {
            match DB::execute(conn, &list.statement, &arguments(chunk, now, tables)).await {
                Ok(done) => {
                    for (id, row) in (done.last_id..).step_by(usize::try_from(step).unwrap_or(1)).zip(chunk) {
                        inserted[row.asked] = Some(Inserted::New { id, def_id: row.owner });
                    }
                    continue;
                }
                Err(error) if is_unique_violation(&error) => {}
                Err(error) => return Err(error),
            }
        }
        for row in chunk {
            inserted[row.asked] = Some(insert_of::<DB>(conn, (row.owner, tables), &notices[row.asked], now).await?);
        }
    }
    Ok(())
}

/// The number of arguments of a row.
const VALUES: usize = 12;

/// `$2` is the database in which the definitions were read, as in `insert`. The arguments of the rows follow.
fn statement(kind: Kind, length: usize) -> Statement {
    let now = kind.now();
    let row = |number: usize| {
        let [owner, param, description, trace, order, key, until_ended, tag, max_tries, expires, at, delay] =
            std::array::from_fn::<_, VALUES, _>(|value| format!("${}", 3 + VALUES * number + value));
        let (expires, at) = (kind.epoch_time(&expires), kind.epoch_time(&at));
        // Never due before its insert, so that a look need not search before its mark.
        let send_time = kind.later(&format!("coalesce({at}, {})", kind.plus(&now, &delay)), &now);
        format!(
            "(IF(database() = $2, {owner}, NULL), {param}, {description}, {trace}, {order}, {key}, ({until_ended} = 1), {tag}, {max_tries}, \
             {expires}, {now}, {send_time})"
        )
    };
    let rows = (0..length).map(row).collect::<Vec<_>>().join(", ");
    let text = format!(
        "INSERT INTO notify_msg (
             def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended, tag,
             max_tries, expires_at, create_time, next_call_time
         )
         VALUES {rows}"
    );
    Statement::new(kind, &text)
}

fn arguments<'a>(rows: &[NewRow<'a>], now: Arg<'a>, tables: &'a str) -> Vec<Arg<'a>> {
    let mut arguments = vec![now, tables.into()];
    for row in rows {
        let values: [Arg<'a>; VALUES] = [
            row.owner.into(),
            row.param.into(),
            Arg::Text(row.description),
            Arg::Text(row.trace_context),
            Arg::Text(row.ordering_key),
            Arg::Text(row.dedupe_key),
            Arg::Int(row.until_ended),
            Arg::Text(row.tag),
            Arg::Int(row.max_tries),
            Arg::Int(row.expires_at),
            Arg::Int(row.send_at),
            row.delay.into(),
        ];
        arguments.extend(values);
    }
    arguments
}
