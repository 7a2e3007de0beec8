//! What an insert reads: the definition, and the notices that have the dedupe keys of the new ones.

use std::collections::HashMap;

use serde::Serialize;
use solid_notify_core::add::{NewNotice, nearest_name};
use solid_notify_core::error::{Error, Result};

use crate::add::known_ids::Found;
use crate::add::statements::{AddStatements, Duplicate, Looked, Named};
use crate::caller::{Caller, Context, DOING};
use crate::dialect::Dialect;
use crate::dialect::fault::failed;
use crate::dialect::row::{one_number, required};
use crate::dialect::statement::{Arg, Statement, json};

/// Reads the notice's definition by the statement `look`, and the tables in which it was read. `look_now` is the same as
/// a locking read.
pub(crate) async fn definition_id<DB: Dialect>(
    conn: &mut DB::Connection,
    [look, look_now]: [&Statement; 2],
    now: Arg<'_>,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Option<(Found, String)>> {
    let found = found_by::<DB>(conn, look, now, notice, caller).await?;
    match (found, caller) {
        (Some(found), _) => Ok(Some(found)),
        // The caller's snapshot may be older than the definition.
        (None, Caller::Ours(context)) => {
            let found = committed_ids(context).await?.remove(notice.name());
            Ok(found.map(|found| (found, context.known.tables().to_string())))
        }
        // Only a locking read on this connection sees what was committed since the snapshot.
        (None, _) => found_by::<DB>(conn, look_now, now, notice, caller).await,
    }
}

async fn found_by<DB: Dialect>(
    conn: &mut DB::Connection,
    look: &Statement,
    now: Arg<'_>,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Option<(Found, String)>> {
    let failed = |error| failed::<DB>(DOING, error);
    let rows = DB::fetch(conn, look, &[now, notice.name().into()]).await.map_err(failed)?;
    let Some(row) = rows.first() else { return Ok(None) };
    if !matches!(caller, Caller::Connection) && DB::int(row, Looked::AT.is_open).map_err(failed)? == Some(0) {
        return Err(Error::TransactionLost { doing: DOING });
    }
    let id = required::<DB>(row, Looked::AT.id).map_err(failed)?;
    let encrypts = DB::int(row, Looked::AT.encrypts).map_err(failed)? == Some(1);
    Ok(Some((Found { id, encrypts }, DB::text(row, Looked::AT.tables).map_err(failed)?.unwrap_or_default())))
}

/// Reads the definitions that have these names, and the tables in which they were read.
pub(crate) async fn definition_ids<DB: Dialect>(
    conn: &mut DB::Connection,
    names: &[&str],
    caller: Caller<'_>,
) -> Result<(HashMap<String, Found>, String)> {
    let failed = |error| failed::<DB>(DOING, error);
    let json = serde_json::Value::from_iter(names.iter().map(|name| serde_json::json!({ "own_key": name })));
    let args = [Arg::Int(caller.now_millis()), Arg::Text(Some(&json.to_string()))];
    let rows = DB::fetch(conn, &AddStatements::of(DB::KIND).definition_ids, &args).await.map_err(failed)?;
    let entry = |row| {
        let encrypts = DB::int(row, Named::AT.encrypts)? == Some(1);
        let found = Found { id: required::<DB>(row, Named::AT.id)?, encrypts };
        Ok((DB::text(row, Named::AT.name)?.unwrap_or_default(), found))
    };
    let tables = rows.first().map(|row| DB::text(row, Named::AT.tables)).transpose().map_err(failed)?.flatten();
    Ok((rows.iter().map(entry).collect::<sqlx::Result<_>>().map_err(failed)?, tables.unwrap_or_default()))
}

/// Reads all definitions on a connection of the store, by their names. A locking read on the caller's connection would make operators
/// wait for the end of its transaction, even for a name that does not exist.
pub(crate) async fn committed_ids(context: &Context) -> Result<HashMap<String, Found>> {
    let definitions = context.outbox.engine().stores().definitions.definitions().await?;
    let alive = definitions.into_iter().filter(|def| def.delete_time.is_none());
    Ok(alive.map(|def| (def.name, Found { id: def.id, encrypts: def.encrypt_param })).collect())
}

/// The error for a definition that does not exist. It names the most similar definition. `may_be_newer`: only this transaction was asked,
/// which may have an old snapshot.
pub(crate) async fn unknown_definition<DB: Dialect>(
    conn: &mut DB::Connection,
    name: &str,
    now: Arg<'_>,
    may_be_newer: bool,
) -> Error {
    if let Some(isolation) = DB::KIND.isolation().filter(|_| may_be_newer) {
        match DB::fetch(conn, &Statement::new(DB::KIND, isolation), &[]).await {
            Ok(rows) if one_number::<DB>(&rows).is_ok_and(|above| above == Some(1)) => {
                return Error::NotInSnapshot { name: name.to_owned() };
            }
            Ok(_) => {}
            Err(error) => return failed::<DB>(DOING, error),
        }
    }
    let rows = match DB::fetch(conn, &AddStatements::of(DB::KIND).definition_names, &[now]).await {
        Ok(rows) => rows,
        Err(error) => return failed::<DB>(DOING, error),
    };
    let known = rows.iter().filter_map(|row| DB::text(row, 0).ok().flatten()).collect::<Vec<_>>();
    let nearest = nearest_name(name, known.iter().map(String::as_str));
    Error::UnknownDefinition { name: name.to_owned(), nearest }
}

/// A dedupe key and its definition, as the statement `duplicates` reads them.
#[derive(Serialize, PartialEq, Eq, Hash, Clone, Copy)]
pub(crate) struct DedupeKey<'a> {
    pub(crate) owner: i64,
    pub(crate) own_key: &'a str,
}

impl DedupeKey<'_> {
    pub(crate) fn owned(&self) -> (i64, String) {
        (self.owner, self.own_key.to_owned())
    }
}

/// Returns the ids of the visible notices that have these keys. `lock` locks them: no sweeper claims them before this transaction
/// ends.
pub(crate) async fn duplicates<DB: Dialect>(
    conn: &mut DB::Connection,
    keys: impl Iterator<Item = DedupeKey<'_>>,
    now: Arg<'_>,
    lock: bool,
) -> sqlx::Result<HashMap<(i64, String), i64>> {
    const AT: Duplicate = Duplicate::AT;
    let keys = keys.collect::<Vec<_>>();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let json = json(&keys)?;
    let statements = AddStatements::of(DB::KIND);
    let statement = if lock { &statements.lock_duplicates } else { &statements.duplicates };
    let rows = DB::fetch(conn, statement, &[now, json.as_str().into()]).await?;
    let entry = |row| {
        let key = (required::<DB>(row, AT.def_id)?, DB::text(row, AT.dedupe_key)?.unwrap_or_default());
        Ok((key, required::<DB>(row, AT.id)?))
    };
    rows.iter().map(entry).collect()
}

/// Returns the id of the notice that has the dedupe key, if this transaction sees one. `lock` locks it: where the key lasts until
/// the claim, no sweeper may claim the notice before this transaction ends, because the handler would not see this transaction's
/// changes.
pub(crate) async fn duplicate_of<DB: Dialect>(
    conn: &mut DB::Connection,
    def_id: i64,
    notice: &NewNotice,
    now: Arg<'_>,
    lock: bool,
) -> sqlx::Result<Option<i64>> {
    let key = notice.taken_key_text().map(|own_key| DedupeKey { owner: def_id, own_key });
    Ok(duplicates::<DB>(conn, key.into_iter(), now, lock).await?.into_values().next())
}
