//! Judges overdue notices without claiming them: leases whose holder died, and deliveries that were not acked in time.

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
    /// Judges expired leases: their holders died while sending. Returns when to look again.
    pub(crate) async fn rescue(&self, definition: &Definition, ready: &Arc<Ready>) -> Result<Duration, StoreError> {
        if let Some(left) = self.health.grace_left(self.moment()) {
            return Ok(left.max(SHORTEST));
        }
        let expired =
            self.store().look(&Look::Overdue { def_id: definition.row.id, status: Status::Sending }, BATCH).await?;
        for claimed in expired {
            // A notice that this node still holds is late, not lost: the lease loop extends its lease.
            let in_flight = self.in_flight().get(&claimed.id).is_some_and(|in_flight| in_flight.fence == claimed.fence);
            if in_flight || !self.begin_to_judge(claimed.id, claimed.fence) {
                continue;
            }
            let event = if claimed.worker == self.id && !self.was_given_up(claimed.id, claimed.fence) {
                // This node claimed it but has not registered it, so the answer to the claim was lost. It was not
                // attempted, so nothing is counted.
                Event::HandedBack(Duration::ZERO)
            } else {
                tracing::warn!(
                    definition = %definition.row.name, id = claimed.id, attempt = claimed.attempt(), worker = %claimed.worker,
                    "the lease expired: its worker died while sending"
                );
                Event::Crashed
            };
            let mut outcome = Outcome::new(claimed, Arc::clone(ready), event);
            outcome.overdue = true;
            self.settle(outcome);
        }
        // When it is settled, the settle loop wakes the sweep for its retry.
        Ok(self.settings.poll_interval)
    }

    /// Judges deliveries whose ack is overdue, or that their receiver nacked, as failed attempts. Returns when to
    /// look again.
    pub(crate) async fn judge_unacked(
        &self,
        definition: &Definition,
        ready: &Arc<Ready>,
    ) -> Result<Duration, StoreError> {
        // No receiver could ack while the database was down, but a nack that is stored counts.
        let grace = self.health.grace_left(self.moment());
        let overdue = Look::Overdue { def_id: definition.row.id, status: Status::AwaitingAck };
        for claimed in self.store().look(&overdue, BATCH).await? {
            let refused = claimed.refused().map(|record| record.message);
            if (grace.is_some() && refused.is_none()) || !self.begin_to_judge(claimed.id, claimed.fence) {
                continue;
            }
            let message = refused.unwrap_or_else(|| not_acked(ready.policy.max_confirm_delay));
            let mut outcome = Outcome::new(claimed, Arc::clone(ready), Event::Failed(ErrorClass::Unacked));
            outcome.trouble = Some((ErrorClass::Unacked, message));
            outcome.overdue = true;
            self.settle(outcome);
        }
        Ok(grace.map_or(self.settings.poll_interval, |left| left.max(SHORTEST)))
    }
}

fn not_acked(within: Duration) -> String {
    match within {
        // The handler itself asked for the ack, or the row was changed since.
        FOREVER => "it was not acked in time".to_owned(),
        within => format!("it was not acked within {}", humantime::format_duration(within)),
    }
}
