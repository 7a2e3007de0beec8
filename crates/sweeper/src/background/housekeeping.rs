//! The handlers of the built-in definitions that purge the tables and count dead letters. Their rows set when they run,
//! their retries and their alerts, as for any other definition.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use solid_notify_core::built_in::{DEAD_LETTERS_DEFINITION, PURGE_DEFINITION};
use solid_notify_core::definition::{KeepHistory, in_force};
use solid_notify_core::store::{Purge, dead_letters};
use solid_notify_core::{AnyOutbox, NotifyDef, Status, StoreError};

use crate::handlers::erased::{AnyHandler, Closure, Typed, check_by};
use crate::handlers::handler::{Failure, Handler, HandlerResult, Notice};

/// The rows of one purge: few, so that other transactions do not wait for it.
const STEP: usize = 500;

/// Registers the handlers, unless the application has its own.
pub(crate) fn register(handlers: &mut HashMap<String, Arc<dyn AnyHandler>>, outbox: &AnyOutbox) {
    let of = outbox.clone();
    let count = move |_: Notice<Value>| {
        let outbox = of.clone();
        async move {
            log_dead_letters(&outbox).await?;
            Ok::<_, Failure>(())
        }
    };
    handlers.entry(PURGE_DEFINITION.to_owned()).or_insert_with(|| {
        let purger: Arc<dyn AnyHandler> = Arc::new(Typed(Purger(outbox.clone())));
        check_by(outbox, PURGE_DEFINITION, &purger);
        purger
    });
    handlers.entry(DEAD_LETTERS_DEFINITION.to_owned()).or_insert_with(|| Arc::new(Typed(Closure::new(count))));
}

/// The handler of `notify.purge`.
struct Purger(AnyOutbox);

impl Handler for Purger {
    type Param = Value;

    fn check(&self, handler_config: Option<&str>) -> Result<(), String> {
        Keep::read(handler_config).map(drop)
    }

    async fn handle(&self, notice: Notice<Value>) -> HandlerResult {
        let keep = Keep::read(notice.handler_config()).map_err(Failure::retry)?;
        Ok(purge(&self.0, &keep).await?)
    }
}

/// How long to keep rows for which the definition has no column.
#[derive(Debug, PartialEq, Eq)]
struct Keep {
    /// Applies to deleted definitions too.
    dead_letters: Duration,
    cancelled: Duration,
    /// The idempotency keys that receivers have seen.
    inbox: Duration,
    /// The minutes of the series.
    series: Duration,
}

impl Keep {
    /// Reads the column `handler_config`. A missing value means thirty days, of `series` fourteen.
    fn read(config: Option<&str>) -> Result<Self, String> {
        #[derive(Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Config {
            dead_letters: Option<String>,
            cancelled: Option<String>,
            inbox: Option<String>,
            series: Option<String>,
        }
        let config = config.filter(|text| !text.trim().is_empty()).unwrap_or("{}");
        let wrong = |why: &dyn std::fmt::Display| {
            format!(
                "handler_config = {config:?}: expected JSON such as {{\"dead_letters\": \"30d\", \"cancelled\": \"30d\", \
                 \"inbox\": \"30d\", \"series\": \"14d\"}}; {why}"
            )
        };
        let read: Config = serde_json::from_str(config).map_err(|error| wrong(&error))?;
        let duration = |text: Option<String>, days: u64| match text {
            None => Ok(Duration::from_secs(days * 86_400)),
            Some(text) => humantime::parse_duration(&text).map_err(|error| wrong(&format!("`{text}`: {error}"))),
        };
        let (dead_letters, cancelled) = (duration(read.dead_letters, 30)?, duration(read.cancelled, 30)?);
        Ok(Self { dead_letters, cancelled, inbox: duration(read.inbox, 30)?, series: duration(read.series, 14)? })
    }
}

async fn purge(outbox: &AnyOutbox, keep: &Keep) -> Result<(), StoreError> {
    for followed in in_force(outbox.engine().stores().definitions.definitions().await?) {
        // A definition with an invalid row purges no successes, because its `keep_history` is unknown.
        let successes = match followed.policy().map(|policy| policy.keep_history) {
            Ok(KeepHistory::For(keep)) => Some(keep),
            Ok(KeepHistory::Never) => Some(Duration::ZERO),
            Ok(_) | Err(_) => None,
        };
        let definition = followed.row;
        if let Some(successes) = successes {
            purge_in_steps(outbox, &definition, Status::Succeeded, successes).await?;
        }
        purge_in_steps(outbox, &definition, Status::Cancelled, keep.cancelled).await?;
        purge_in_steps(outbox, &definition, Status::DeadLetter, keep.dead_letters).await?;
        if definition.delete_time.is_some() {
            let gone = Purge::Definition { def_id: definition.id, older_than: keep.dead_letters };
            if !outbox.engine().stores().send.purge(&gone).await?.is_empty() {
                tracing::info!(definition = %definition.name, id = definition.id, "purged a deleted definition");
            }
        }
    }
    for step in [
        Purge::Inbox { older_than: keep.inbox, limit: STEP },
        Purge::Series { older_than: keep.series, limit: STEP },
        Purge::Orphans { limit: STEP },
    ] {
        // A step is not full either where another session changed some of its rows meanwhile, so only an empty one is the last.
        while !outbox.engine().stores().send.purge(&step).await?.is_empty() {}
    }
    Ok(())
}

async fn purge_in_steps(
    outbox: &AnyOutbox,
    definition: &NotifyDef,
    status: Status,
    older_than: Duration,
) -> Result<(), StoreError> {
    let step = Purge::History { def_id: definition.id, status, older_than, limit: STEP };
    loop {
        let purged = outbox.engine().stores().send.purge(&step).await?;
        let logged = match status {
            Status::DeadLetter => Some("dead letter"),
            Status::Cancelled => Some("cancelled notice"),
            _ => None,
        };
        if let Some(what) = logged {
            purged.iter().for_each(|row| row.log(&definition.name, what));
        } else if !purged.is_empty() {
            let (definition, count, status) = (&definition.name, purged.len(), status.code());
            tracing::debug!(%definition, count, status, "purged notices");
        }
        // A step is not full either where a dead letter was revived meanwhile: the next run deletes the rest.
        if purged.len() < STEP {
            return Ok(());
        }
    }
}

/// Logs the dead letters of the snapshot, which gauges and alerts show, too.
async fn log_dead_letters(outbox: &AnyOutbox) -> Result<(), StoreError> {
    let snapshot = outbox.engine().stores().browse.counts().await?;
    for row in &snapshot {
        let count = row.taken.as_ref().map_or(0, |(counts, _)| counts.dead_letters);
        if count > 0 {
            tracing::warn!(definition = %row.definition, count, "dead letters");
        }
    }
    let (total, by_definition) = dead_letters(&snapshot);
    if total > 0 {
        tracing::warn!(total, by_definition, "dead letters of all definitions");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_time_to_keep_is_reported_with_the_correction() {
        const DAY: u64 = 86_400;
        let days = |days| Duration::from_secs(days * DAY);
        let keep = |dead, cancelled, inbox| {
            let (dead_letters, cancelled, inbox) = (days(dead), days(cancelled), days(inbox));
            Keep { dead_letters, cancelled, inbox, series: days(14) }
        };
        for nothing in [None, Some(""), Some("{}")] {
            assert_eq!(Keep::read(nothing), Ok(keep(30, 30, 30)));
        }
        assert_eq!(Keep::read(Some(r#"{"dead_letters": "7d"}"#)), Ok(keep(7, 30, 30)));
        assert_eq!(Keep::read(Some(r#"{"dead_letters": "1d", "cancelled": "2days"}"#)), Ok(keep(1, 2, 30)));
        assert_eq!(Keep::read(Some(r#"{"inbox": "90d"}"#)), Ok(keep(30, 30, 90)));
        assert_eq!(Keep::read(Some(r#"{"series": "90d"}"#)), Ok(Keep { series: days(90), ..keep(30, 30, 30) }));
        for wrong in ["30d", "{", r#"{"dead_letter": "7d"}"#, r#"{"dead_letters": 7}"#, r#"{"cancelled": "soon"}"#] {
            let error = Keep::read(Some(wrong)).unwrap_err();
            assert!(error.contains(r#"{"dead_letters": "30d""#) && error.starts_with("handler_config = "), "{error}");
        }
    }
}
