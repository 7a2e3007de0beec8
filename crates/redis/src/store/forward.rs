//! What an outcome causes in other slots: alarms, and notices for targets. The settle stores it with the outcome, in the slot of the
//! definition, with a number. It is forwarded from there, at least once, and arrives once: the other slot has the number up to
//! which it has arrived.

use std::collections::BTreeMap;

use solid_notify_core::StoreError;
use solid_notify_core::store::Alarm;

use super::codec::Outgoing;
use super::given::{self, ForTarget, Text};
use super::{CHANGE, INSERT, LOOK, RedisStore, codec};

impl RedisStore {
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
