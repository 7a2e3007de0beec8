//! [`assert_added`]: asserts which notices were added to an outbox over any store, for the last lines of an application's
//! test.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::panic::Location;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use solid_notify_core::add::nearest_name;
use solid_notify_core::store::{Position, QueueSlice};
use solid_notify_core::{AnyOutbox, NoticeRecord, Result, Status};

/// How many notices are read at a time.
const PAGE: usize = 500;
/// How many notices a failed assertion lists.
const LISTED: usize = 10;

/// Asserts that notices of a definition were added, and returns them in the order of their ids: live ones, and ended ones
/// as far as the definition keeps them (`keep_history`).
///
/// Without further conditions it expects one notice or more; [`Expectation::with`], [`Expectation::times`] and
/// [`Expectation::never`] add conditions. It sees a notice only after its transaction is committed.
///
/// # Panics
/// If the expectation is not met, or the definition does not exist; the message lists the notices that were added.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use serde_json::json;
/// use solid_notify_core::{NotifyDef, add_notice};
/// use solid_notify_testkit::{MemoryOutbox, assert_added};
///
/// let outbox = MemoryOutbox::new();
/// outbox.define_if_missing(NotifyDef::new("sync_to_omp")).await?;
/// let mut tx = outbox.begin().await.unwrap();
/// add_notice(&mut tx, "sync_to_omp", json!({"order": 7, "state": "booked"})).await?;
/// assert_added(&outbox, "sync_to_omp").never().await;
/// tx.commit().await.unwrap();
///
/// let added = assert_added(&outbox, "sync_to_omp").with(json!({"order": 7})).times(1).await;
/// assert_eq!(added[0].ordering_key, None);
/// # Ok(()) }
/// ```
#[track_caller]
pub fn assert_added(outbox: &AnyOutbox, definition: impl Into<String>) -> Expectation<'_> {
    Expectation { outbox, definition: definition.into(), with: None, times: None, place: Location::caller() }
}

/// The expectation of [`assert_added`]; it is checked when it is awaited.
#[derive(Debug, Clone)]
#[must_use = "an expectation that is not awaited checks nothing"]
pub struct Expectation<'a> {
    outbox: &'a AnyOutbox,
    definition: String,
    with: Option<Value>,
    times: Option<usize>,
    place: &'static Location<'static>,
}

impl Expectation<'_> {
    /// Counts only notices whose parameter contains `param`: an object must have at least these members, to any depth; any
    /// other value must be equal.
    ///
    /// # Panics
    /// If `param` cannot be serialised as JSON.
    #[track_caller]
    #[allow(clippy::panic)] // An assertion.
    pub fn with(mut self, param: impl Serialize) -> Self {
        match serde_json::to_value(param) {
            Ok(value) => self.with = Some(value),
            Err(error) => panic!("what is expected of {:?} is no JSON: {error}", self.definition),
        }
        self
    }

    /// Expects exactly `count` notices.
    pub fn times(mut self, count: usize) -> Self {
        self.times = Some(count);
        self
    }

    /// Expects no notice.
    pub fn never(self) -> Self {
        self.times(0)
    }

    async fn judge(self) -> std::result::Result<Vec<NoticeRecord>, String> {
        let place = self.place;
        let all = match added(self.outbox, &self.definition).await {
            Ok(Some(all)) => all,
            Ok(None) => return Err(format!("at {place}: {}", self.unknown().await)),
            Err(error) => return Err(format!("at {place}: what was added cannot be read: {error}")),
        };
        let is_meant = |record: &NoticeRecord| match &self.with {
            Some(expected) => has(&serde_json::from_str(&record.param).unwrap_or_default(), expected),
            None => true,
        };
        let found: Vec<NoticeRecord> = all.iter().filter(|record| is_meant(record)).cloned().collect();
        if self.times.map_or(!found.is_empty(), |times| times == found.len()) {
            return Ok(found);
        }
        let wanted = match self.times {
            None => "one or more".to_owned(),
            Some(0) => "none".to_owned(),
            Some(times) => times.to_string(),
        };
        let with = self.with.as_ref().map_or_else(String::new, |with| format!(" with {with}"));
        let mut message = format!(
            "at {place}: notices of {:?}{with}: expected {wanted}, found {}\nadded were {}",
            self.definition,
            found.len(),
            all.len()
        );
        for record in all.iter().take(LISTED) {
            message += &format!("\n  {} ({:?}): {}", record.id, record.status, record.param);
        }
        if all.len() > LISTED {
            message += &format!("\n  and {} more", all.len() - LISTED);
        }
        if found.is_empty() {
            message += "\n(a notice is seen once its transaction is committed)";
        }
        Err(message)
    }

    async fn unknown(&self) -> String {
        let states = self.outbox.definitions().await.unwrap_or_default();
        let names: Vec<&str> = states.iter().map(|state| state.row.name.as_str()).collect();
        let nearest = nearest_name(&self.definition, names.iter().copied());
        let hint = nearest.map_or_else(String::new, |name| format!("; did you mean {name:?}?"));
        format!("there is no definition {:?}{hint}", self.definition)
    }
}

impl<'a> IntoFuture for Expectation<'a> {
    type Output = Vec<NoticeRecord>;
    type IntoFuture = BoxFuture<'a, Vec<NoticeRecord>>;

    #[allow(clippy::panic)] // An assertion.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.judge().await.unwrap_or_else(|message| panic!("{message}")) })
    }
}

/// Returns the notices of a definition, or None if the definition does not exist.
async fn added(outbox: &AnyOutbox, definition: &str) -> Result<Option<Vec<NoticeRecord>>> {
    let states = outbox.definitions().await?;
    let Some(def_id) = states.iter().find(|state| state.row.name == definition).map(|state| state.row.id) else {
        return Ok(None);
    };
    // Each state is a query of its own. Their order follows a notice's way, so that one that changes its state meanwhile is seen
    // twice and not missed: waiting retries are read before and after those that are being sent, ended notices last.
    let ended = (0..).map_while(Status::from_code).filter(|status| status.is_final());
    let mut ids = BTreeSet::new();
    for status in Status::LIVE.into_iter().chain([Status::Failed]).chain(ended) {
        let mut after: Option<Position> = None;
        loop {
            let slice = QueueSlice { after, ..QueueSlice::of(def_id, status) };
            let page = outbox.engine().stores().browse.list(&slice, PAGE).await?;
            ids.extend(page.iter().map(|listed| listed.id));
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.position.clone()),
                _ => break,
            }
        }
    }
    let mut records = Vec::new();
    for id in ids {
        records.extend(outbox.find(id).await?);
    }
    Ok(Some(records))
}

/// Returns whether `actual` equals `expected`, or is an object that contains it.
fn has(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            expected.iter().all(|(name, expected)| actual.get(name).is_some_and(|actual| has(actual, expected)))
        }
        _ => actual == expected,
    }
}
