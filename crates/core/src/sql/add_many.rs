//! Inserting many notices in few statements: the definitions' ids first, so that one that does not exist costs nothing,
//! then chunks of the notices.
//!
//! Which id belongs to which notice: ids are given in the order of the insert, so those of a chunk, sorted, are those of its
//! notices. Where duplicates may have been left out, the others are told by their keys.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::add::{Caller, DOING, Inserted, definitions_beside, insert, insert_of, unknown_definition};
use super::definitions::is_unique_violation;
use super::dialect::Dialect;
use super::fragment::Kind;
use super::insert_statements::NEW_COLUMNS;
use super::read::required;
use super::run::{Arg, mysql_literal};
use super::store::json;
use super::tx::failed;
use crate::add::NewNotice;
use crate::error::Result;

/// The most notices of one statement.
const CHUNK: usize = 2000;
/// The most text of one statement, in bytes; a single notice may have more. MySQL writes each byte as two, and takes 16 MiB
/// at least.
const CHUNK_BYTES: usize = 2 << 20;

/// A notice as the statements `insert_many` and `insert_many_keyed` read it.
#[derive(Serialize)]
struct Row<'a> {
    place: usize,
    owner: i64,
    param: &'a str,
    description: Option<&'a str>,
    trace_context: Option<&'a str>,
    ordering_key: Option<&'a str>,
    dedupe_key: Option<&'a str>,
    send_at: Option<i64>,
    delay: i64,
}

/// A key, as the statement `duplicates` reads it.
#[derive(Serialize, PartialEq, Eq, Hash, Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) owner: i64,
    pub(super) own_key: &'a str,
}

impl Key<'_> {
    fn owned(&self) -> (i64, String) {
        (self.owner, self.own_key.to_owned())
    }
}

impl<'a> Row<'a> {
    fn new(place: usize, owner: i64, notice: &'a NewNotice) -> Self {
        let (send_at, delay) = notice.send_millis();
        Self {
            place,
            owner,
            param: notice.param_json(),
            description: notice.description_text(),
            trace_context: notice.trace_context_text(),
            ordering_key: notice.ordering_key_text(),
            dedupe_key: notice.dedupe_key_text(),
            send_at,
            delay,
        }
    }

    fn key(&self) -> Option<Key<'a>> {
        self.dedupe_key.map(|own_key| Key { owner: self.owner, own_key })
    }

    fn size(&self) -> usize {
        let texts = [self.description, self.trace_context, self.ordering_key, self.dedupe_key];
        200 + self.param.len() + texts.into_iter().flatten().map(str::len).sum::<usize>()
    }
}

/// Inserts all of them, in their order, or none; one answer each.
pub(super) async fn insert_many<DB: Dialect>(
    conn: &mut DB::Connection,
    notices: &[NewNotice],
    caller: Caller<'_>,
) -> Result<Vec<Inserted>> {
    for notice in notices {
        notice.check(caller.param_limit())?;
    }
    // A single one has a statement without JSON around it.
    if let [notice] = notices {
        return Ok(vec![insert::<DB>(conn, notice, caller).await?]);
    }
    caller.check::<DB>(conn)?;
    let names: BTreeSet<&str> = notices.iter().map(NewNotice::name).collect();
    let mut ids = definition_ids::<DB>(conn, &Vec::from_iter(names.iter().copied()), caller).await?;
    if ids.len() < names.len()
        && !DB::KIND.insert_reads_freely()
        && let Caller::Ours(context) = caller
    {
        // The caller's snapshot may be older than a definition.
        let beside = definitions_beside(context).await?;
        ids.extend(beside.into_iter().filter(|(name, _)| names.contains(name.as_str())));
    }
    let now = Arg::Int(caller.now_millis());
    let mut rows = Vec::with_capacity(notices.len());
    let mut keys: HashMap<Key, usize> = HashMap::new();
    // Those that repeat a key of this very call, and the place of the notice that has it.
    let mut repeated = Vec::new();
    for (place, notice) in notices.iter().enumerate() {
        let Some(owner) = ids.get(notice.name()) else {
            return Err(unknown_definition::<DB>(conn, notice.name(), now).await);
        };
        let row = Row::new(place, *owner, notice);
        match row.key().map(|key| keys.entry(key)) {
            Some(Entry::Occupied(first)) => repeated.push((place, *first.get())),
            Some(Entry::Vacant(first)) => {
                first.insert(place);
                rows.push(row);
            }
            None => rows.push(row),
        }
    }
    // Two calls that add the same keys in different orders would wait for each other.
    if rows.iter().all(|row| row.ordering_key.is_none()) {
        rows.sort_by_key(|row| row.dedupe_key);
    }
    let mut inserted = vec![Inserted::Duplicate(None); notices.len()];
    let stored = if DB::KIND.update_returns() {
        batches::<DB>(conn, &rows, now, &mut inserted).await
    } else {
        values_lists::<DB>(conn, rows, notices, now, &mut inserted).await
    };
    stored.map_err(|error| failed::<DB>(DOING, error))?;
    for (place, first) in repeated {
        inserted[place] = match inserted[first] {
            Inserted::New { id, .. } => Inserted::Duplicate(Some(id)),
            duplicate => duplicate,
        };
    }
    Ok(inserted)
}

/// The ids of those of the names that definitions have.
pub(super) async fn definition_ids<DB: Dialect>(
    conn: &mut DB::Connection,
    names: &[&str],
    caller: Caller<'_>,
) -> Result<HashMap<String, i64>> {
    let failed = |error| failed::<DB>(DOING, error);
    let json = serde_json::Value::from_iter(names.iter().map(|name| serde_json::json!({ "own_key": name })));
    let args = [Arg::Int(caller.now_millis()), Arg::Text(Some(&json.to_string()))];
    let rows = DB::fetch(conn, &DB::statements().definition_ids, &args).await.map_err(failed)?;
    let entry = |row| Ok((DB::text(row, 1)?.unwrap_or_default(), required::<DB>(row, 0)?));
    rows.iter().map(entry).collect::<sqlx::Result<_>>().map_err(failed)
}

/// Statements that take a batch as JSON, leave out duplicates and return what they inserted.
async fn batches<DB: Dialect>(
    conn: &mut DB::Connection,
    rows: &[Row<'_>],
    now: Arg<'_>,
    inserted: &mut [Inserted],
) -> sqlx::Result<()> {
    let statements = DB::statements();
    let keyed = rows.iter().any(|row| row.dedupe_key.is_some());
    let statement = if keyed { &statements.insert_many_keyed } else { &statements.insert_many };
    let mut missing = Vec::new();
    for chunk in chunks(rows) {
        let json = json(&chunk)?;
        let returned = DB::fetch(conn, statement, &[now, json.as_str().into()]).await?;
        let (mut by_key, mut by_order) = (HashMap::new(), Vec::new());
        for row in &returned {
            let (id, def_id) = (required::<DB>(row, 0)?, required::<DB>(row, 1)?);
            match DB::text(row, 2)? {
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
                Some(id) => inserted[row.place] = Inserted::New { id, def_id: row.owner },
                None => missing.push(row),
            }
        }
    }
    let duplicates = duplicates::<DB>(conn, missing.iter().filter_map(|row| row.key()), now).await?;
    for row in missing {
        inserted[row.place] = Inserted::Duplicate(row.key().and_then(|key| duplicates.get(&key.owned()).copied()));
    }
    Ok(())
}

/// A list of VALUES, where the database tells no more of an insert than its first id, and gives consecutive ones only to
/// such a list. A duplicate fails the whole list, so those that can be seen are left out before; after another one the list
/// is inserted row by row.
async fn values_lists<DB: Dialect>(
    conn: &mut DB::Connection,
    mut rows: Vec<Row<'_>>,
    notices: &[NewNotice],
    now: Arg<'_>,
    inserted: &mut [Inserted],
) -> sqlx::Result<()> {
    let duplicates = duplicates::<DB>(conn, rows.iter().filter_map(Row::key), now).await?;
    rows.retain(|row| match row.key().and_then(|key| duplicates.get(&key.owned())) {
        Some(id) => {
            inserted[row.place] = Inserted::Duplicate(Some(*id));
            false
        }
        None => true,
    });
    let step = match rows.is_empty() {
        true => 1,
        false => {
            let answer = DB::fetch(conn, &DB::statements().id_step, &[]).await?;
            answer.first().map(|row| required::<DB>(row, 0)).transpose()?.unwrap_or(1)
        }
    };
    for chunk in chunks(&rows) {
        let keyed = chunk.iter().any(|row| row.dedupe_key.is_some());
        match DB::script(conn, values_list(DB::KIND, chunk, now).into()).await {
            Ok(done) => {
                for (id, row) in (done.last_id..).step_by(usize::try_from(step).unwrap_or(1)).zip(chunk) {
                    inserted[row.place] = Inserted::New { id, def_id: row.owner };
                }
            }
            Err(error) if keyed && is_unique_violation(&error) => {
                for row in chunk {
                    inserted[row.place] = insert_of::<DB>(conn, row.owner, &notices[row.place], now).await?;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The ids of the live notices with these keys, as far as this transaction sees them.
pub(super) async fn duplicates<DB: Dialect>(
    conn: &mut DB::Connection,
    keys: impl Iterator<Item = Key<'_>>,
    now: Arg<'_>,
) -> sqlx::Result<HashMap<(i64, String), i64>> {
    let keys = keys.collect::<Vec<_>>();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let json = json(&keys)?;
    let rows = DB::fetch(conn, &DB::statements().duplicates, &[now, json.as_str().into()]).await?;
    let entry = |row| {
        let key = (required::<DB>(row, 1)?, DB::text(row, 2)?.unwrap_or_default());
        Ok((key, required::<DB>(row, 0)?))
    };
    rows.iter().map(entry).collect()
}

/// Rows in pieces of a bounded number and size.
fn chunks<'r, 'a>(rows: &'r [Row<'a>]) -> impl Iterator<Item = &'r [Row<'a>]> {
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

/// An INSERT with its values in its text, so that its length is free and nothing is prepared for it.
fn values_list(kind: Kind, rows: &[Row<'_>], now: Arg<'_>) -> String {
    let now = match now {
        Arg::Int(Some(ms)) => kind.epoch_time(&ms.to_string()),
        _ => kind.database_now().to_owned(),
    };
    let row = |row: &Row<'_>| {
        let [param, description, trace_context] =
            [Some(row.param), row.description, row.trace_context].map(mysql_literal);
        let [ordering_key, dedupe_key] = [row.ordering_key, row.dedupe_key].map(mysql_literal);
        let send_time = match row.send_at {
            Some(at) => kind.later(&kind.epoch_time(&at.to_string()), &now),
            None => kind.plus(&now, &row.delay.to_string()),
        };
        format!(
            "({}, {param}, {description}, {trace_context}, {ordering_key}, {dedupe_key}, {now}, {send_time})",
            row.owner
        )
    };
    let rows = rows.iter().map(row).collect::<Vec<_>>();
    format!("INSERT INTO notify_msg ({NEW_COLUMNS}) VALUES {}", rows.join(", "))
}
