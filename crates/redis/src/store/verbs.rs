//! Verbs of operators, acks and nacks. The core decides; one script compares the notice with the one decided about, writes it,
//! and writes the audit entry.

use solid_notify_core::StoreError;
use solid_notify_core::ack::{ACKED_LATE, AckResult, OfLive, Reply, late_entry, of_ended, of_live};
use solid_notify_core::notice::{Status, millis_from_time};
use solid_notify_core::operate::{AuditEntry, Change, Verb, VerbResult, Window, WindowDone, decide, detail};

use super::row::Stored;
use super::{AGAIN, CHANGE, RedisStore, busy, codec, member, opt, pause};

/// A change of one notice: the verb, its text, and a time.
struct Deed {
    what: &'static str,
    word: String,
    at: String,
}

impl RedisStore {
    pub(super) async fn change_one(&self, id: i64, verb: &Verb, who: &str) -> Result<VerbResult, StoreError> {
        for round in 0..AGAIN {
            pause(round).await;
            let Some((stored, status)) = self.loaded(id).await? else { return Ok(VerbResult::NotFound) };
            let now = self.time().await?;
            let record = stored.record(status);
            let change = match decide(&record, verb, now) {
                Ok(change) => change,
                Err(answer) => return Ok(answer),
            };
            let mut entry = AuditEntry::new(now, who, verb.act());
            (entry.def_id, entry.notice_id) = (Some(record.def_id), Some(id));
            entry.detail = Some(detail(&record, verb));
            match self.carry_out(&stored, status, &deed(&change), &codec::audit_text(&entry)).await?.as_str() {
                "done" => return Ok(change.answer()),
                "conflict" => {}
                taken => return Ok(VerbResult::DedupeKeyTaken(taken.parse().unwrap_or_default())),
            }
        }
        Err(busy("changing a notice"))
    }

    async fn loaded(&self, id: i64) -> Result<Option<(Stored, Status)>, StoreError> {
        Ok(self.load(id).await?.and_then(|stored| stored.status().map(|status| (stored, status))))
    }

    async fn carry_out(&self, stored: &Stored, status: Status, deed: &Deed, audit: &str) -> Result<String, StoreError> {
        let (member, status, fence) = (member(stored.id), status.code().to_string(), stored.fence().to_string());
        let seen = [status.as_str(), &fence, &stored.score];
        let args = ["one", &member, seen[0], seen[1], seen[2], deed.what, &deed.word, &deed.at, audit];
        self.run(&CHANGE, stored.def_id, &args, "changing a notice").await
    }

    pub(super) async fn change_some(&self, window: &Window) -> Result<WindowDone, StoreError> {
        const DOING: &str = "changing notices";
        let (what, reason) = match (&window.verb, window.status) {
            (Verb::Retry, status) if status.is_final() => ("revive", ""),
            (Verb::Reschedule { .. }, Status::NotSent | Status::Failed) => ("retime", ""),
            (Verb::Cancel { reason }, status) if !status.is_final() => ("end", reason.as_str()),
            _ => return Ok(WindowDone::default()),
        };
        let mut words = Vec::with_capacity(window.notices.len() * 3);
        for target in &window.notices {
            words.extend([member(target.id), target.fence.to_string(), millis_from_time(target.due).to_string()]);
        }
        let status = window.status.code().to_string();
        for round in 0..AGAIN {
            pause(round).await;
            let args = |mode, audit, seen| {
                let mut args: Vec<&str> = vec!["window", mode, what, &status, reason, audit, seen];
                args.extend(words.iter().map(String::as_str));
                args
            };
            type Seen = (String, Vec<String>, Vec<String>);
            let (_, changed, taken): Seen = self.run(&CHANGE, window.def_id, &args("look", "", ""), DOING).await?;
            let seen = format!("{}/{}", changed.join(" "), taken.join(" "));
            let ids = |members: &[String]| members.iter().filter_map(|member| member.parse().ok()).collect();
            let done = WindowDone { changed: ids(&changed), dedupe_key_taken: ids(&taken) };
            let mut entry = AuditEntry::new(self.time().await?, window.who.as_str(), window.verb.act());
            (entry.def_id, entry.detail) = (Some(window.def_id), Some(done.detail(window)));
            let audit = codec::audit_text(&entry);
            let (answer, _, _): Seen = self.run(&CHANGE, window.def_id, &args("take", &audit, &seen), DOING).await?;
            if answer == "done" {
                return Ok(done);
            }
        }
        Err(busy(DOING))
    }

    pub(super) async fn answer(&self, answer: &Reply) -> Result<AckResult, StoreError> {
        for round in 0..AGAIN {
            pause(round).await;
            let Some((stored, status)) = self.loaded(answer.id).await? else { return Ok(AckResult::Unknown) };
            if status.is_final() {
                if let Some(answered) = of_ended(answer, status, stored.fence(), stored.claimed(status).create_time) {
                    return Ok(answered);
                }
                let deed = Deed { what: "late", word: ACKED_LATE.to_owned(), at: String::new() };
                let entry = late_entry(self.time().await?, Some(stored.def_id), answer.id);
                if self.carry_out(&stored, status, &deed, &codec::audit_text(&entry)).await? == "done" {
                    return Ok(AckResult::DeadLetterAcked);
                }
                continue;
            }
            let done = match of_live(answer, &stored.claimed(status)) {
                OfLive::Nothing(answered) => return Ok(answered),
                OfLive::End(settle) => self.settle_once(&settle).await?,
                OfLive::Fail(errors) => {
                    let deed = Deed { what: "refuse", word: errors, at: String::new() };
                    self.carry_out(&stored, status, &deed, "").await? == "done"
                }
            };
            if done {
                return Ok(AckResult::Done);
            }
        }
        Err(busy("storing an ack or nack"))
    }

    /// Returns the result that an ack or nack would have now.
    pub(crate) async fn preview(&self, answer: &Reply) -> Result<AckResult, StoreError> {
        let Some((stored, status)) = self.loaded(answer.id).await? else { return Ok(AckResult::Unknown) };
        if status.is_final() {
            return Ok(of_ended(answer, status, stored.fence(), stored.claimed(status).create_time)
                .unwrap_or(AckResult::DeadLetterAcked));
        }
        Ok(match of_live(answer, &stored.claimed(status)) {
            OfLive::Nothing(answered) => answered,
            _ => AckResult::Done,
        })
    }
}

fn deed(change: &Change) -> Deed {
    let (what, word, at) = match change {
        Change::Revive { param } => ("revive", opt(param.as_deref()), String::new()),
        Change::End { reason, .. } => ("end", reason.clone(), String::new()),
        Change::Retime { at } => ("retime", String::new(), millis_from_time(*at).to_string()),
        Change::Rewrite { param } => ("rewrite", param.clone(), String::new()),
        Change::Nothing => ("nothing", String::new(), String::new()),
    };
    Deed { what, word, at }
}
