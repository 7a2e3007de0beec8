//! Acks and nacks of receivers, in memory.

use chrono::{DateTime, Utc};
use solid_notify_core::Status;
use solid_notify_core::ack::{ACKED_LATE, AckResult, OfLive, Reply, of_ended, of_live};

use super::State;

impl State {
    pub(crate) fn apply_ack(&mut self, reply: &Reply, now: DateTime<Utc>) -> AckResult {
        if let Some(live) = self.live.get_mut(&reply.id) {
            let entry = reply.entry(now, Some(live.notice.def_id), live.notice.status);
            match of_live(reply, &live.notice) {
                OfLive::End(settle) => {
                    self.settle(&settle, now, &mut Vec::new());
                }
                OfLive::Fail(errors) => {
                    live.notice.status = Status::AwaitingAck;
                    live.notice.errors = Some(errors);
                    live.next_call_time = Some(now);
                }
                OfLive::Nothing(answered) => return answered,
            }
            self.audit.extend(entry);
            return AckResult::Applied;
        }
        let Some(ended) = self.history.get_mut(&reply.id) else {
            return reply.of_missing(Some(self.store_id));
        };
        let notice = &mut ended.live.notice;
        if let Some(answered) = of_ended(reply, notice.status, notice.fence, notice.create_time) {
            return answered;
        }
        let entry = reply.entry(now, Some(notice.def_id), notice.status);
        notice.status = Status::Succeeded;
        (ended.finish_time, ended.reason) = (now, Some(ACKED_LATE.to_owned()));
        self.audit.extend(entry);
        AckResult::DeadLetterAcked
    }
}
