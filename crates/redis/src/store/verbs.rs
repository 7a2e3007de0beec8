//! Verbs of operators, acks and nacks. The core decides; one script compares the notice with the one decided about, writes it,
//! and writes the audit entry.

use std::collections::HashMap;

use chrono::DateTime;
use solid_notify_core::StoreError;
use solid_notify_core::ack::{ACKED_LATE, AckResult, OfLive, Reply, of_ended, of_live};
use solid_notify_core::limit::{CLOSE_CIRCUIT, close};
use solid_notify_core::notice::{Status, millis_from_time};
use solid_notify_core::store::verb::{Change, Verb, VerbResult, decide, detail, errors_of_retry};
use solid_notify_core::store::{AuditEntry, BulkStep, BulkStepDone, BulkVerb, SliceOfStep};

use super::given::{self, SeenStep, StepVerb, Target, Text};
use super::keys::NO_DEFINITION;
use super::look::purged_row;
use super::row::{Stored, Words};
use super::{AGAIN, CHANGE, LOOK, RedisStore, busy, codec, fault, member, notice_id, pause};

impl RedisStore {
    pub(super) async fn change_one(&self, id: i64, verb: &Verb, who: &str) -> Result<VerbResult, StoreError> {
        for round in 0..AGAIN {
            pause(round).await;
            let Some((stored, status)) = self.loaded(id).await? else { return Ok(VerbResult::NotFound) };
            let now = self.time().await?;
            let record = stored.record(status);
            let change = match decide(&record, verb, now) {
                Ok(change) => change,
                Err(result) => return Ok(result),
            };
            let mut entry = AuditEntry::new(now, who, verb.act());
            (entry.def_id, entry.notice_id) = (Some(record.def_id), Some(id));
            entry.detail = Some(detail(&record, verb));
            let audit = Some(codec::audit_text(&entry));
            let errors = errors_of_retry(&record, verb);
            match self.carry_out(&stored, status, verb_of(&change), errors, audit).await?.as_str() {
                "done" => return Ok(change.result()),
                "conflict" => {}
                taken => return Ok(VerbResult::DedupeKeyTaken(taken.parse().unwrap_or_default())),
            }
        }
        Err(busy("changing a notice"))
    }

    async fn loaded(&self, id: i64) -> Result<Option<(Stored, Status)>, StoreError> {
        Ok(self.load(id).await?.and_then(|stored| stored.status().map(|status| (stored, status))))
    }

    async fn carry_out(
        &self,
        stored: &Stored,
        status: Status,
        verb: given::Verb,
        errors: Option<String>,
        audit: Option<String>,
    ) -> Result<String, StoreError> {
        let (member, fence, score) = (member(stored.id), Text(stored.fence()), stored.score.as_str());
        let change = given::Change::One { member, status: status.into(), fence, score, verb, errors, audit };
        self.run(&CHANGE, stored.def_id, &change, "changing a notice").await
    }

    /// One slice after the other, each in a transaction of its own, because definitions are in different slots. Where one fails, those before it
    /// are changed and in the audit, as after a crash between a step and its stored progress.
    pub(super) async fn change_some(&self, step: &BulkStep) -> Result<BulkStepDone, StoreError> {
        let mut done = BulkStepDone::default();
        for slice in step.slices.iter().filter(|slice| step.verb.applies_to(slice.status)) {
            done.add(self.change_slice(step, slice).await?);
            if done.is_late {
                break;
            }
        }
        Ok(done)
    }

    async fn change_slice(&self, step: &BulkStep, slice: &SliceOfStep) -> Result<BulkStepDone, StoreError> {
        const DOING: &str = "changing notices";
        let verb = match &step.verb {
            BulkVerb::Retry => StepVerb::Revive,
            BulkVerb::Reschedule => StepVerb::Retime,
            BulkVerb::Cancel { reason } => StepVerb::End { reason },
            BulkVerb::Purge { .. } => StepVerb::Purge,
        };
        let targets = slice.notices.iter().map(|target| {
            let (member, fence) = (member(target.id), Text(target.fence));
            Target { member, fence, time: millis_from_time(target.due) }
        });
        let targets: Vec<Target> = targets.collect();
        for round in 0..AGAIN {
            pause(round).await;
            let change = |seen| {
                let status = slice.status.into();
                let before = step.act.map(|act| millis_from_time(act.lease_end));
                given::Change::Step { verb, status, notices: &targets, before, seen }
            };
            type Seen = (String, Vec<String>, Vec<String>, Vec<Words>);
            let (reply, changed, taken, _): Seen = self.run(&CHANGE, slice.def_id, &change(None), DOING).await?;
            let late = || Ok(BulkStepDone { is_late: true, ..BulkStepDone::default() });
            if reply == "late" {
                return late();
            }
            let seen = format!("{}/{}", changed.join(" "), taken.join(" "));
            let ids = |members: &[String]| members.iter().filter_map(|member| member.parse().ok()).collect();
            let mut done =
                BulkStepDone { changed: ids(&changed), dedupe_key_taken: ids(&taken), ..BulkStepDone::default() };
            // The script writes it only if there is something to write.
            let audit = done.entries(step, DateTime::UNIX_EPOCH).pop().as_ref().map(codec::audit_text);
            let take = change(Some(SeenStep { seen, audit: audit.unwrap_or_default() }));
            let (reply, _, _, purged): Seen = self.run(&CHANGE, slice.def_id, &take, DOING).await?;
            if reply == "done" {
                done.purged = purged.iter().map(purged_row).collect();
                return Ok(done);
            }
            if reply == "late" {
                return late();
            }
        }
        Err(busy(DOING))
    }

    pub(super) async fn apply(&self, reply: &Reply) -> Result<AckResult, StoreError> {
        for round in 0..AGAIN {
            pause(round).await;
            let Some((stored, status)) = self.loaded(reply.id).await? else { return self.missing(reply).await };
            let entry = reply.entry(DateTime::UNIX_EPOCH, Some(stored.def_id), status);
            let audit = entry.as_ref().map(codec::audit_text);
            if status.is_final() {
                if let Some(answered) = of_ended(reply, status, stored.fence(), stored.claimed(status).create_time) {
                    return Ok(answered);
                }
                let late = given::Verb::Late { text: ACKED_LATE.to_owned() };
                if self.carry_out(&stored, status, late, None, audit).await? == "done" {
                    return Ok(AckResult::DeadLetterAcked);
                }
                continue;
            }
            let done = match of_live(reply, &stored.claimed(status)) {
                OfLive::Nothing(answered) => return Ok(answered),
                OfLive::End(settle) => self.settle_once(&settle, audit.as_deref()).await?,
                OfLive::Fail(errors) => {
                    let refuse = given::Verb::Refuse { text: errors };
                    self.carry_out(&stored, status, refuse, None, audit).await? == "done"
                }
            };
            if done {
                return Ok(AckResult::Applied);
            }
        }
        Err(busy("storing an ack or nack"))
    }

    /// Returns the result of an ack or nack of a notice that is not stored.
    async fn missing(&self, reply: &Reply) -> Result<AckResult, StoreError> {
        let own = if reply.store.is_some() { self.own_id().await? } else { None };
        Ok(reply.of_missing(own))
    }

    /// Returns the random number of the store, which the first call makes.
    pub(super) async fn own_id(&self) -> Result<Option<i64>, StoreError> {
        let random = Text(fastrand::i64(1..));
        let id: String = self.common(&given::Common::StoreId { random }, "reading the number of the store").await?;
        Ok(id.parse().ok())
    }

    /// Finds out whether acks can be stored: does with a notice of its own what they do, on each master, because an ack writes on the one
    /// that has the slot of its definition. The notice is of no definition, so nothing else sees it.
    pub(super) async fn try_ack(&self) -> Result<(), StoreError> {
        const DOING: &str = "checking the rights for acks";
        let member = member(notice_id(1, NO_DEFINITION));
        let keys = self.redis.key_of_each_master(|number| self.keys.probe(number)).await;
        for key in keys.map_err(|error| fault(DOING, error))? {
            let find = given::Look::Find { member: member.clone() };
            let _: (HashMap<String, Vec<u8>>, String) = self.run_at(&LOOK, &key, &find, DOING).await?;
            let change = given::Change::CanAck { member: member.clone() };
            let _: i64 = self.run_at(&CHANGE, &key, &change, DOING).await?;
        }
        Ok(())
    }

    pub(super) async fn close(&self, def_id: i64, who: &str) -> Result<bool, StoreError> {
        const DOING: &str = "closing the circuit of a definition";
        for round in 0..AGAIN {
            pause(round).await;
            let seen_limits: String = self.run(&LOOK, def_id, &given::Look::Limits, DOING).await?;
            let Some(closed) = codec::limit_row(&seen_limits).as_ref().and_then(close) else { return Ok(false) };
            let mut entry = AuditEntry::new(DateTime::UNIX_EPOCH, who, CLOSE_CIRCUIT);
            entry.def_id = Some(def_id);
            let (new_limits, audit) = (codec::limit_text(&closed), codec::audit_text(&entry));
            let change = given::Change::Limits { seen_limits, new_limits, audit };
            let reply: String = self.run(&CHANGE, def_id, &change, DOING).await?;
            if reply == "done" {
                return Ok(true);
            }
        }
        Err(busy(DOING))
    }

    /// Returns the result that an ack or nack would have now.
    pub(crate) async fn preview(&self, reply: &Reply) -> Result<AckResult, StoreError> {
        let Some((stored, status)) = self.loaded(reply.id).await? else { return self.missing(reply).await };
        if status.is_final() {
            return Ok(of_ended(reply, status, stored.fence(), stored.claimed(status).create_time)
                .unwrap_or(AckResult::DeadLetterAcked));
        }
        Ok(match of_live(reply, &stored.claimed(status)) {
            OfLive::Nothing(answered) => answered,
            _ => AckResult::Applied,
        })
    }
}

fn verb_of(change: &Change) -> given::Verb {
    match change {
        Change::Revive { param } => given::Verb::Revive { text: param.clone() },
        Change::End { reason, .. } => given::Verb::End { text: reason.clone() },
        Change::Retime { at } => given::Verb::Retime { time: millis_from_time(*at) },
        Change::Recount { failures, crashes } => {
            given::Verb::Recount { failures: Text(*failures), crashes: Text(*crashes) }
        }
        Change::Rewrite { param } => given::Verb::Rewrite { text: param.clone() },
        Change::Nothing => given::Verb::Nothing,
    }
}
