//! What receivers say of their notices, in memory.

use std::time::SystemTime;

use solid_notify_core::Status;
use solid_notify_core::confirm::{CONFIRMED_LATE, Confirmation, Confirmed, OfLive, late_entry, of_ended, of_live};

use super::State;

impl State {
    pub(crate) fn confirm(&mut self, answer: &Confirmation, now: SystemTime) -> Confirmed {
        if let Some(live) = self.live.get_mut(&answer.id) {
            return match of_live(answer, &live.notice) {
                OfLive::End(settle) => {
                    self.settle(&settle, now, &mut Vec::new());
                    Confirmed::Done
                }
                OfLive::Fail(errors) => {
                    live.notice.status = Status::AwaitingConfirm;
                    live.notice.errors = Some(errors);
                    live.next_call_time = Some(now);
                    Confirmed::Done
                }
                OfLive::Nothing(answered) => answered,
            };
        }
        let Some(ended) = self.history.get_mut(&answer.id) else { return Confirmed::Unknown };
        let notice = &mut ended.live.notice;
        if let Some(answered) = of_ended(answer, notice.status, notice.attempt) {
            return answered;
        }
        notice.status = Status::Succeeded;
        (ended.finish_time, ended.reason) = (now, Some(CONFIRMED_LATE.to_owned()));
        let entry = late_entry(now, Some(notice.def_id), answer.id);
        self.audit.push(entry);
        Confirmed::DeadLetterConfirmed
    }
}
