//! [`KnownIds`]: the ids of definitions that this process has read lately, and the tables in which it read them.
//!
//! A notice inserted within [`OLDEST`] after its definition was deleted or renamed counts as inserted just before: it is sent
//! to its end. Only committed definitions are cached, because the store reads them on its own connections and never in a
//! transaction of the caller.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::definition::NotifyDef;
use tokio::time::Instant;

use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, required};
use crate::dialect::statement::{Statement, statements};

columns! {
    /// What an insert by a known id depends on.
    Server(sees_open: &str, tables: &str):
    sees_open = sees_open;
    tables = tables;
}

statements! {
    KnownIdStatements:
    own_server,
}

impl KnownIdStatements {
    fn new(kind: Kind) -> Self {
        let (sees_open, tables) = (kind.insert_sees_open(), kind.tables_at_hand());
        Self { own_server: Statement::new(kind, &format!("SELECT {}", Server::list(sees_open, tables))) }
    }
}

/// Ids that were read longer ago are not used. An edit is in force within five seconds.
const OLDEST: Duration = Duration::from_secs(3);
/// Ids that were read longer ago are read again in the background, if this process inserts often enough.
const RENEWED: Duration = Duration::from_secs(1);

/// A definition as an insert needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) id: i64,
    /// Whether its parameters are stored encrypted.
    pub(crate) encrypts: bool,
}

/// The definition ids that this process has cached.
#[derive(Default)]
pub(crate) struct KnownIds {
    /// True where the store reads definitions on connections of its own. Otherwise (SQLite in memory) the read would wait for a
    /// caller that holds the only connection.
    own_connections: bool,
    state: Mutex<State>,
    /// Whether the server's inserts detect that the transaction is gone.
    sees_open: OnceLock<bool>,
}

#[derive(Default)]
struct State {
    /// The tables in which the ids were read, as [`crate::dialect::kind::Kind::tables_at_hand`] returns them.
    tables: Arc<str>,
    /// By name; only definitions that accept new notices.
    ids: HashMap<String, Found>,
    read: Option<Instant>,
    /// When this process last changed a definition. A read that began earlier is not stored.
    changed: Option<Instant>,
    asked: Option<Instant>,
    used: Option<Instant>,
}

impl KnownIds {
    pub(crate) fn new(own_connections: bool) -> Self {
        Self { own_connections, ..Self::default() }
    }

    /// Reads on a connection of the store what an insert by a known id depends on: the tables that the ids belong to, which it
    /// returns, and whether such an insert detects that the transaction is gone.
    pub(crate) async fn look<DB: Dialect>(&self, conn: &mut DB::Connection) -> sqlx::Result<String> {
        let server = DB::fetch(conn, &KnownIdStatements::of(DB::KIND).own_server, &[]).await?;
        let Some(row) = server.first() else { return Ok(String::new()) };
        let sees = required::<DB>(row, Server::AT.sees_open)? == 1;
        self.sees_open.get_or_init(|| sees);
        Ok(DB::text(row, Server::AT.tables)?.unwrap_or_default())
    }

    /// Stores the result of a read that began at `began`.
    pub(crate) fn remember(&self, began: Instant, definitions: &[NotifyDef], tables: String) {
        let mut state = self.state.lock();
        if state.read.max(state.changed).is_none_or(|newer| newer < began) {
            state.read = Some(began);
            if *state.tables != *tables {
                state.tables = tables.into();
            }
            let alive = definitions.iter().filter(|def| def.delete_time.is_none());
            let found = |def: &NotifyDef| Found { id: def.id, encrypts: def.encrypt_param };
            state.ids = alive.map(|def| (def.name.clone(), found(def))).collect();
        }
    }

    /// Clears the cache, because this process changes a definition.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        state.changed = Some(Instant::now());
        state.ids.clear();
    }

    /// Returns the tables in which this process last read the ids.
    pub(crate) fn tables(&self) -> Arc<str> {
        Arc::clone(&self.state.lock().tables)
    }

    /// Returns the cached id of a definition with its tables, and whether it is time to read the definitions again.
    pub(crate) fn id_of(&self, name: &str) -> (Option<(Found, Arc<str>)>, bool) {
        let now = Instant::now();
        if !self.own_connections {
            return (None, false);
        }
        let within = |moment: Option<Instant>, limit| moment.is_some_and(|moment| now - moment <= limit);
        let mut state = self.state.lock();
        let often = within(state.used.replace(now), RENEWED);
        let stale = often && !within(state.read, RENEWED) && !within(state.asked, RENEWED);
        if stale {
            state.asked = Some(now);
        }
        let id = state.ids.get(name).filter(|_| within(state.read, OLDEST));
        (id.map(|id| (*id, Arc::clone(&state.tables))), stale)
    }

    /// Returns the cached id of a definition whose parameters are stored encrypted.
    pub(crate) fn encrypting(&self, name: &str) -> Option<i64> {
        let state = self.state.lock();
        let is_fresh = state.read.is_some_and(|read| read.elapsed() <= OLDEST);
        state.ids.get(name).filter(|found| is_fresh && found.encrypts).map(|found| found.id)
    }

    pub(crate) fn sees_open(&self) -> bool {
        self.sees_open.get().is_some_and(|sees| *sees)
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

    fn read(known: &KnownIds) {
        known.remember(Instant::now(), &definitions(), "here".to_owned());
    }

    fn id_of(known: &KnownIds, name: &str) -> Option<i64> {
        known.id_of(name).0.map(|(found, tables)| {
            assert_eq!(&*tables, "here");
            found.id
        })
    }

    async fn pass(seconds: f64) {
        tokio::time::advance(Duration::from_secs_f64(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_is_known_for_a_while_after_it_was_read() {
        let known = KnownIds::new(true);
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
        let known = KnownIds::new(true);
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
    async fn known_id_is_renewed_once_a_second_where_notices_are_added_often() {
        let known = KnownIds::new(true);
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
