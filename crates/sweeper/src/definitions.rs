//! The definitions as this node sees them: read again every two seconds, and whenever somebody wakes the sweeper, by
//! comparing whole rows. What can be sent here, and why the rest waits.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use solid_notify_core::{NotifyDef, Policy, StoreError};

use crate::builder::StrategyFn;
use crate::handler::AnyHandler;
use crate::worker::Worker;

/// How old a node's view of the definitions can get.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(2);
/// The delay of a strategy that panics.
const FALLBACK_DELAY: Duration = Duration::from_secs(300);

/// One reading of `notify_def`.
#[derive(Default)]
pub(crate) struct Definitions {
    by_id: HashMap<i64, Arc<Definition>>,
}

/// A definition and whether this node sends its notices.
pub(crate) struct Definition {
    pub(crate) row: NotifyDef,
    pub(crate) standing: Standing,
}

/// Whether this node sends a definition's notices, and why not.
pub(crate) enum Standing {
    /// It does.
    Ready(Arc<Ready>),
    /// `enabled` is false. The policy still judges what is running.
    Paused(Policy),
    /// The row is wrong; the text says where.
    Invalid(String),
    /// No handler, or no strategy, of that name is registered here, the text says which. The policy judges what is running.
    NotHere(Policy, String),
}

/// What it takes to send.
pub(crate) struct Ready {
    pub(crate) policy: Policy,
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) strategy: StrategyFn,
}

impl Definitions {
    pub(crate) fn get(&self, def_id: i64) -> Option<&Arc<Definition>> {
        self.by_id.get(&def_id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.by_id.values()
    }
}

impl Definition {
    pub(crate) fn ready(&self) -> Option<&Arc<Ready>> {
        match &self.standing {
            Standing::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    /// False where only other nodes send its notices.
    pub(crate) fn is_here(&self) -> bool {
        !matches!(self.standing, Standing::NotHere(..))
    }

    /// The policy by which outcomes are judged, where the row is valid.
    pub(crate) fn policy(&self) -> Option<&Policy> {
        match &self.standing {
            Standing::Ready(ready) => Some(&ready.policy),
            Standing::Paused(policy) | Standing::NotHere(policy, _) => Some(policy),
            Standing::Invalid(_) => None,
        }
    }
}

impl Worker {
    /// Reads the definitions and tells of changes.
    pub(crate) async fn reload_definitions(&self) -> Result<(), StoreError> {
        let rows = self.store().definitions().await?;
        let mut view = self.definitions.write().unwrap_or_else(PoisonError::into_inner);
        let mut by_id = HashMap::with_capacity(rows.len());
        for row in rows {
            let definition = match view.by_id.get(&row.id) {
                Some(known) if known.row == row => Arc::clone(known),
                _ => {
                    let definition = Definition { standing: self.judge(&row), row };
                    report(&definition);
                    Arc::new(definition)
                }
            };
            by_id.insert(definition.row.id, definition);
        }
        for (id, lost) in
            view.by_id.iter().filter(|(id, lost)| !by_id.contains_key(id) && lost.row.delete_time.is_none())
        {
            tracing::error!(
                definition = %lost.row.name, id,
                "the notify_def row was deleted by hand; its notices wait, nothing of them is lost: insert the row again with \
                 this id and name (and delete definitions with `notify.delete`)"
            );
        }
        *view = Arc::new(Definitions { by_id });
        Ok(())
    }

    fn judge(&self, row: &NotifyDef) -> Standing {
        let policy = match row.policy() {
            Ok(policy) => policy,
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                return Standing::Invalid(problems.join("; "));
            }
        };
        if !policy.enabled {
            return Standing::Paused(policy);
        }
        let Some(handler) = self.handlers.get(&policy.handler) else {
            let reason = format!("no handler {:?} is registered on this node", policy.handler);
            return Standing::NotHere(policy, reason);
        };
        let strategy = match policy.interval.strategy() {
            None => Arc::new(|_| FALLBACK_DELAY) as StrategyFn,
            Some(name) => match self.strategies.get(name) {
                Some(strategy) => guarded(Arc::clone(strategy)),
                None => {
                    let reason = format!("no retry strategy {name:?} is registered on this node");
                    return Standing::NotHere(policy, reason);
                }
            },
        };
        Standing::Ready(Arc::new(Ready { policy, handler: Arc::clone(handler), strategy }))
    }
}

/// A strategy that cannot take the settling of others down with it.
fn guarded(strategy: StrategyFn) -> StrategyFn {
    Arc::new(move |n| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| strategy(n))).unwrap_or_else(|_| {
            tracing::error!(
                retry = n,
                "a retry strategy panicked; the retry waits {}",
                humantime::format_duration(FALLBACK_DELAY)
            );
            FALLBACK_DELAY
        })
    })
}

/// Tells, once per change of the row, why its notices wait.
fn report(definition: &Definition) {
    let name = &definition.row.name;
    match &definition.standing {
        Standing::Ready(_) => tracing::debug!(definition = %name, "sending"),
        Standing::Paused(_) => tracing::info!(definition = %name, "not enabled: its notices wait"),
        Standing::Invalid(problems) => {
            tracing::error!(definition = %name, %problems, "invalid definition: its notices wait until the row is corrected");
        }
        Standing::NotHere(_, reason) => {
            tracing::info!(definition = %name, %reason, "its notices are left to other nodes")
        }
    }
}
