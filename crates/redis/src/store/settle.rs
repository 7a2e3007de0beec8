//! Settles the outcomes of one definition in one script. Circuits are decided here and compared there.

use std::collections::BTreeMap;

use solid_notify_core::limit::end;
use solid_notify_core::store::{Settle, Settled, Shape};
use solid_notify_core::transition::Next;
use solid_notify_core::{Status, StoreError};
use solid_notify_redis_connection::Error;

use super::given::{self, Beside, Millis, Outcome, SettleMode, Text};
use super::{AGAIN, AT_ONCE, RedisStore, SETTLE, busy, codec, def_of, member, pause};

const DOING: &str = "storing outcomes";

/// The reply to an outcome.
#[derive(PartialEq)]
enum Answer {
    Settled(Settled),
    /// Nothing was changed: the notice has a dedupe key, and is passed on before.
    Keyed,
}

impl RedisStore {
    pub(super) async fn settle_all(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        let mut of_definitions: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (at, settle) in batch.iter().enumerate() {
            of_definitions.entry(def_of(settle.id)).or_default().push(at);
        }
        let mut settled = vec![Settled::LostLease; batch.len()];
        let mut forwarding = Vec::new();
        for (def_id, places) in of_definitions {
            for chunk in places.chunks(AT_ONCE) {
                let (chunk, changed) = self.unchanged_families(def_id, chunk, batch).await?;
                changed.iter().for_each(|at| settled[*at] = Settled::Changed);
                if chunk.is_empty() {
                    continue;
                }
                let outcomes: Vec<&Settle> = chunk.iter().map(|at| &batch[*at]).collect();
                let answers = match outcomes.iter().any(|settle| settle.for_breaker.is_some()) {
                    true => self.settle_with_breaker(def_id, &outcomes).await?,
                    false => self.write(def_id, SettleMode::Free, &outcomes).await?.unwrap_or_default(),
                };
                let mut keyed = Vec::new();
                for (at, answer) in chunk.iter().zip(answers) {
                    match answer {
                        Answer::Settled(reply) => settled[*at] = reply,
                        Answer::Keyed => keyed.push(*at),
                    }
                }
                if !keyed.is_empty() {
                    let outcomes: Vec<&Settle> = keyed.iter().map(|at| &batch[*at]).collect();
                    let replies = self.settle_keyed(def_id, &outcomes).await?;
                    keyed.into_iter().zip(replies).for_each(|(at, reply)| settled[at] = reply);
                }
                if outcomes.iter().any(|settle| settle.shape() == Shape::Full) {
                    forwarding.push(def_id);
                }
            }
        }
        if !forwarding.is_empty() {
            // They are stored with the outcomes. The next look for due notices forwards what fails here.
            forwarding.dedup();
            self.forward_soon(forwarding).await;
        }
        Ok(settled)
    }

    /// Passes notices with dedupe keys on, and settles those of which all targets have said whether they kept an earlier notice. The others
    /// are settled again.
    async fn settle_keyed(&self, def_id: i64, outcomes: &[&Settle]) -> Result<Vec<Settled>, StoreError> {
        let mut settled = vec![Settled::Locked; outcomes.len()];
        let (mut places, mut passed) = (Vec::new(), Vec::new());
        for (at, kept) in self.pass_on_keyed(def_id, outcomes).await?.into_iter().enumerate() {
            let Some(kept) = kept else { continue };
            let instead = outcomes[at].reason_with(&kept);
            let mut settle = Settle { pass_to: Vec::new(), ..outcomes[at].clone() };
            if let (Next::Finish { reason, .. }, Some(instead)) = (&mut settle.transition.next, &instead) {
                *reason = Some(instead.clone());
            }
            places.push((at, instead.map_or(Settled::Stored, Settled::PassedOn)));
            passed.push(settle);
        }
        if passed.is_empty() {
            return Ok(settled);
        }
        let outcomes: Vec<&Settle> = passed.iter().collect();
        let answers = self.write(def_id, SettleMode::Free, &outcomes).await?.unwrap_or_default();
        for ((at, stored), answer) in places.into_iter().zip(answers) {
            match answer {
                Answer::Settled(Settled::Stored) => settled[at] = stored,
                Answer::Settled(reply) => settled[at] = reply,
                Answer::Keyed => {}
            }
        }
        Ok(settled)
    }

    /// Returns the places of the outcomes that may be stored, and of those that were decided by rows of targets which have changed.
    async fn unchanged_families(
        &self,
        def_id: i64,
        places: &[usize],
        batch: &[Settle],
    ) -> Result<(Vec<usize>, Vec<usize>), StoreError> {
        if places.iter().all(|at| batch[*at].decided_by.is_none()) {
            return Ok((places.to_vec(), Vec::new()));
        }
        let rows = self.family(def_id, DOING).await?;
        let holds = |at: &usize| batch[*at].decided_by.as_ref().is_none_or(|by| by.still_holds(def_id, &rows));
        Ok(places.iter().partition(|at| holds(at)))
    }

    /// Returns true where this call has stored the outcome, and false where an earlier one had.
    pub(super) async fn settle_once(&self, settle: &Settle, audit: Option<&str>) -> Result<bool, StoreError> {
        let answers = self.write(def_of(settle.id), SettleMode::Once { audit }, &[settle]).await?;
        Ok(answers.is_some_and(|answers| answers == [Answer::Settled(Settled::Stored)]))
    }

    /// Settles outcomes that a circuit breaker watches.
    async fn settle_with_breaker(&self, def_id: i64, outcomes: &[&Settle]) -> Result<Vec<Answer>, StoreError> {
        for round in 0..AGAIN {
            pause(round).await;
            let (now, limits, mask) = self.look_at(def_id, outcomes).await?;
            let stored = outcomes.iter().zip(mask.bytes()).filter(|(_, is_stored)| *is_stored == b'1');
            let seen: Vec<_> = stored
                .filter_map(|(settle, _)| settle.for_breaker.as_deref().map(|input| (settle.id, input)))
                .collect();
            let mut beside = unchanged(&limits, mask);
            if !seen.is_empty() {
                let row = codec::limit_row(&limits).unwrap_or_default();
                let (new, alarm) = end(&row, &seen, now);
                beside.new_limits = codec::limit_text(&new);
                beside.alarm = alarm.map(codec::alarm_text);
            }
            if let Some(answers) = self.write(def_id, SettleMode::Take(&beside), outcomes).await? {
                return Ok(answers);
            }
        }
        Err(busy(DOING))
    }

    /// Returns the time, the limits, and for which outcomes the fence holds.
    async fn look_at(&self, def_id: i64, outcomes: &[&Settle]) -> Result<(i64, String, String), StoreError> {
        let look = self.arguments(SettleMode::Look, outcomes);
        let (_, now, limits, mask): (String, i64, String, String) = self.run(&SETTLE, def_id, &look, DOING).await?;
        Ok((now, limits, mask))
    }

    /// Returns `None`, and changes nothing, where something has changed since it was read.
    async fn write(
        &self,
        def_id: i64,
        mode: SettleMode<'_>,
        outcomes: &[&Settle],
    ) -> Result<Option<Vec<Answer>>, StoreError> {
        let reply: redis::Value = self.run(&SETTLE, def_id, &self.arguments(mode, outcomes), DOING).await?;
        if let redis::Value::Array(parts) = &reply
            && parts.len() == 1
        {
            return Ok(None);
        }
        let (_, answers): (String, Vec<String>) =
            redis::from_redis_value(reply).map_err(|_| super::fault(DOING, Error::unreadable(DOING)))?;
        let ended =
            |code: &str| code.parse().ok().and_then(Status::from_code).map_or(Settled::LostLease, Settled::Ended);
        let settled = |(reply, outcome): (&String, &&Settle)| {
            Answer::Settled(match (reply.as_str(), reply.split_once(' ')) {
                ("keyed", _) => return Answer::Keyed,
                // An ack or nack is stored once: only the call that changed something returns `Stored`.
                ("was", _) if matches!(mode, SettleMode::Once { .. }) => {
                    Settled::Ended(outcome.transition.next.status())
                }
                ("done" | "was", _) => Settled::Stored,
                (_, Some(("was", reason))) => outcome.stored_already(Some(reason)),
                (_, Some(("ended", code))) => ended(code),
                _ => Settled::LostLease,
            })
        };
        Ok(Some(answers.iter().zip(outcomes).map(settled).collect()))
    }

    fn arguments<'a>(&self, mode: SettleMode<'a>, outcomes: &[&'a Settle]) -> given::Settle<'a> {
        let outcomes = outcomes.iter().map(|settle| outcome(settle)).collect();
        given::Settle { mode, outcomes, history_limit: self.history_limit }
    }
}

fn outcome(settle: &Settle) -> Outcome<'_> {
    let (status, delay, keep, reason) = match &settle.transition.next {
        Next::Wait { status, after } => (*status, Some(Millis(*after)), false, None),
        Next::Finish { status, reason, keep } => (*status, None, *keep, reason.as_deref()),
    };
    Outcome {
        member: member(settle.id),
        fence: Text(settle.fence),
        from: settle.from.into(),
        status: status.into(),
        overdue: settle.overdue,
        delay,
        keep,
        reason,
        failures: Text(settle.transition.failures),
        crashes: Text(settle.transition.crashes),
        errors: settle.errors.as_deref(),
        last_class: settle.last_class.as_deref(),
        description: settle.description.as_deref(),
        response: settle.response.as_deref(),
        error_group: settle.error_group.map(Text),
        alarm: settle.alarm.as_deref().map(codec::alarm_text),
        pass_to: settle.pass_to.iter().map(|target| target.id).collect(),
    }
}

/// Changes nothing beside the outcomes, if the limits are these and these fences hold.
fn unchanged(limits: &str, mask: String) -> Beside {
    let (seen_limits, new_limits) = (limits.to_owned(), limits.to_owned());
    Beside { seen_limits, new_limits, seen_mask: mask, ..Beside::default() }
}
