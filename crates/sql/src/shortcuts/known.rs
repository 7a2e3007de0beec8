//! Inserts by the id of a definition that this process has read lately ([`Known`]).
//!
//! A notice inserted within [`OLDEST`] after its definition was deleted or renamed counts as inserted just before: it is sent
//! to its end. Only committed definitions are cached, because the store reads them on its own connections and never in a
//! transaction of the caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use solid_notify_core::add::NewNotice;
use solid_notify_core::definition::NotifyDef;
use solid_notify_core::error::Result;
use tokio::time::Instant;

use crate::add::{Caller, DOING, Inserted};
use crate::dialect::kind::Kind::{self, MySql, Postgres, Sqlite};
use crate::dialect::row::required;
use crate::dialect::statement::{Arg, Statement};
use crate::dialect::{Changed, Dialect};
use crate::shortcuts::plain::is_plain;
use crate::statements::statements;
use crate::tx::{Context, NoticeTx, failed};

statements! {
    KnownStatements:
    insert_known,
    own_server,
}

impl KnownStatements {
    pub(crate) fn new(kind: Kind) -> Self {
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
        // 1 where that insert succeeds only in an open transaction, so that a COMMIT after it commits or fails.
        let sees_open = match kind {
            Postgres => "1",
            MySql => "CAST(/*M! 1 + */ 0 AS signed)",
            Sqlite => "0",
        };
        Self {
            insert_known: Statement::new(kind, &insert_known),
            own_server: Statement::new(kind, &format!("SELECT {sees_open}, {tables}")),
        }
    }
}

/// Ids that were read longer ago are not used. An edit is in force within five seconds.
const OLDEST: Duration = Duration::from_secs(3);
/// Ids that were read longer ago are read again in the background, if this process inserts often enough.
const RENEWED: Duration = Duration::from_secs(1);

/// The definition ids that this process has cached.
#[derive(Default)]
pub(crate) struct Known {
    /// True where definitions are read beside the application's connections. Otherwise (SQLite in memory) the read would wait for
    /// a caller that holds the only connection.
    beside: bool,
    state: Mutex<State>,
    /// Whether the server's inserts detect that the transaction is gone.
    sees_open: OnceLock<bool>,
}

#[derive(Default)]
struct State {
    /// The tables in which the ids were read, as [`crate::dialect::kind::Kind::tables_at_hand`] returns them.
    tables: Arc<str>,
    /// By name; only definitions that accept new notices.
    ids: HashMap<String, i64>,
    read: Option<Instant>,
    /// When this process last changed a definition. A read that began earlier is not stored.
    changed: Option<Instant>,
    asked: Option<Instant>,
    used: Option<Instant>,
}

impl Known {
    pub(crate) fn new(beside: bool) -> Self {
        Self { beside, ..Self::default() }
    }

    /// Reads on a connection of the store what an insert by a known id depends on: the tables that the ids belong to, which it
    /// returns, and whether such an insert detects that the transaction is gone.
    pub(crate) async fn look<DB: Dialect>(&self, conn: &mut DB::Connection) -> sqlx::Result<String> {
        let server = DB::fetch(conn, &DB::statements().shortcuts.known.own_server, &[]).await?;
        let Some(row) = server.first() else { return Ok(String::new()) };
        let sees = required::<DB>(row, 0)? == 1;
        self.sees_open.get_or_init(|| sees);
        Ok(DB::text(row, 1)?.unwrap_or_default())
    }

    /// Stores the result of a read that began at `began`.
    pub(crate) fn remember(&self, began: Instant, definitions: &[NotifyDef], tables: String) {
        let mut state = self.state();
        if state.read.max(state.changed).is_none_or(|newer| newer < began) {
            state.read = Some(began);
            if *state.tables != *tables {
                state.tables = tables.into();
            }
            let alive = definitions.iter().filter(|def| def.delete_time.is_none());
            state.ids = alive.map(|def| (def.name.clone(), def.id)).collect();
        }
    }

    /// Clears the cache, because this process changes a definition.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.changed = Some(Instant::now());
        state.ids.clear();
    }

    /// Returns the tables in which this process last read the ids.
    pub(crate) fn tables(&self) -> Arc<str> {
        Arc::clone(&self.state().tables)
    }

    /// Returns the cached id of a definition with its tables, and whether it is time to read the definitions again.
    fn id_of(&self, name: &str) -> (Option<(i64, Arc<str>)>, bool) {
        let now = Instant::now();
        if !self.beside {
            return (None, false);
        }
        let within = |moment: Option<Instant>, limit| moment.is_some_and(|moment| now - moment <= limit);
        let mut state = self.state();
        let often = within(state.used.replace(now), RENEWED);
        let stale = often && !within(state.read, RENEWED) && !within(state.asked, RENEWED);
        if stale {
            state.asked = Some(now);
        }
        let id = state.ids.get(name).filter(|_| within(state.read, OLDEST));
        (id.map(|id| (*id, Arc::clone(&state.tables))), stale)
    }

    pub(crate) fn sees_open(&self) -> bool {
        self.sees_open.get().is_some_and(|sees| *sees)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    fn known_id(&self, name: &str) -> Option<(i64, Arc<str>)> {
        let (id, stale) = self.known.id_of(name);
        if stale {
            let outbox = self.outbox.clone();
            // The store's read fills the cache. If it fails, inserts read the ids themselves.
            tokio::spawn(async move { drop(outbox.engine().stores().definitions.definitions().await) });
        }
        id
    }
}

/// Inserts a notice that has only a parameter, if its definition's id is cached. `None`: nothing was inserted.
///
/// The plain path is [`crate::add::insert`], which looks the definition up. That costs a round trip on MySQL and MariaDB, and a
/// seventh of the insert on PostgreSQL (decision 0005; in decision 0070 18.2 instead of 15.8 µs).
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
    if !is_plain(notice, Arg::Int(caller.now_millis())) {
        return Ok(None);
    }
    let Some((def_id, tables)) = context.known_id(notice.name()) else { return Ok(None) };
    notice.check()?;
    caller.check::<DB>(conn)?;
    let statement = &DB::statements().shortcuts.known.insert_known;
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

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn definitions() -> Vec<NotifyDef> {
        let mut gone = NotifyDef::new("gone");
        gone.delete_time = Some(DateTime::UNIX_EPOCH);
        let mut here = NotifyDef::new("here");
        here.id = 7;
        vec![gone, here]
    }

    fn read(known: &Known) {
        known.remember(Instant::now(), &definitions(), "here".to_owned());
    }

    fn id_of(known: &Known, name: &str) -> Option<i64> {
        known.id_of(name).0.map(|(id, tables)| {
            assert_eq!(&*tables, "here");
            id
        })
    }

    async fn pass(seconds: f64) {
        tokio::time::advance(Duration::from_secs_f64(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_is_known_for_a_while_after_it_was_read() {
        let known = Known::new(true);
        assert_eq!(id_of(&known, "here"), None);
        read(&known);
        for (name, id) in [("here", Some(7)), ("gone", None), ("other", None)] {
            assert_eq!(id_of(&known, name), id, "{name}");
        }
        pass(2.9).await;
        assert_eq!(id_of(&known, "here"), Some(7));
        pass(0.2).await;
        assert_eq!(id_of(&known, "here"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_that_was_read_before_an_own_edit_is_not_known() {
        let known = Known::new(true);
        read(&known);
        let before = Instant::now();
        pass(0.1).await;
        known.forget();
        assert_eq!(id_of(&known, "here"), None);
        known.remember(before, &definitions(), "here".to_owned());
        assert_eq!(id_of(&known, "here"), None);
        pass(0.1).await;
        read(&known);
        assert_eq!(id_of(&known, "here"), Some(7));
        // Two concurrent reads may end in any order.
        known.remember(before, &[], "elsewhere".to_owned());
        assert_eq!(id_of(&known, "here"), Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_renewed_once_a_second_where_notices_are_added_often() {
        let known = Known::new(true);
        read(&known);
        // Rare inserts.
        for _ in 0..3 {
            pass(1.5).await;
            assert!(!known.id_of("here").1);
        }
        let mut renewals = 0;
        for _ in 0..50 {
            pass(0.1).await;
            renewals += usize::from(known.id_of("here").1);
        }
        assert_eq!(renewals, 5);
    }
}
