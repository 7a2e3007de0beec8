//! [`Operator::circuits`]: the circuits of definitions, over all nodes.
//!
//! When one opens and closes is decided in [`crate::limit`]; [`Operator::close_circuit`] closes one by hand.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::operator::Operator;
use crate::error::Result;
use crate::notice::time_from_millis;

/// The circuit of a definition that has one (`breaker_failures`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Circuit {
    /// The definition.
    pub def_id: i64,
    /// Its name.
    pub definition: String,
    /// True if it is open: notices wait.
    pub open: bool,
    /// Failures in a row.
    pub failures: i64,
    /// How many of them open it.
    pub breaker_failures: i64,
    /// From when on a probe may be sent, if it is open.
    pub probe_from: Option<DateTime<Utc>>,
    /// The notice that is being sent as the probe.
    pub probe: Option<i64>,
}

impl Operator {
    /// Returns the circuits of all definitions that have one, by the name of the definition.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn circuits(&self) -> Result<Vec<Circuit>> {
        let limits = self.stores().definitions.send_limits().await?.limits;
        let mut circuits = Vec::new();
        for row in self.outbox.engine().in_force().await?.into_iter().map(|followed| followed.row) {
            let Some(breaker_failures) = row.breaker_failures.filter(|_| row.delete_time.is_none()) else { continue };
            let limit = limits.get(&row.id).cloned().unwrap_or_default();
            circuits.push(Circuit {
                def_id: row.id,
                definition: row.name,
                open: limit.open_until.is_some(),
                failures: limit.failures,
                breaker_failures,
                probe_from: limit.open_until.map(time_from_millis),
                probe: limit.probe,
            });
        }
        circuits.sort_by(|a, b| a.definition.cmp(&b.definition));
        Ok(circuits)
    }
}
