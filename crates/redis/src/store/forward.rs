//! What an outcome causes in other slots: alarms, and notices for targets. The settle stores it with the outcome, in the slot of the
//! definition, with a number. It is forwarded from there, at least once, and arrives once: the other slot has the number up to
//! which it has arrived.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use solid_notify_core::StoreError;
use solid_notify_core::store::{Alarm, PassOn, PassedOn};

use super::codec::Outgoing;
use super::given::{self, ForTarget, Text};
use super::{CHANGE, INSERT, LOOK, RedisStore, codec, member};

/// How long a call that is also for other definitions waits for what it forwards. What takes longer goes on after it.
const SOON: Duration = Duration::from_millis(100);

/// The calls that forward, by definition: one of each at a time, because another one would send the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Forwarding(Arc<Mutex<HashMap<i64, Arc<OfOne>>>>);

#[derive(Debug, Default)]
struct OfOne {
    one: tokio::sync::Mutex<()>,
    /// A call waits for its turn, and will forward what is stored by now.
    waits: AtomicBool,
}

impl Forwarding {
    fn of(&self, def_id: i64) -> Arc<OfOne> {
        Arc::clone(self.0.lock().entry(def_id).or_default())
    }
}

impl RedisStore {
    /// Passes a notice on in parts. The rows of the targets are in another slot: they are read after the notice was claimed and before the script,
    /// so those whose creation had returned when it was added are there. One that is created later, before the script, gets nothing.
    pub(super) async fn pass_on_part(&self, part: &PassOn) -> Result<PassedOn, StoreError> {
        const DOING: &str = "passing a notice on in parts";
        let mut now: Vec<i64> = self.common(&given::Common::Targets { id: part.def_id }, DOING).await?;
        now.sort_unstable();
        // Later parts go by the list of the first one, whatever the rows are now.
        let targets = (now == part.known).then(|| part.targets.iter().map(|target| Text(*target)).collect());
        let change =
            given::Change::PassOn { member: member(part.id), fence: Text(part.fence), targets, most: part.most };
        let reply: Vec<String> = self.run(&CHANGE, part.def_id, &change, DOING).await?;
        let [targets, done] = reply.as_slice() else {
            return Ok(if reply.is_empty() { PassedOn::Busy } else { PassedOn::Changed });
        };
        // The next look for due notices forwards what fails here. The next part waits for it, so that little is stored twice.
        self.forward(part.def_id).await?;
        let targets = targets.split(' ').filter_map(|target| target.parse().ok()).collect();
        Ok(PassedOn::Part { targets, done: done.parse().unwrap_or_default() })
    }

    /// Forwards what is stored in the slots of definitions, and logs what fails. Returns whether all has arrived soon.
    pub(super) async fn forward_soon(&self, definitions: impl IntoIterator<Item = i64>) -> bool {
        let all =
            definitions.into_iter().filter(|def_id| !self.forwarding.of(*def_id).waits.swap(true, Ordering::AcqRel));
        let all = all.map(|def_id| {
            let store = self.clone();
            tokio::spawn(async move {
                if let Err(error) = store.forward(def_id).await {
                    tracing::warn!(
                        def_id, %error,
                        "cannot forward alarms or notices for targets now; they are stored, and the next look forwards them"
                    );
                }
            })
        });
        tokio::time::timeout(SOON, join_all(all)).await.is_ok()
    }

    /// Forwards what is stored in the slot of a definition.
    async fn forward(&self, def_id: i64) -> Result<(), StoreError> {
        let forwarding = self.forwarding.of(def_id);
        let _one = forwarding.one.lock().await;
        forwarding.waits.store(false, Ordering::Release);
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
