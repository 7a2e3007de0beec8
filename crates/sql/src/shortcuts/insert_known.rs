//! Inserts of notices that have only a parameter, by the id of a definition that this process has read lately.

use std::sync::Arc;

use solid_notify_core::add::NewNotice;
use solid_notify_core::error::Result;

use crate::add::caller::{Caller, DOING, Inserted};
use crate::add::known_ids::Found;
use crate::dialect::fault::failed;
use crate::dialect::row::required;
use crate::dialect::statement::Arg;
use crate::dialect::{Changed, Dialect};
use crate::shortcuts::insert_bare::{BareInsertStatements, is_bare};
use crate::tx::{Context, NoticeTx};

/// Inserts a notice that has only a parameter, if its definition's id is cached. `None`: nothing was inserted.
///
/// The plain path is [`crate::add::one::insert`], which looks the definition up. That costs a round trip on MySQL and MariaDB, and a
/// seventh of the insert on PostgreSQL (decision 0005; in bench/README.md 18.2 instead of 15.8 µs).
///
/// The statement also detects whether it is in an open transaction, and inserts nothing where it cannot detect one. So a COMMIT that
/// follows at once needs no check of its own (decision 0003).
pub(crate) async fn insert_known<DB: Dialect>(
    tx: &mut NoticeTx<'_, DB>,
    notice: &NewNotice,
) -> Result<Option<Inserted>> {
    let seen_open = tx.seen_open;
    let (conn, context) = tx.parts(DOING)?;
    let caller = Caller::Ours(context);
    if !is_bare(notice, Arg::Int(caller.now_millis())) {
        return Ok(None);
    }
    let Some((found, tables)) = context.known_id(notice.name()) else { return Ok(None) };
    notice.check()?;
    caller.check::<DB>(conn)?;
    let (encrypted, def_id) = (found.encrypted(notice, caller)?, found.id);
    let notice = encrypted.as_ref().unwrap_or(notice);
    let statement = &BareInsertStatements::of(DB::KIND).insert_known;
    let args = [def_id.into(), notice.param_json().into(), Arg::Bool(seen_open), Arg::Text(Some(&*tables))];
    let inserted = if DB::KIND.insert_returns_its_id() {
        let rows = DB::fetch(conn, statement, &args).await;
        rows.and_then(|rows| rows.first().map(|row| required::<DB>(row, 0)).transpose())
    } else {
        DB::execute(conn, statement, &args).await.map(|Changed { last_id, .. }| Some(last_id))
    };
    match inserted {
        Ok(Some(id)) => {
            tx.seen_open();
            Ok(Some(Inserted::New { id, def_id }))
        }
        Ok(None) => Ok(None),
        Err(error) if DB::is_not_open(&error) => Ok(None),
        Err(error) => Err(failed::<DB>(DOING, error)),
    }
}

impl Context {
    fn known_id(&self, name: &str) -> Option<(Found, Arc<str>)> {
        let (id, stale) = self.known.id_of(name);
        if stale {
            let outbox = self.outbox.clone();
            // The store's read fills the cache. If it fails, inserts read the ids themselves.
            tokio::spawn(async move { drop(outbox.engine().stores().definitions.definitions().await) });
        }
        id
    }
}
