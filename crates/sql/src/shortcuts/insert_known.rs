//! Inserts of notices that have only a parameter, by the id of a definition that this process has read lately.

use std::sync::Arc;

use solid_notify_core::add::NewNotice;
use solid_notify_core::error::Result;

use crate::add::known_ids::Found;
use crate::caller::{Caller, Context, DOING, Inserted};
use crate::dialect::fault::failed;
use crate::dialect::kind::Kind::{self, MySql, Postgres, Sqlite};
use crate::dialect::row::one_number;
use crate::dialect::statement::{Arg, Statement, statements};
use crate::dialect::{Changed, Dialect};
use crate::shortcuts::insert_bare::is_bare;

statements! {
    KnownInsertStatements:
    insert_known,
}

impl KnownInsertStatements {
    fn new(kind: Kind) -> Self {
        let tables = kind.tables_at_hand();
        // `$1` is the definition's id, `$2` the parameter. The statement inserts where a transaction is open and the tables are
        // those in which the id was read (`$4`): an application may choose a tenant's schema by `SET LOCAL search_path` or `USE`.
        let insert_known = match kind {
            // `$3` or the transaction's id shows that it is open; the id exists once something was written.
            Postgres => format!(
                "INSERT INTO notify_msg (def_id, param)
                 SELECT $1, $2::json
                 WHERE ($3 OR pg_current_xact_id_if_assigned() IS NOT NULL) AND {tables} = $4
                 RETURNING id"
            ),
            // MariaDB reports an open transaction (without autocommit it may be another one, which began by itself). Where it sees
            // none, a null fails an insert that would commit by itself. MySQL ignores that comment; there the commit detects it.
            // `INSERT … SELECT … WHERE` would keep a lock on the ids.
            MySql => "INSERT INTO notify_msg (def_id, param)
                 VALUES (IF(database() = $4 /*M! AND @@in_transaction AND @@autocommit */, $1, NULL), $2)"
                .to_owned(),
            // A COMMIT without a transaction fails by itself.
            Sqlite => "INSERT INTO notify_msg (def_id, param) VALUES ($1, $2)".to_owned(),
        };
        Self { insert_known: Statement::new(kind, &insert_known) }
    }
}

/// Inserts a notice that has only a parameter, if its definition's id is cached. `None`: nothing was inserted.
///
/// The plain path is [`crate::add::one::insert`], which looks the definition up. That costs a round trip on MySQL and MariaDB, and a
/// seventh of the insert on PostgreSQL (decision 0005; in bench/README.md 18.2 instead of 15.8 µs).
///
/// The statement also detects whether it is in an open transaction, and inserts nothing where it cannot detect one. So a COMMIT that
/// follows at once needs no check of its own (decision 0003). `seen_open`: nothing has happened since an insert found it open.
pub(crate) async fn insert_known<DB: Dialect>(
    conn: &mut DB::Connection,
    context: &Context,
    seen_open: bool,
    notice: &NewNotice,
) -> Result<Option<Inserted>> {
    let caller = Caller::Ours(context);
    if !is_bare(notice, Arg::Int(caller.now_millis())) {
        return Ok(None);
    }
    let Some((found, tables)) = context.known_id(notice.name()) else { return Ok(None) };
    notice.check()?;
    caller.check::<DB>(conn)?;
    let (encrypted, def_id) = (found.encrypted(notice, caller)?, found.id);
    let notice = encrypted.as_ref().unwrap_or(notice);
    let statement = &KnownInsertStatements::of(DB::KIND).insert_known;
    let args = [def_id.into(), notice.param_json().into(), Arg::Bool(seen_open), Arg::Text(Some(&*tables))];
    let inserted = if DB::KIND.insert_returns_its_id() {
        let rows = DB::fetch(conn, statement, &args).await;
        rows.and_then(|rows| one_number::<DB>(&rows))
    } else {
        DB::execute(conn, statement, &args).await.map(|Changed { last_id, .. }| Some(last_id))
    };
    match inserted {
        Ok(Some(id)) => Ok(Some(Inserted::New { id, def_id })),
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
