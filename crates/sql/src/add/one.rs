//! Inserts one notice.

use solid_notify_core::add::NewNotice;
use solid_notify_core::error::Result;

use crate::add::find::{definition_id, definition_ids, duplicate_of, unknown_definition};
use crate::add::skipped::{check_skipped, end_skipped};
use crate::add::statements::{AddStatements, Returned};
use crate::caller::{Caller, DOING, Inserted};
use crate::dialect::Dialect;
use crate::dialect::fault::{failed, is_unique_violation};
use crate::dialect::row::required;
use crate::dialect::statement::Arg;
use crate::shortcuts::insert_bare::insert_bare;

/// Inserts one notice. A skipped one is in history at once.
pub(crate) async fn insert<DB: Dialect>(
    conn: &mut DB::Connection,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Inserted> {
    notice.check()?;
    caller.check::<DB>(conn)?;
    check_skipped::<DB>(conn, notice)?;
    let inserted = insert_live::<DB>(conn, notice, caller).await?;
    end_skipped::<DB>(conn, Arg::Int(caller.now_millis()), notice, inserted).await?;
    Ok(inserted)
}

async fn insert_live<DB: Dialect>(
    conn: &mut DB::Connection,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Inserted> {
    let statements = AddStatements::of(DB::KIND);
    let failed = |error| failed::<DB>(DOING, error);
    let now = Arg::Int(caller.now_millis());
    let (Some(look), Some(look_now)) = (&statements.definition_id, &statements.definition_id_now) else {
        return insert_by_name::<DB>(conn, notice, caller, now).await;
    };
    match definition_id::<DB>(conn, [look, look_now], now, notice, caller).await? {
        Some((found, tables)) => {
            let encrypted = found.encrypted(notice, caller)?;
            let notice = encrypted.as_ref().unwrap_or(notice);
            insert_of::<DB>(conn, (found.id, &tables), notice, now).await.map_err(failed)
        }
        None => Err(unknown_definition::<DB>(conn, notice.name(), now, true).await),
    }
}

/// Inserts a notice by a statement that looks its definition up.
async fn insert_by_name<DB: Dialect>(
    conn: &mut DB::Connection,
    notice: &NewNotice,
    caller: Caller<'_>,
    now: Arg<'_>,
) -> Result<Inserted> {
    let statements = AddStatements::of(DB::KIND);
    let failed = |error| failed::<DB>(DOING, error);
    let keyed = notice.taken_key_text().is_some();
    let mut encrypted = caller.encrypted_early(notice)?;
    for _ in 0..ROUNDS {
        let notice = encrypted.as_ref().unwrap_or(notice);
        let definition = (notice.name().into(), "");
        let (statement, args) = if let Some(bare) = insert_bare::<DB>(now, definition, notice) {
            bare
        } else {
            let statement = statements.insert_keyed.as_ref().filter(|_| keyed).unwrap_or(&statements.insert);
            (statement, values(now, definition, notice))
        };
        let rows = DB::fetch(conn, statement, &args).await.map_err(failed)?;
        if let Some(row) = rows.first() {
            let [id, def_id] = [Returned::AT.id, Returned::AT.def_id].map(|at| required::<DB>(row, at).map_err(failed));
            let (id, def_id) = (id?, def_id?);
            return Ok(Inserted::New { id, def_id });
        }
        // No row was inserted: the notice is a duplicate, or the definition does not exist or stores only encrypted parameters.
        let Some(found) = definition_ids::<DB>(conn, &[notice.name()], caller).await?.0.remove(notice.name()) else {
            return Err(unknown_definition::<DB>(conn, notice.name(), now, true).await);
        };
        if let Some(now_encrypted) = found.encrypted(notice, caller)? {
            encrypted = Some(now_encrypted);
            continue;
        }
        let lock = !notice.is_unique_until_ended();
        if let Some(id) = duplicate_of::<DB>(conn, found.id, notice, now, lock).await.map_err(failed)? {
            return Ok(Inserted::Duplicate(id));
        }
    }
    Err(failed(lost_again()))
}

/// Inserts a notice whose definition was looked up before.
///
/// Searches for a duplicate first. An insert that fails for a duplicate keeps a lock on it until the caller's transaction ends,
/// so its outcome could not be settled. The unique index catches only a duplicate that this transaction does not see.
pub(crate) async fn insert_of<DB: Dialect>(
    conn: &mut DB::Connection,
    (def_id, tables): (i64, &str),
    notice: &NewNotice,
    now: Arg<'_>,
) -> sqlx::Result<Inserted> {
    if notice.taken_key_text().is_some()
        && let Some(id) = duplicate_of::<DB>(conn, def_id, notice, now, false).await?
    {
        // The lock is taken only where a row was seen, because a locking read that finds no row would lock the gap.
        let id = match notice.is_unique_until_ended() {
            true => Some(id),
            false => duplicate_of::<DB>(conn, def_id, notice, now, true).await?,
        };
        if let Some(id) = id {
            return Ok(Inserted::Duplicate(id));
        }
    }
    let definition = (def_id.into(), tables);
    let (statement, args) = if let Some(bare) = insert_bare::<DB>(now, definition, notice) {
        bare
    } else {
        (&AddStatements::of(DB::KIND).insert, values(now, definition, notice))
    };
    for _ in 0..ROUNDS {
        match DB::execute(conn, statement, &args).await {
            Ok(done) => return Ok(Inserted::New { id: done.last_id, def_id }),
            Err(error) if notice.taken_key_text().is_some() && is_unique_violation(&error) => {}
            Err(error) if DB::is_not_open(&error) => return Err(other_tables(tables)),
            Err(error) => return Err(error),
        }
        // Only a locking read sees a notice that is newer than the snapshot. The insert that failed has locked it already.
        if let Some(id) = duplicate_of::<DB>(conn, def_id, notice, now, true).await? {
            return Ok(Inserted::Duplicate(id));
        }
    }
    Err(lost_again())
}

/// Maximum number of inserts of one notice with a dedupe key. A round is lost when the duplicate loses its key (it is claimed, or
/// ends) before it is read.
pub(crate) const ROUNDS: usize = 10;

/// Error on MySQL after a `USE` between two statements of one insert, or while statements were already prepared.
fn other_tables(tables: &str) -> sqlx::Error {
    let why = format!(
        "the id of the definition was read in the database {tables:?}, and the insert is prepared for another one: after `USE` close the \
         connection, and use one pool for each database"
    );
    sqlx::Error::Configuration(why.into())
}

pub(crate) fn lost_again() -> sqlx::Error {
    let why =
        format!("gave up after {ROUNDS} inserts: each met another notice with the same dedupe key that then lost it");
    sqlx::Error::Configuration(why.into())
}

/// The arguments of an insert. `definition` is its name, or its id and the tables in which the id was read.
fn values<'a>(now: Arg<'a>, (definition, tables): (Arg<'a>, &'a str), notice: &'a NewNotice) -> Vec<Arg<'a>> {
    let (at, delay) = notice.send_millis();
    vec![
        now,
        definition,
        notice.param_json().into(),
        Arg::Text(notice.description_text()),
        Arg::Text(notice.trace_context_text()),
        Arg::Text(notice.ordering_key_text()),
        Arg::Text(notice.taken_key_text()),
        Arg::Int((notice.is_unique_until_ended() && notice.skip_reason().is_none()).then_some(1)),
        Arg::Text(notice.tag_text()),
        Arg::Int(notice.own_limits().max_tries),
        Arg::Int(notice.expires_millis()),
        Arg::Int(at),
        delay.into(),
        Arg::Int(notice.encrypted_for()),
        tables.into(),
    ]
}
