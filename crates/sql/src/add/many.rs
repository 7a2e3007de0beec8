//! Inserts many notices in few statements. It reads the ids of the definitions first, so that an unknown definition fails the
//! call before any insert. Then it inserts the notices in chunks.
//!
//! Ids are given in the order of the insert, so the sorted ids of a chunk belong to its notices in that order. Where duplicates
//! may be left out, the keyed notices are matched by their dedupe keys.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use solid_notify_core::add::NewNotice;
use solid_notify_core::error::{Error, Result};
use sqlx::Connection;

use crate::add::find::{DedupeKey, committed_ids, definition_ids, duplicates, unknown_definition};
use crate::add::known_ids::Found;
use crate::add::one::{ROUNDS, insert, insert_of, lost_again};
use crate::add::skipped::{check_skipped, end_skipped};
use crate::add::statements::{AddStatements, Returned};
use crate::caller::{Caller, DOING, Inserted};
use crate::dialect::Dialect;
use crate::dialect::fault::{failed, is_unique_violation};
use crate::dialect::kind::Kind;
use crate::dialect::row::{one_number, required};
use crate::dialect::statement::{Arg, Statement, json, mysql_literal};

/// Maximum number of notices in one statement.
const CHUNK: usize = 2000;
/// Maximum text of one statement, in bytes; a single notice may exceed it. MySQL writes each byte as two hexadecimal digits and
/// accepts at least 16 MiB.
const CHUNK_BYTES: usize = 2 << 20;

/// A notice as the statements `insert_many` and `insert_many_keyed` read it.
#[derive(Serialize)]
struct NewRow<'a> {
    /// Its index in the caller's list.
    #[serde(skip)]
    asked: usize,
    /// Its position in the order of the insert.
    place: usize,
    owner: i64,
    param: &'a str,
    description: Option<&'a str>,
    trace_context: Option<&'a str>,
    ordering_key: Option<&'a str>,
    dedupe_key: Option<&'a str>,
    /// 1: the dedupe key lasts until the notice has ended. Null: until it is claimed.
    until_ended: Option<i64>,
    tag: Option<&'a str>,
    max_tries: Option<i64>,
    expires_at: Option<i64>,
    send_at: Option<i64>,
    delay: i64,
}

impl<'a> NewRow<'a> {
    fn new(asked: usize, owner: i64, notice: &'a NewNotice) -> Self {
        let (send_at, delay) = notice.send_millis();
        Self {
            asked,
            place: asked,
            owner,
            param: notice.param_json(),
            description: notice.description_text(),
            trace_context: notice.trace_context_text(),
            ordering_key: notice.ordering_key_text(),
            dedupe_key: notice.taken_key_text(),
            until_ended: (notice.is_unique_until_ended() && notice.skip_reason().is_none()).then_some(1),
            tag: notice.tag_text(),
            max_tries: notice.own_limits().max_tries,
            expires_at: notice.expires_millis(),
            send_at,
            delay,
        }
    }

    fn key(&self) -> Option<DedupeKey<'a>> {
        self.dedupe_key.map(|own_key| DedupeKey { owner: self.owner, own_key })
    }

    /// The ordering key and its definition.
    fn order(&self) -> Option<(i64, &'a str)> {
        self.ordering_key.map(|key| (self.owner, key))
    }

    fn size(&self) -> usize {
        let texts = [self.description, self.trace_context, self.ordering_key, self.dedupe_key, self.tag];
        200 + self.param.len() + texts.into_iter().flatten().map(str::len).sum::<usize>()
    }
}

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
    // A single notice has a statement that takes no JSON batch.
    if let [notice] = notices {
        return Ok(vec![insert::<DB>(conn, notice, caller).await?]);
    }
    caller.check::<DB>(conn)?;
    let names: BTreeSet<&str> = notices.iter().map(NewNotice::name).collect();
    let (mut ids, mut tables) = definition_ids::<DB>(conn, &Vec::from_iter(names.iter().copied()), caller).await?;
    if ids.len() < names.len()
        && !DB::KIND.insert_reads_freely()
        && let Caller::Ours(context) = caller
    {
        // The caller's snapshot may be older than a definition.
        let committed = committed_ids(context).await?;
        if ids.is_empty() {
            tables = context.known.tables().to_string();
        }
        ids.extend(committed.into_iter().filter(|(name, _)| names.contains(name.as_str())));
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
            return Err(unknown_definition::<DB>(conn, notice.name(), now).await);
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
             sqlx (or add at most {CHUNK} at once{})",
            notices.len(),
            if DB::KIND.update_returns() { "" } else { ", without dedupe keys" }
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

/// Inserts by lists of VALUES, for a database that reports only the first id of an insert and gives consecutive ids only to such
/// a list. A duplicate fails the whole list, so visible duplicates are left out first. Where the list still fails for a
/// duplicate, its rows are inserted one by one.
async fn values_lists<DB: Dialect>(
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
    for chunk in chunks(&rows) {
        let keyed = chunk.iter().any(|row| row.dedupe_key.is_some());
        match DB::script(conn, values_list(DB::KIND, chunk, now, tables).into()).await {
            Ok(done) => {
                for (id, row) in (done.last_id..).step_by(usize::try_from(step).unwrap_or(1)).zip(chunk) {
                    inserted[row.asked] = Some(Inserted::New { id, def_id: row.owner });
                }
            }
            Err(error) if keyed && is_unique_violation(&error) => {
                for row in chunk {
                    let notice = &notices[row.asked];
                    inserted[row.asked] = Some(insert_of::<DB>(conn, (row.owner, tables), notice, now).await?);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// True where all rows fit into one statement, so that all or none are inserted without a transaction around them.
fn is_one_statement(kind: Kind, rows: &[NewRow<'_>]) -> bool {
    // On MySQL a duplicate that is not visible splits the list into one statement for each row.
    chunks(rows).count() <= 1 && (kind.update_returns() || rows.iter().all(|row| row.dedupe_key.is_none()))
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

/// An INSERT with its values in the text, so that its length is free and it needs no prepared statement. It names the database in
/// which the definitions were read, because `USE` may have chosen another one for the session.
fn values_list(kind: Kind, rows: &[NewRow<'_>], now: Arg<'_>, tables: &str) -> String {
    let now = match now {
        Arg::Int(Some(ms)) => kind.epoch_time(&ms.to_string()),
        _ => kind.database_now().to_owned(),
    };
    let row = |row: &NewRow<'_>| {
        let [param, description, trace_context] =
            [Some(row.param), row.description, row.trace_context].map(mysql_literal);
        let [ordering_key, dedupe_key, tag] = [row.ordering_key, row.dedupe_key, row.tag].map(mysql_literal);
        let number = |number: Option<i64>| number.map_or("NULL".to_owned(), |number| number.to_string());
        let [until_ended, max_tries] = [row.until_ended, row.max_tries].map(number);
        let expires_at = kind.epoch_time(&number(row.expires_at));
        let send_time = match row.send_at {
            Some(at) => kind.later(&kind.epoch_time(&at.to_string()), &now),
            None => kind.plus(&now, &row.delay.to_string()),
        };
        format!(
            "({}, {param}, {description}, {trace_context}, {ordering_key}, {dedupe_key}, {until_ended}, {tag}, \
             {max_tries}, {expires_at}, {now}, {send_time})",
            row.owner
        )
    };
    let rows = rows.iter().map(row).collect::<Vec<_>>();
    let tables = tables.replace('`', "``");
    format!(
        "INSERT INTO `{tables}`.notify_msg (
             def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended, tag,
             max_tries, expires_at, create_time, next_call_time
         )
         VALUES {}",
        rows.join(", ")
    )
}
