//! Inserts many notices in few statements. It reads the ids of the definitions first, so that an unknown definition fails the
//! call before any insert. Then it inserts the notices in chunks.
//!
//! Ids are given in the order of the insert, so the sorted ids of a chunk belong to its notices in that order. Where duplicates
//! may be left out, the keyed notices are matched by their dedupe keys.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use solid_notify_core::add::NewNotice;
use solid_notify_core::error::{Error, Result};
use sqlx::Connection;

use crate::add::find::{DedupeKey, committed_ids, definition_ids, duplicates, unknown_definition};
use crate::add::known_ids::Found;
use crate::add::lists::values_lists;
use crate::add::new_row::{CHUNK_BYTES, NewRow};
use crate::add::one::{ROUNDS, insert, lost_again};
use crate::add::skipped::{check_skipped, end_skipped};
use crate::add::statements::{AddStatements, Returned};
use crate::caller::{Caller, Context, DOING, Inserted};
use crate::dialect::Dialect;
use crate::dialect::fault::failed;
use crate::dialect::kind::Kind;
use crate::dialect::row::required;
use crate::dialect::statement::{Arg, Statement, json};

/// Maximum number of notices in one statement.
const CHUNK: usize = 2000;

/// Inserts all notices in their order, or none. Returns one result for each.
pub(crate) async fn insert_many<DB: Dialect>(
    conn: &mut DB::Connection,
    notices: &[NewNotice],
    caller: Caller<'_>,
) -> Result<Vec<Inserted>> {
    for notice in notices {
        notice.check()?;
        check_skipped::<DB>(conn, notice)?;
    }
    match notices {
        [notice] => Ok(vec![insert_one::<DB>(conn, notice, caller).await?]),
        _ => insert_batch::<DB>(conn, notices, caller).await,
    }
}

/// Inserts one notice by the statement that takes no JSON, if the transaction sees its definition, else as a batch, which goes by the id of
/// the definition.
pub(crate) async fn insert_one<DB: Dialect>(
    conn: &mut DB::Connection,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Inserted> {
    match insert::<DB>(conn, notice, caller).await {
        Err(Error::NotInSnapshot { .. }) => {
            let mut inserted = insert_batch::<DB>(conn, std::slice::from_ref(notice), caller).await?;
            inserted.pop().ok_or_else(|| failed::<DB>(DOING, lost_again()))
        }
        inserted => inserted,
    }
}

async fn insert_batch<DB: Dialect>(
    conn: &mut DB::Connection,
    notices: &[NewNotice],
    caller: Caller<'_>,
) -> Result<Vec<Inserted>> {
    caller.check::<DB>(conn)?;
    let names: BTreeSet<&str> = notices.iter().map(NewNotice::name).collect();
    let (mut ids, mut tables) = definition_ids::<DB>(conn, &Vec::from_iter(names.iter().copied()), caller).await?;
    let mut looked_outside = false;
    if ids.len() < names.len()
        && DB::KIND.has_snapshots()
        && let Caller::Ours(context) = caller
    {
        // The caller's snapshot may be older than a definition.
        let committed = committed_ids(context).await?;
        if ids.is_empty() {
            tables = context.known.tables().to_string();
        }
        looked_outside = sees_tables_of_store::<DB>(conn, context).await?;
        if looked_outside {
            ids.extend(committed.into_iter().filter(|(name, _)| names.contains(name.as_str())));
        }
    }
    let now = Arg::Int(caller.now_millis());
    let encrypted = encrypted(notices, &ids, caller)?;
    let notices = encrypted.as_deref().unwrap_or(notices);
    let mut rows = Vec::with_capacity(notices.len());
    let mut keys: HashMap<DedupeKey, usize> = HashMap::new();
    // Notices that repeat a dedupe key of this call, each with the index of the first notice that has the key.
    let mut repeated = Vec::new();
    for (place, notice) in notices.iter().enumerate() {
        let Some(Found { id: owner, .. }) = ids.get(notice.name()) else {
            return Err(unknown_definition::<DB>(conn, notice.name(), now, !looked_outside).await);
        };
        let row = NewRow::new(place, *owner, notice);
        match row.key().map(|key| keys.entry(key)) {
            Some(Entry::Occupied(first)) => repeated.push((place, *first.get())),
            Some(Entry::Vacant(first)) => {
                first.insert(place);
                rows.push(row);
            }
            None => rows.push(row),
        }
    }
    sort_by_keys(&mut rows);
    if matches!(caller, Caller::Connection) && !conn.is_in_transaction() && !is_one_statement(DB::KIND, &rows) {
        let problem = format!(
            "{} notices on a connection without a transaction need several statements, each committed by itself: begin a transaction of \
             sqlx{}",
            notices.len(),
            if DB::KIND.update_returns() { format!(" (or add at most {CHUNK} at once)") } else { String::new() }
        );
        return Err(Error::InvalidNotice { name: notices[0].name().to_owned(), problem });
    }
    let mut inserted = vec![None; notices.len()];
    let keyed = rows.iter().any(|row| row.dedupe_key.is_some());
    let statements = AddStatements::of(DB::KIND);
    let statement = if keyed { &statements.insert_many_keyed } else { &statements.insert_many };
    let stored = match statement {
        Some(statement) => batches::<DB>(conn, statement, rows, now, &mut inserted).await,
        None => values_lists::<DB>(conn, rows, notices, (now, &tables), &mut inserted).await,
    };
    stored.map_err(|error| failed::<DB>(DOING, error))?;
    for (notice, inserted) in notices.iter().zip(&inserted) {
        if let Some(inserted) = inserted {
            end_skipped::<DB>(conn, now, notice, *inserted).await?;
        }
    }
    for (place, first) in repeated {
        inserted[place] = inserted[first].map(|first| Inserted::Duplicate(first.id()));
    }
    // Every row that was not repeated has its result, else the statements above failed.
    inserted.into_iter().map(|inserted| inserted.ok_or_else(|| failed::<DB>(DOING, lost_again()))).collect()
}

/// True where the transaction sees the tables in which the store reads definitions: an application may choose a tenant's schema. On MySQL the
/// insert itself compares them.
async fn sees_tables_of_store<DB: Dialect>(conn: &mut DB::Connection, context: &Context) -> Result<bool> {
    if !DB::KIND.insert_reads_freely() {
        return Ok(true);
    }
    let tables = context.known.look::<DB>(conn).await.map_err(|error| failed::<DB>(DOING, error))?;
    Ok(*tables == *context.known.tables())
}

/// Returns all notices with those encrypted whose definitions demand it; `None`: none does.
fn encrypted(
    notices: &[NewNotice],
    ids: &HashMap<String, Found>,
    caller: Caller<'_>,
) -> Result<Option<Vec<NewNotice>>> {
    if !ids.values().any(|found| found.encrypts) {
        return Ok(None);
    }
    let encrypted = notices.iter().map(|notice| {
        let encrypted = ids.get(notice.name()).map(|found| found.encrypted(notice, caller)).transpose()?.flatten();
        Ok(encrypted.unwrap_or_else(|| notice.clone()))
    });
    encrypted.collect::<Result<_>>().map(Some)
}

/// Sorts the rows so that those with dedupe keys come last, in one order for all callers. Two calls that insert the same keys in
/// different orders would deadlock. All other rows come first, in the caller's order: on MySQL a row without a dedupe key goes
/// into the gap before the smallest key, and that gap is locked as soon as another transaction waits for that key.
///
/// A row whose ordering key occurs more than once in the call counts as one without a dedupe key, because the order of the insert
/// is the order in which the notices of an ordering key are sent.
fn sort_by_keys(rows: &mut [NewRow<'_>]) {
    let mut ordered: HashMap<(i64, &str), usize> = HashMap::new();
    for key in rows.iter().filter_map(NewRow::order) {
        *ordered.entry(key).or_default() += 1;
    }
    let repeats = |row: &NewRow<'_>| row.order().is_some_and(|key| ordered.get(&key).is_some_and(|count| *count > 1));
    rows.sort_by_cached_key(|row| row.key().filter(|_| !repeats(row)).map(|key| (key.owner, key.own_key)));
    for (place, row) in rows.iter_mut().enumerate() {
        row.place = place;
    }
}

/// Inserts all rows. Repeats those whose duplicate lost its key before it was read, because their dedupe key is free then.
async fn batches<DB: Dialect>(
    conn: &mut DB::Connection,
    statement: &Statement,
    mut rows: Vec<NewRow<'_>>,
    now: Arg<'_>,
    inserted: &mut [Option<Inserted>],
) -> sqlx::Result<()> {
    for _ in 0..ROUNDS {
        insert_batches::<DB>(conn, statement, &rows, now, inserted).await?;
        rows.retain(|row| inserted[row.asked].is_none());
        if rows.is_empty() {
            return Ok(());
        }
    }
    Err(lost_again())
}

/// Runs a statement that takes a batch as JSON, skips duplicates and returns the inserted rows.
async fn insert_batches<DB: Dialect>(
    conn: &mut DB::Connection,
    statement: &Statement,
    rows: &[NewRow<'_>],
    now: Arg<'_>,
    inserted: &mut [Option<Inserted>],
) -> sqlx::Result<()> {
    const AT: Returned = Returned::AT;
    let mut missing = Vec::new();
    for chunk in chunks(rows) {
        let json = json(&chunk)?;
        let returned = DB::fetch(conn, statement, &[now, json.as_str().into()]).await?;
        let (mut by_key, mut by_order) = (HashMap::new(), Vec::new());
        for row in &returned {
            let (id, def_id) = (required::<DB>(row, AT.id)?, required::<DB>(row, AT.def_id)?);
            match DB::text(row, AT.dedupe_key)? {
                Some(key) => drop(by_key.insert((def_id, key), id)),
                None => by_order.push(id),
            }
        }
        by_order.sort_unstable();
        let mut by_order = by_order.into_iter();
        for row in chunk {
            let id = match row.key() {
                Some(key) => by_key.remove(&key.owned()),
                None => by_order.next(),
            };
            match id {
                Some(id) => inserted[row.asked] = Some(Inserted::New { id, def_id: row.owner }),
                None => missing.push(row),
            }
        }
    }
    for lock in [true, false] {
        let of_kind = || missing.iter().filter(|row| row.until_ended.is_none() == lock);
        let duplicates = duplicates::<DB>(conn, of_kind().filter_map(|row| row.key()), now, lock).await?;
        for row in of_kind() {
            let id = row.key().and_then(|key| duplicates.get(&key.owned()).copied());
            inserted[row.asked] = id.map(Inserted::Duplicate);
        }
    }
    Ok(())
}

/// True where all rows fit into one statement, so that all or none are inserted without a transaction around them.
fn is_one_statement(kind: Kind, rows: &[NewRow<'_>]) -> bool {
    // MySQL gets lists of constant lengths, see `lists.rs`.
    if kind.update_returns() { chunks(rows).count() <= 1 } else { rows.len() <= 1 }
}

/// Splits the rows into chunks of at most [`CHUNK`] rows and [`CHUNK_BYTES`] bytes.
fn chunks<'r, 'a>(rows: &'r [NewRow<'a>]) -> impl Iterator<Item = &'r [NewRow<'a>]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = rest.iter().take(CHUNK).take_while(|row| {
            bytes += row.size();
            bytes <= CHUNK_BYTES
        });
        let (chunk, left) = rest.split_at(fitting.count().clamp(rest.len().min(1), rest.len()));
        rest = left;
        (!chunk.is_empty()).then_some(chunk)
    })
}
