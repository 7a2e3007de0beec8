//! Shorthands for tests with running sweepers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use solid_notify_conformance::Backend;
use solid_notify_core::definition::{SecretRule, SecretRules};
use solid_notify_core::outbox::Updated;
use solid_notify_core::store::{Authority, Edit, Edited};
use solid_notify_core::{ALERT_DEFINITION, Alert, AnyOutbox, NewNotice, NoticeRecord, NotifyDef, Refusal, Status};
use solid_notify_sweeper::{Failure, Notice};
use tokio::sync::Semaphore;

/// The deadline of a wait for work that other tasks do in real time. It only ends a test that hangs, so it says nothing about how long
/// the work takes.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The pauses between the looks of [`eventually`]. They grow to a sixteenth of the wait: looks each 2 ms cost as much as what they wait for.
const SHORTEST_LOOK: Duration = Duration::from_millis(2);
const LONGEST_LOOK: Duration = Duration::from_millis(250);

/// Waits until `condition` holds: for work that other tasks do in real time.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < PATIENCE, "{what}: it hangs, after {PATIENCE:?}");
        before_another_look(began).await;
    }
}

async fn before_another_look(began: Instant) {
    tokio::time::sleep((began.elapsed() / 16).clamp(SHORTEST_LOOK, LONGEST_LOOK)).await;
}

/// Lets rows use files in the folder for temporary files as secrets, and these variables.
pub fn allow_secrets(outbox: &AnyOutbox, variables: &[&str]) {
    let files = format!("file:{}/", std::env::temp_dir().display());
    let names = variables.iter().map(|name| format!("env:{name}"));
    let rules = names.chain([files]).map(|pattern| SecretRule::new(&pattern).unwrap());
    outbox.use_secret_rules(rules.fold(SecretRules::default(), SecretRules::allow));
}

/// The arguments of handler calls, in order.
pub struct Calls<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Calls<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Calls<T> {
    /// Records a call and returns how many there were before.
    pub fn note(&self, call: T) -> usize {
        let mut calls = self.0.lock().unwrap();
        calls.push(call);
        calls.len() - 1
    }

    /// All calls so far.
    pub fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }

    /// How many calls there were.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Builds a handler that records each call and waits for a permit.
pub fn gated(
    calls: &Calls<()>,
    gate: &Arc<Semaphore>,
) -> impl Fn(Notice<i64>) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync + 'static {
    let (calls, gate) = (calls.clone(), Arc::clone(gate));
    move |_| {
        calls.note(());
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            gate.acquire_owned().await?.forget();
            Ok(())
        })
    }
}

/// Adds a notice with the parameter 1 and commits it.
pub async fn add(b: &dyn Backend, name: &str) -> i64 {
    b.add_new(NewNotice::new(name, 1).unwrap()).await.id()
}

/// The notice, which must exist.
pub async fn record(b: &dyn Backend, id: i64) -> NoticeRecord {
    b.outbox().find(id).await.unwrap().expect("a notice of this id")
}

/// Waits until the notice has a status.
pub async fn reaches(b: &dyn Backend, id: i64, status: Status) -> NoticeRecord {
    let began = Instant::now();
    loop {
        let found = record(b, id).await;
        if found.status == status {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "not {status:?} after {PATIENCE:?} at {}: {found:?}", b.clock().now());
        before_another_look(began).await;
    }
}

/// The definition of this name.
pub async fn definition(b: &dyn Backend, name: &str) -> NotifyDef {
    let all = b.outbox().definitions().await.unwrap();
    all.into_iter().find(|state| state.row.name == name).expect("a definition of this name").row
}

/// What the nodes say of a definition that they may not or cannot send.
pub async fn refused_by(outbox: &AnyOutbox, name: &str) -> Vec<Refusal> {
    let all = outbox.definitions().await.unwrap();
    all.into_iter().find(|state| state.row.name == name).expect("a definition of this name").refused_by
}

/// Waits until a node says that it may not or cannot send a definition. Returns why.
pub async fn refusal_of(outbox: &AnyOutbox, name: &str) -> String {
    eventually(&format!("a node refuses {name}"), async || !refused_by(outbox, name).await.is_empty()).await;
    refused_by(outbox, name).await.remove(0).problem
}

/// Adds an alert, as the library does: with its authority. Returns the id of the notice.
pub async fn add_alert(outbox: &AnyOutbox, alert: &Alert) -> i64 {
    let stores = outbox.engine().stores();
    let rows = stores.definitions.definitions().await.unwrap();
    let row = rows.iter().find(|row| row.name == ALERT_DEFINITION).expect("the definition of alerts");
    let id = stores.operate.add(row.id, &alert.to_json(), &Authority::of_alert()).await.unwrap();
    outbox.wake();
    id
}

/// Changes a definition through the library.
pub async fn update(b: &dyn Backend, name: &str, change: impl FnOnce(NotifyDef) -> NotifyDef) {
    let seen = definition(b, name).await;
    let done = b.outbox().update(&seen, change(seen.clone())).await.unwrap();
    assert!(matches!(done, Updated::Stored(_)), "{done:?}");
}

/// Changes a definition as an operator does by hand: nothing is validated, no sweeper is woken.
pub async fn edit_by_hand(b: &dyn Backend, name: &str, change: impl FnOnce(NotifyDef) -> NotifyDef) {
    let seen = definition(b, name).await;
    let new = change(seen.clone());
    let done = b.outbox().engine().stores().definitions.edit(&Edit::Replace { seen, new }, "a test").await.unwrap();
    assert!(matches!(done, Edited::Stored(_)), "{done:?}");
}

/// Seconds between two times.
pub fn seconds(from: DateTime<Utc>, to: DateTime<Utc>) -> f64 {
    (to - from).to_std().unwrap().as_secs_f64()
}
