//! Judging what is overdue without claiming it: leases whose holder died, and deliveries that nobody confirmed in time.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::definition::FOREVER;
use solid_notify_core::store::Look;
use solid_notify_core::transition::Event;
use solid_notify_core::{ErrorClass, Status, StoreError};

use crate::definitions::{Definition, Ready};
use crate::settle::Outcome;
use crate::sweep::{BATCH, SHORTEST};
use crate::worker::Worker;

impl Worker {
    /// Judges expired leases: whoever held them died while sending. Returns when to look again.
    pub(crate) async fn rescue(&self, definition: &Definition, ready: &Arc<Ready>) -> Result<Duration, StoreError> {
        if let Some(left) = self.health.grace_left(self.moment()) {
            return Ok(left.max(SHORTEST));
        }
        let expired =
            self.store().look(&Look::Overdue { def_id: definition.row.id, status: Status::Sending }, BATCH).await?;
        for claimed in expired {
            // One that this node itself still holds is late, not dead: the lease loop extends it.
            let held = self.held().get(&claimed.id).is_some_and(|held| held.attempt == claimed.attempt);
            if held || !self.begin_to_judge(claimed.id, claimed.attempt) {
                continue;
            }
            let event = if claimed.worker == self.id && !self.was_given_up(claimed.id, claimed.attempt) {
                // Claimed by this very node, which does not know of it: the answer to the claim was lost. Nothing was
                // tried, so nothing is counted.
                Event::HandedBack
            } else {
                tracing::warn!(
                    definition = %definition.row.name, id = claimed.id, attempt = claimed.attempt, worker = %claimed.worker,
                    "the lease expired: its worker died while sending"
                );
                Event::Crashed
            };
            let mut outcome = Outcome::new(claimed, Arc::clone(ready), event);
            outcome.overdue = true;
            self.settle(outcome);
        }
        // Once it is settled, the settle loop tells that its retry is due.
        Ok(self.settings.poll_interval)
    }

    /// Judges deliveries whose confirmation is overdue, or that their receiver refused: failed attempts. Returns when to look
    /// again.
    pub(crate) async fn judge_unconfirmed(
        &self,
        definition: &Definition,
        ready: &Arc<Ready>,
    ) -> Result<Duration, StoreError> {
        // While the database was down nobody could confirm; but a refusal is one.
        let grace = self.health.grace_left(self.moment());
        let overdue = Look::Overdue { def_id: definition.row.id, status: Status::AwaitingConfirm };
        for claimed in self.store().look(&overdue, BATCH).await? {
            let refused = claimed.refused().map(|record| record.message);
            if (grace.is_some() && refused.is_none()) || !self.begin_to_judge(claimed.id, claimed.attempt) {
                continue;
            }
            let message = refused.unwrap_or_else(|| not_confirmed(ready.policy.max_confirm_delay));
            let mut outcome = Outcome::new(claimed, Arc::clone(ready), Event::Failed(ErrorClass::Unconfirmed));
            outcome.trouble = Some((ErrorClass::Unconfirmed, message));
            outcome.overdue = true;
            self.settle(outcome);
        }
        Ok(grace.map_or(self.settings.poll_interval, |left| left.max(SHORTEST)))
    }
}

fn not_confirmed(within: Duration) -> String {
    match within {
        // The handler itself asked for it, or the row was changed since.
        FOREVER => "it was not confirmed in time".to_owned(),
        within => format!("it was not confirmed within {}", humantime::format_duration(within)),
    }
}
