//! Whether this node sends and can store acks, and the rule for the time after an outage.
//!
//! During an outage no node can extend a lease. When it ends, all leases have expired at once, although their workers live
//! and are about to settle. So each sweeper first writes its own outcomes, and for a while takes no expired lease of other
//! nodes. The same applies to a sweeper that has just started, because an outage may have just ended, and after the store's
//! clock was set.
//!
//! What the database refuses for good (a missing right or table) is no outage: it is logged once and tried again less often
//! ([`Refusals`]). A loop that hangs cannot say so itself; [`Health::not_sending`] sees it from the time of its last sign of life. A server
//! that accepts no writes is an outage: each beat writes, and so does the recovery.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::metrics::DATABASE_UP;
use solid_notify_core::store::{BEAT, Settle};
use tokio::time::Instant;

use crate::refusals::{Part, Refusals, settled_parts};

/// How long one step of a loop may take: a little more than one call of the store.
pub(crate) const ROUND: Duration = Duration::from_secs(10);

pub(crate) struct Health {
    grace: Duration,
    state: Mutex<State>,
    seen: Mutex<Seen>,
    acks: Mutex<Acks>,
    /// Since when no round of the sweep has succeeded though the database answers, and why the last one did not.
    failing: Mutex<Option<(Instant, String)>>,
    pub(crate) refusals: Refusals,
}

/// What a probe shows, on the process's clock.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// When the database last began or ceased to answer.
    pub(crate) changed: Instant,
    /// The last call that the database did not answer.
    unanswered: Instant,
    /// The last sweep that succeeded.
    pub(crate) last_sweep: Option<Instant>,
    /// The last heartbeat that was stored.
    pub(crate) last_heartbeat: Option<Instant>,
    /// This node's clock minus the store's, as last measured, in milliseconds.
    pub(crate) clock_offset_ms: i64,
    /// The last sign of life of the loop that beats.
    pub(crate) beating: Instant,
    /// When a step of the sweep last began or ended.
    sweeping: Instant,
    /// Since when the settle loop has been writing a batch.
    writing: Option<Instant>,
    /// Since when the lease loop has been extending leases.
    extending: Option<Instant>,
}

/// What the last checks of acks have shown.
struct Acks {
    /// How many in a row have failed.
    failed: u32,
    /// Why they cannot be stored.
    problem: Option<String>,
}

#[derive(Clone, Copy)]
enum State {
    Down,
    /// The database answers. It was down until this moment, or may have been.
    UpSince(Duration),
}

impl Health {
    /// `grace` is how long to leave expired leases alone; `now` is a moment of the worker's clock.
    pub(crate) fn new(grace: Duration, now: Duration) -> Self {
        metrics::gauge!(DATABASE_UP).set(1.0);
        let now_here = Instant::now();
        let seen = Seen {
            changed: now_here,
            unanswered: now_here,
            last_sweep: None,
            last_heartbeat: None,
            clock_offset_ms: 0,
            beating: now_here,
            sweeping: now_here,
            writing: None,
            extending: None,
        };
        Self {
            grace,
            state: Mutex::new(State::UpSince(now)),
            seen: Mutex::new(seen),
            acks: Mutex::new(Acks { failed: 0, problem: Some("it starts".to_owned()) }),
            failing: Mutex::default(),
            refusals: Refusals::default(),
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        *self.seen.lock()
    }

    /// Records that a step of the sweep begins.
    pub(crate) fn sweeps(&self) {
        self.seen.lock().sweeping = Instant::now();
    }

    /// Records that a round of the sweep succeeded.
    pub(crate) fn swept(&self, now: Duration) {
        let mut seen = self.seen.lock();
        seen.sweeping = Instant::now();
        seen.last_sweep = Some(seen.sweeping);
        drop(seen);
        self.works(Part::Sweep, now);
    }

    /// Records whether a round of the sweep could claim: nothing of it failed, or not all. A lock of a whole table lets each round fail.
    pub(crate) fn claimed(&self, problem: Option<&StoreError>) {
        let mut failing = self.failing.lock();
        let since = failing.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        *failing = problem.map(|error| (since, error.to_string()));
    }

    /// Records that a part of the work works. Where what all nodes need was refused, leases of all nodes may have expired, as after an outage.
    pub(crate) fn works(&self, part: Part, now: Duration) {
        if self.refusals.works(part) && matches!(part, Part::Sweep | Part::Leases) {
            self.begin_grace(now);
        }
    }

    /// Records that a batch of outcomes is being written.
    pub(crate) fn writes(&self) {
        self.seen.lock().writing = Some(Instant::now());
    }

    /// Records that the batch was written, or why not.
    pub(crate) fn wrote(&self, settles: &[Settle], error: Option<&StoreError>) {
        self.seen.lock().writing = None;
        match error {
            Some(error) if error.kind == FaultKind::Unusable => self.refusals.refused(settled_parts(settles), error),
            Some(_) => {}
            None => self.refusals.wrote(settles),
        }
    }

    /// Records which definitions have something that the store cannot move to where it is sent.
    pub(crate) fn forwards(&self, refused: &BTreeMap<i64, String>) {
        for (def_id, why) in refused {
            let error = StoreError::new("forwarding", FaultKind::Unusable, why.as_str());
            self.refusals.refused([Part::Forwards(*def_id)], &error);
        }
        self.refusals.forwarded_others(refused);
    }

    /// Records that a step of the lease loop begins.
    pub(crate) fn extends(&self) {
        self.seen.lock().extending = Some(Instant::now());
    }

    /// Records that the lease loop sleeps.
    pub(crate) fn extended(&self) {
        self.seen.lock().extending = None;
    }

    /// Records that the loop that beats goes on.
    pub(crate) fn beats(&self) {
        self.seen.lock().beating = Instant::now();
    }

    /// Records that a beat is stored.
    pub(crate) fn beaten(&self, clock_offset_ms: i64, now: Duration) {
        let mut seen = self.seen.lock();
        (seen.last_heartbeat, seen.clock_offset_ms) = (Some(Instant::now()), clock_offset_ms);
        drop(seen);
        self.works(Part::Beats, now);
    }

    /// Records whether acks can be stored. An outage of acks alone, as that of one master of a cluster, lasts until the next check: all else
    /// may work, and say so. What keeps them from it once may be a short lock; twice in a row, it is one of the whole table.
    pub(crate) fn checked_acks(&self, result: Result<(), StoreError>) {
        let mut acks = self.acks.lock();
        let Err(error) = result else {
            *acks = Acks { failed: 0, problem: None };
            drop(acks);
            self.refusals.works(Part::Acks);
            return;
        };
        acks.failed += 1;
        if error.kind == FaultKind::Outage || acks.failed >= 2 {
            acks.problem = Some(format!("the database does not store acks: {error}"));
        }
        drop(acks);
        self.failed(Part::Acks, &error);
    }

    /// Returns whether acks should be checked with the next beat: the last check of them failed, another call is refused or meets a lock, which they
    /// may meet, too, or outcomes, which go where acks go, take long.
    pub(crate) fn doubts_acks(&self) -> bool {
        let takes_long = |since: Instant| since.elapsed() >= BEAT / 2;
        self.acks.lock().failed > 0
            || self.failing.lock().is_some()
            || self.no_acks().is_some()
            || self.refusals.problem(|_| true).is_some()
            || self.seen().writing.is_some_and(takes_long)
    }

    /// Returns why the database is down; `None`: it is up. A server that answers again may refuse what ends the outage, for instance the
    /// account.
    fn down(&self) -> Option<String> {
        let silent = || "the database does not answer".to_owned();
        self.is_down().then(|| self.refusals.after(self.seen().unanswered).unwrap_or_else(silent))
    }

    /// Returns why acks cannot be stored now; `None`: they can.
    pub(crate) fn no_acks(&self) -> Option<String> {
        if let Some(why) = self.down() {
            return Some(why);
        }
        self.refusals.problem(|part| part == Part::Acks).or_else(|| self.acks.lock().problem.clone())
    }

    /// Returns why this node sends nothing, or not all; `None`: it sends. `pause` is the longest sleep of the sweep.
    pub(crate) fn not_sending(&self, pause: Duration) -> Option<String> {
        if let Some(why) = self.down() {
            return Some(why);
        }
        // What acks need outcomes need, too.
        if let Some(refused) = self.refusals.problem(|_| true) {
            return Some(refused);
        }
        let seen = self.seen();
        let hangs = |since: Instant, allowed: Duration| since.elapsed() > allowed + ROUND + 2 * BEAT;
        let seconds = |since: Instant| since.elapsed().as_secs();
        if hangs(seen.sweeping, pause) {
            return Some(format!("the sweep hangs: it has shown no sign of life for {} s", seconds(seen.sweeping)));
        }
        if let Some((since, why)) = self.failing.lock().as_ref().filter(|(since, _)| hangs(*since, Duration::ZERO)) {
            return Some(format!("nothing could be claimed for {} s: {why}", seconds(*since)));
        }
        if let Some(since) = seen.writing.filter(|since| hangs(*since, Duration::ZERO)) {
            return Some(format!("outcomes are not stored: the present call has taken {} s", seconds(since)));
        }
        if let Some(since) = seen.extending.filter(|since| hangs(*since, Duration::ZERO)) {
            return Some(format!("leases are not extended: the present call has taken {} s", seconds(since)));
        }
        None
    }

    /// Records an error of a part of the work. A refusal counts until the part works.
    pub(crate) fn failed(&self, part: Part, error: &StoreError) {
        match error.kind {
            FaultKind::Unusable => self.refusals.refused([part], error),
            _ => self.note_some(error),
        }
    }

    /// Records an error of a call for some notices or one definition. Only a lost connection concerns all notices.
    pub(crate) fn note_some(&self, error: &StoreError) {
        match error.kind {
            FaultKind::Outage => self.note(error),
            _ => self.mention(error),
        }
    }

    /// Records an error of a call that concerns all notices. An outage is logged as an error once, then at debug level.
    pub(crate) fn note(&self, error: &StoreError) {
        if error.kind == FaultKind::Unusable {
            return self.refusals.refused([Part::Sweep], error);
        }
        let mut state = self.state.lock();
        if error.kind == FaultKind::Outage {
            self.seen.lock().unanswered = Instant::now();
            if matches!(*state, State::Down) {
                tracing::debug!(%error, "the database still does not answer");
            } else {
                tracing::error!(%error, "the database does not answer; nothing is lost, sending goes on when it does");
                metrics::gauge!(DATABASE_UP).set(0.0);
                self.seen.lock().changed = Instant::now();
            }
            *state = State::Down;
        } else {
            tracing::warn!(%error, "a database call failed; trying again");
        }
    }

    /// Logs the error of a call that says nothing about other calls, for instance a slow purge.
    pub(crate) fn mention(&self, error: &StoreError) {
        match error.kind {
            FaultKind::Unusable => self.refusals.log(error),
            _ => tracing::warn!(%error, "a database call failed; trying again later"),
        }
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(*self.state.lock(), State::Down)
    }

    /// Records that the database answers again and the leases of this node are extended.
    pub(crate) fn recovered(&self, now: Duration) {
        let mut state = self.state.lock();
        if matches!(*state, State::Down) {
            tracing::info!("the database answers again");
            metrics::gauge!(DATABASE_UP).set(1.0);
            *state = State::UpSince(now);
            self.seen.lock().changed = Instant::now();
        }
    }

    /// Records that the store's clock was set, so leases may have expired although their workers live, as after an outage.
    pub(crate) fn begin_grace(&self, now: Duration) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Down) {
            *state = State::UpSince(now);
        }
    }

    /// Returns how long to leave expired leases alone; `None` when the grace period is over.
    pub(crate) fn grace_left(&self, now: Duration) -> Option<Duration> {
        match *self.state.lock() {
            State::Down => Some(self.grace),
            State::UpSince(at) => at.saturating_add(self.grace).checked_sub(now).filter(|left| !left.is_zero()),
        }
    }
}

#[cfg(test)]
mod ack_tests;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutboxExt;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    #[test]
    fn gauge_shows_whether_the_database_answers() {
        let recorder = DebuggingRecorder::new();
        let shown = recorder.snapshotter();
        let up = || {
            let metrics = shown.snapshot().into_vec();
            metrics.into_iter().find(|(key, ..)| key.key().name() == DATABASE_UP).map(|(.., value)| value)
        };
        metrics::with_local_recorder(&recorder, || {
            let health = Health::new(Duration::ZERO, Duration::ZERO);
            assert_eq!(up(), Some(DebugValue::Gauge(1.0.into())));
            health.note(&StoreError::new("looking", FaultKind::Outage, "refused"));
            assert_eq!(up(), Some(DebugValue::Gauge(0.0.into())));
            health.recovered(Duration::ZERO);
            assert_eq!(up(), Some(DebugValue::Gauge(1.0.into())));
        });
    }

    #[tokio::test(start_paused = true)]
    async fn definition_whose_notices_are_forwarded_again_is_not_refused() {
        let health = Health::new(Duration::ZERO, Duration::ZERO);
        health.forwards(&BTreeMap::from([(7, "WRONGTYPE".to_owned())]));
        assert!(health.not_sending(Duration::ZERO).is_some_and(|why| why.contains("WRONGTYPE")));
        health.forwards(&BTreeMap::new());
        assert_eq!(health.not_sending(Duration::ZERO), None);
    }

    #[tokio::test(start_paused = true)]
    async fn refusal_that_keeps_an_outage_from_ending_is_named() {
        let health = Health::new(Duration::ZERO, Duration::ZERO);
        let error = |kind, text: &'static str| StoreError::new("reading", kind, text);
        health.failed(Part::Claims(7), &error(FaultKind::Unusable, "permission denied"));
        for (at, kind, expected) in [
            (1, FaultKind::Outage, "the database does not answer"),
            (2, FaultKind::Unusable, "the database refuses a call: reading: a password is required"),
            (3, FaultKind::Outage, "the database does not answer"),
        ] {
            tokio::time::advance(Duration::from_secs(1)).await;
            health.note(&error(kind, "a password is required"));
            assert_eq!(health.no_acks().as_deref(), Some(expected), "{at}");
            assert_eq!(health.not_sending(Duration::ZERO).as_deref(), Some(expected), "{at}");
        }
    }

    #[tokio::test]
    async fn worker_just_started_has_the_grace_of_an_outage() {
        let clock = solid_notify_testkit::HandClock::new(chrono::DateTime::UNIX_EPOCH + Duration::from_secs(3600));
        let worker = crate::worker::Worker::new(
            solid_notify_testkit::MemoryOutbox::builder().clock(clock.clone()).build().sweeper().setup,
        );
        assert_eq!(worker.health.grace_left(worker.moment()), Some(Duration::from_secs(10)));
        clock.advance(Duration::from_secs(10));
        assert_eq!(worker.health.grace_left(worker.moment()), None);
    }
}
