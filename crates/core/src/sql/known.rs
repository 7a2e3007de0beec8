//! [`Known`]: the ids of the definitions as they were read a moment ago, so that an insert need not look its own up.
//!
//! What is added to a definition within [`OLDEST`] of its deletion or renaming is as if it had been added just before: it is
//! sent on to its end. Only what is committed is ever known, since the definitions are read on connections of our own, never
//! in a transaction of the caller.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::add::{Caller, DOING, Inserted, is_plain};
use super::dialect::{Changed, Dialect};
use super::read::required;
use super::run::Arg;
use super::tx::{Context, NoticeTx, failed};
use crate::add::NewNotice;
use crate::definition::NotifyDef;
use crate::error::Result;

/// What was read longer ago is not known any more. An edit is in force within five seconds.
const OLDEST: Duration = Duration::from_secs(3);
/// What was read longer ago is read again, beside, by whoever adds so often that it pays.
const RENEWED: Duration = Duration::from_secs(1);

/// What this process knows of the definitions.
#[derive(Default)]
pub(super) struct Known {
    /// Definitions are read beside the application's connections. Where there is no beside (SQLite in memory), a caller that
    /// holds the only connection would be waited for.
    beside: bool,
    state: Mutex<State>,
    /// Whether the server's inserts find out that a transaction is gone.
    pub(super) sees_open: OnceLock<bool>,
}

#[derive(Default)]
struct State {
    /// By name; those that take new notices.
    ids: HashMap<String, i64>,
    read: Option<Instant>,
    /// What was read before this process changed a definition is not taken.
    changed: Option<Instant>,
    asked: Option<Instant>,
    used: Option<Instant>,
}

impl Known {
    pub(super) fn new(beside: bool) -> Self {
        Self { beside, ..Self::default() }
    }

    /// Remembers what was read, beginning at `began`.
    pub(super) fn remember(&self, began: Instant, definitions: &[NotifyDef]) {
        let mut state = self.state();
        if state.read.max(state.changed).is_none_or(|newer| newer < began) {
            state.read = Some(began);
            let alive = definitions.iter().filter(|def| def.delete_time.is_none());
            state.ids = alive.map(|def| (def.name.clone(), def.id)).collect();
        }
    }

    /// This process changes a definition: what was read before is no longer true.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.changed = Some(Instant::now());
        state.ids.clear();
    }

    /// The id of a definition, if it is known; and whether it is time to read them again.
    fn id_of(&self, name: &str) -> (Option<i64>, bool) {
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
        let id = state.ids.get(name).filter(|_| within(state.read, OLDEST)).copied();
        (id, stale)
    }

    pub(super) fn sees_open(&self) -> bool {
        self.sees_open.get().is_some_and(|sees| *sees)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    fn known_id(&self, name: &str) -> Option<i64> {
        let (id, stale) = self.known.id_of(name);
        if stale {
            let outbox = self.outbox.clone();
            // The store remembers what it reads. Where it cannot, the inserts look for themselves.
            tokio::spawn(async move { drop(outbox.store().definitions().await) });
        }
        id
    }
}

impl<DB: Dialect> NoticeTx<'_, DB> {
    /// Inserts a notice of which nothing is said but its parameter, if its definition is known; none: another way is needed.
    ///
    /// The statement also finds out whether it is in an open transaction, and inserts nothing where it cannot tell.
    pub(super) async fn insert_known(&mut self, notice: &NewNotice) -> Result<Option<Inserted>> {
        let seen_open = self.seen_open;
        let (conn, context) = self.parts(DOING)?;
        let caller = Caller::Ours(context);
        if !is_plain(notice, Arg::Int(caller.now_millis())) {
            return Ok(None);
        }
        let Some(def_id) = context.known_id(notice.name()) else { return Ok(None) };
        notice.check(caller.param_limit())?;
        caller.check::<DB>(conn)?;
        let statement = &DB::statements().insert_known;
        let args = [def_id.into(), notice.param_json().into(), Arg::Bool(seen_open)];
        let inserted = if DB::KIND.insert_returns_its_id() {
            let rows = DB::fetch(conn, statement, &args).await;
            rows.and_then(|rows| rows.first().map(|row| required::<DB>(row, 0)).transpose())
        } else {
            DB::execute(conn, statement, &args).await.map(|Changed { last_id, .. }| Some(last_id))
        };
        match inserted {
            Ok(Some(id)) => {
                self.seen_open();
                Ok(Some(Inserted::New { id, def_id }))
            }
            Ok(None) => Ok(None),
            Err(error) if DB::is_not_open(&error) => Ok(None),
            Err(error) => Err(failed::<DB>(DOING, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definitions() -> Vec<NotifyDef> {
        let mut gone = NotifyDef::new("gone");
        gone.delete_time = Some(std::time::SystemTime::UNIX_EPOCH);
        let mut here = NotifyDef::new("here");
        here.id = 7;
        vec![gone, here]
    }

    fn read(known: &Known) {
        known.remember(Instant::now(), &definitions());
    }

    async fn pass(seconds: f64) {
        tokio::time::advance(Duration::from_secs_f64(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_is_known_for_a_while() {
        let known = Known::new(true);
        assert_eq!(known.id_of("here").0, None);
        read(&known);
        for (name, id) in [("here", Some(7)), ("gone", None), ("other", None)] {
            assert_eq!(known.id_of(name).0, id, "{name}");
        }
        pass(2.9).await;
        assert_eq!(known.id_of("here").0, Some(7));
        pass(0.2).await;
        assert_eq!(known.id_of("here").0, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_before_an_edit_of_this_process_is_not_known() {
        let known = Known::new(true);
        read(&known);
        let before = Instant::now();
        pass(0.1).await;
        known.forget();
        assert_eq!(known.id_of("here").0, None);
        known.remember(before, &definitions());
        assert_eq!(known.id_of("here").0, None);
        pass(0.1).await;
        read(&known);
        assert_eq!(known.id_of("here").0, Some(7));
        // Two that read at once end in any order.
        known.remember(before, &[]);
        assert_eq!(known.id_of("here").0, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_renewed_once_a_second_where_notices_are_added_often() {
        let known = Known::new(true);
        read(&known);
        // Seldom.
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
