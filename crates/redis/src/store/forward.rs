//! What an outcome causes in other slots: alarms, and notices for targets. The settle stores it with the outcome, in the slot of the
//! definition, with a number. It is forwarded from there, at least once, and arrives once: the other slot has the number up to
//! which it has arrived.

use std::collections::BTreeMap;

use solid_notify_core::store::{Alarm, PassOn, PassedOn};
use solid_notify_core::{NotifyDef, StoreError};

use super::codec::Outgoing;
use super::given::{self, ForTarget, Text};
use super::{CHANGE, INSERT, LOOK, RedisStore, codec, member};

impl RedisStore {
    /// Passes a notice on in parts. The rows of the targets are in another slot: they are read after the notice was claimed and before the script,
    /// so those whose creation had returned when it was added are there. One that is created later, before the script, gets nothing.
    pub(super) async fn pass_on_part(&self, part: &PassOn) -> Result<PassedOn, StoreError> {
        const DOING: &str = "passing a notice on in parts";
        let is_target = |row: &NotifyDef| row.target_of == Some(part.def_id) && row.delete_time.is_none();
        let (_, rows) = self.rows().await?;
        let mut now: Vec<i64> =
            rows.iter().filter(|seen| seen.row.as_ref().is_some_and(is_target)).map(|seen| seen.id).collect();
        now.sort_unstable();
        // Later parts go by the list of the first one, whatever the rows are now.
        let targets = (now == part.known).then(|| part.targets.iter().map(|target| Text(*target)).collect());
        let change =
            given::Change::PassOn { member: member(part.id), fence: Text(part.fence), targets, most: part.most };
        let reply: Vec<String> = self.run(&CHANGE, part.def_id, &change, DOING).await?;
        let [targets, done] = reply.as_slice() else {
            return Ok(if reply.is_empty() { PassedOn::Busy } else { PassedOn::Changed });
        };
        // The next look for due notices forwards what fails here.
        self.forward(part.def_id).await?;
        let targets = targets.split(' ').filter_map(|target| target.parse().ok()).collect();
        Ok(PassedOn::Part { targets, done: done.parse().unwrap_or_default() })
    }

    /// Forwards what is stored in the slot of a definition.
    pub(super) async fn forward(&self, def_id: i64) -> Result<(), StoreError> {
        loop {
            let stored: Vec<String> =
                self.run(&LOOK, def_id, &given::Look::Outgoing, "looking for what to forward").await?;
            let (mut alarms, mut last) = (Vec::<(i64, Alarm)>::new(), None);
            let mut of_targets = BTreeMap::<i64, Vec<ForTarget>>::new();
            for (number, outgoing) in stored.iter().map(|text| codec::outgoing(text)) {
                last = last.max(Some(number));
                match outgoing {
                    Some(Outgoing::Alarm(alarm)) => alarms.push((number, alarm)),
                    Some(Outgoing::Notice(target, notice)) => of_targets.entry(target).or_default().push(notice),
                    None => {}
                }
            }
            let Some(last) = last else { return Ok(()) };
            for (target, notices) in of_targets {
                let passed_on = given::PassedOn { source: Text(def_id), notices };
                let _: Vec<String> = self.run(&INSERT, target, &passed_on, "passing notices on to a target").await?;
            }
            self.raise_all(&alarms, def_id).await?;
            let arrived = given::Change::Forwarded { arrived: last };
            let _: i64 = self.run(&CHANGE, def_id, &arrived, "forwarding alarms and notices").await?;
        }
    }
}
