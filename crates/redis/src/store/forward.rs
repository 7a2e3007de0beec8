//! What an outcome causes in other slots: alarms, and notices for targets. The settle stores it with the outcome, in the slot of the
//! definition, with a number. It is forwarded from there, at least once, and arrives once: the other slot has the number up to
//! which it has arrived.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures_util::future::join_all;
use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{Alarm, Kept, PassOn, PassedOn, Settle, TargetRow, same_targets};

use super::codec::Outgoing;
use super::forwarding::PAUSES;
use super::given::{self, ForTarget, KeyAnswer, Text};
use super::row::definition;
use super::{CHANGE, INSERT, LOOK, RedisStore, codec, member};

/// How far a notice is that is passed on before its outcome is stored.
struct Passing {
    targets: Vec<i64>,
    done: usize,
    kept: Vec<Kept>,
    /// Whether all targets that were reached have said if they kept an earlier notice of its dedupe key. True without one.
    is_answered: bool,
}

impl Passing {
    fn read(targets: &str, done: &str, is_keyed: bool, answers: &str) -> Self {
        let targets: Vec<i64> = targets.split(' ').filter_map(|target| target.parse().ok()).collect();
        let done = done.parse().unwrap_or_default();
        let (mut answered, mut kept) = (0, Vec::new());
        for (target, notice) in answers.split(' ').filter_map(|word| word.split_once('=')) {
            answered += 1;
            let pair = target.parse().ok().zip(notice.parse().ok());
            kept.extend(pair.map(|(target, notice)| Kept { target, notice }));
        }
        Self { targets, done, kept, is_answered: !is_keyed || answered >= done }
    }
}

const PASSING: &str = "passing a notice on in parts";

impl RedisStore {
    /// Returns a definition and its targets. They are in another slot than its notices: they are read after a notice was claimed and before the
    /// script that ends it, so what was edited before the notice was added is there. An edit between this reading and that script comes later
    /// than the end of the notice: a target that is created then does not get it, and a filter does not decide about it.
    pub(super) async fn family(&self, def_id: i64, doing: &'static str) -> Result<Vec<TargetRow>, StoreError> {
        let family = given::Common::Targets { id: def_id };
        type Row = (i64, HashMap<Vec<u8>, Vec<u8>>);
        let rows: Vec<Row> = self.common(&family, doing).await?;
        let row = |(id, fields): Row| definition(id, &fields).as_ref().map(TargetRow::new);
        Ok(rows.into_iter().filter_map(row).collect())
    }

    /// Passes a notice on in parts.
    pub(super) async fn pass_on_part(&self, part: &PassOn) -> Result<PassedOn, StoreError> {
        let now = self.family(part.def_id, PASSING).await?;
        // Later parts go by the list of the first one, whatever the rows are now.
        let targets = same_targets(&part.known, part.def_id, &now).then_some(part.targets.as_slice());
        let mut passing = match self.make_part(part, targets, part.most).await? {
            Ok(passing) => passing,
            Err(reason) => return Ok(reason),
        };
        // The next look for due notices forwards what fails here. The next part waits for it, so that little is stored twice.
        if let Err(error) = self.forward(part.def_id).await {
            log_failure(part.def_id, &error);
        }
        if !passing.is_answered && passing.done == passing.targets.len() {
            passing = match self.make_part(part, targets, 0).await? {
                Ok(passing) if passing.is_answered => passing,
                Ok(_) => return Ok(PassedOn::Busy),
                Err(reason) => return Ok(reason),
            };
        }
        let Passing { targets, done, kept, .. } = passing;
        Ok(PassedOn::Part { targets, done, kept })
    }

    /// Passes a notice on to `most` targets of the stored list, or of this one where none is stored. An error says why nothing was changed.
    async fn make_part(
        &self,
        part: &PassOn,
        targets: Option<&[i64]>,
        most: usize,
    ) -> Result<Result<Passing, PassedOn>, StoreError> {
        let targets = targets.map(|targets| targets.iter().copied().map(Text).collect());
        let owed = part.owed.iter().map(|target| (target.to_string(), true)).collect();
        let (member, fence) = (member(part.id), Text(part.fence));
        let change = given::Change::PassOn { member, fence, targets, owed, most };
        let reply: Vec<String> = self.run(&CHANGE, part.def_id, &change, PASSING).await?;
        Ok(match reply.as_slice() {
            [targets, done, is_keyed, answers] => Ok(Passing::read(targets, done, !is_keyed.is_empty(), answers)),
            [] => Err(PassedOn::Busy),
            _ => Err(PassedOn::Changed),
        })
    }

    /// Passes notices of one definition on that have dedupe keys. Returns for each which targets kept an earlier notice; `None` where that is not
    /// known yet, or its claim was lost.
    pub(super) async fn pass_on_keyed(
        &self,
        def_id: i64,
        settles: &[&Settle],
    ) -> Result<Vec<Option<Vec<Kept>>>, StoreError> {
        let part = |settle: &Settle| {
            let targets: Vec<i64> = settle.pass_to.iter().map(|target| target.id).collect();
            let (id, fence, most) = (settle.id, settle.fence, targets.len());
            PassOn { id, def_id, fence, targets, known: Vec::new(), owed: Vec::new(), most }
        };
        let parts: Vec<PassOn> = settles.iter().map(|settle| part(settle)).collect();
        for part in &parts {
            _ = self.make_part(part, Some(&part.targets), part.most).await?;
        }
        self.forward_soon([def_id]).await;
        let mut all = Vec::new();
        for part in &parts {
            let passing = self.make_part(part, Some(&part.targets), 0).await?.ok();
            let is_complete = |passing: &Passing| passing.is_answered && passing.done == passing.targets.len();
            all.push(passing.filter(is_complete).map(|passing| passing.kept));
        }
        Ok(all)
    }

    /// Forwards what is stored in the slots of definitions, and logs what fails. What takes more than one step goes on after this call, which is
    /// also for other definitions. Returns whether something was on its way.
    pub(super) async fn forward_soon(&self, definitions: impl IntoIterator<Item = i64>) -> bool {
        let all = join_all(definitions.into_iter().map(|def_id| self.forward_one_soon(def_id))).await;
        all.into_iter().any(|is_on_its_way| is_on_its_way)
    }

    async fn forward_one_soon(&self, def_id: i64) -> bool {
        let forwarding = self.forwarding.of(def_id);
        let mut takes_long = forwarding.takes_long.subscribe();
        let is_long = *takes_long.borrow();
        if is_long && forwarding.waits.swap(true, Ordering::AcqRel) {
            return true;
        }
        let store = self.clone();
        let forwarded = tokio::spawn(async move {
            store.forward(def_id).await.unwrap_or_else(|error| {
                log_failure(def_id, &error);
                false
            })
        });
        if is_long {
            return true;
        }
        tokio::select! {
            biased;
            moved = forwarded => moved.unwrap_or(false),
            _ = takes_long.wait_for(|long| *long) => true,
        }
    }

    /// Forwards what is stored in the slot of a definition. A target that cannot be written to holds up no other one. Returns whether something has
    /// arrived.
    async fn forward(&self, def_id: i64) -> Result<bool, StoreError> {
        let forwarding = self.forwarding.of(def_id);
        let mut refused = forwarding.refused.lock().await;
        forwarding.waits.store(false, Ordering::Release);
        let long = forwarding.begin();
        let (mut moved, mut problem) = (false, None);
        loop {
            let now = Instant::now();
            let resting = refused.iter().filter(|(_, pause)| pause.0 > now);
            let without = resting.map(|(target, _)| (target.as_str(), true)).collect();
            let stored: Vec<(String, Vec<String>)> =
                self.run(&LOOK, def_id, &given::Look::Outgoing { without }, "looking for what to forward").await?;
            if stored.is_empty() {
                return problem.map_or(Ok(moved), Err);
            }
            if moved {
                long.goes_on();
            }
            let (mut lists, mut answers) = (Vec::new(), Vec::new());
            for (target, texts) in stored {
                match self.send_on(def_id, &target, &texts).await {
                    Ok((arrived, of_keys)) => {
                        if refused.remove(&target).is_some() && refused.is_empty() {
                            *forwarding.problem.lock() = None;
                        }
                        answers.extend(of_keys);
                        lists.push(given::Arrived { target, arrived });
                    }
                    Err(error) if error.kind == FaultKind::Outage => return Err(error),
                    Err(error) => {
                        let pause = refused.get(&target).map_or(PAUSES.0, |(_, pause)| (2 * *pause).min(PAUSES.1));
                        refused.insert(target, (Instant::now() + pause, pause));
                        *forwarding.problem.lock() = Some(error.to_string());
                        problem = Some(error);
                    }
                }
            }
            if !lists.is_empty() {
                moved = true;
                let arrived = given::Change::Forwarded { lists, answers };
                let _: i64 = self.run(&CHANGE, def_id, &arrived, "forwarding alarms and notices").await?;
            }
        }
    }

    /// Sends alarms, or notices for a target, to their slot. Returns the number of the last one, and what the target answered about dedupe
    /// keys. What cannot be read is skipped.
    async fn send_on(&self, def_id: i64, target: &str, texts: &[String]) -> Result<(i64, Vec<KeyAnswer>), StoreError> {
        let (mut alarms, mut notices, mut last) = (Vec::<(i64, Alarm)>::new(), Vec::<ForTarget>::new(), 0);
        for (number, outgoing) in texts.iter().map(|text| codec::outgoing(text)) {
            last = last.max(number);
            match outgoing {
                Some(Outgoing::Alarm(alarm)) => alarms.push((number, alarm)),
                Some(Outgoing::Notice(_, notice)) => notices.push(notice),
                None => {}
            }
        }
        let mut answers = Vec::new();
        if let Some(id) = target.parse().ok().filter(|_| !notices.is_empty()) {
            let passed_on = given::PassedOn { source: Text(def_id), notices };
            let kept: Vec<String> = self.run(&INSERT, id, &passed_on, "passing notices on to a target").await?;
            answers =
                passed_on.notices.iter().zip(&kept).filter_map(|(notice, kept)| notice.answer(target, kept)).collect();
        }
        self.raise_all(&alarms, def_id).await?;
        Ok((last, answers))
    }
}

fn log_failure(def_id: i64, error: &StoreError) {
    tracing::warn!(
        def_id, %error,
        "cannot forward alarms or notices for a target now; they are stored, and a later look forwards them"
    );
}
