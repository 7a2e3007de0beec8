//! Adds notices: takes their numbers from the common slot, then inserts each definition's notices in its own slot.

use std::collections::BTreeMap;

use chrono::DateTime;
use solid_notify_core::dispatch::FirstAttemptSender;
use solid_notify_core::store::{AuditEntry, Authority};
use solid_notify_core::test_mark::TEST_TAG;
use solid_notify_core::{NewNotice, StoreError};

use super::given::{self, DueTime, Text};
use super::keys::number_of;
use super::row::is_true;
use super::{AGAIN, AT_ONCE, CHANGE, INSERT, LOOK, RedisStore, busy, codec, def_of, member, notice_id, pause};

/// The ids of definitions, and the numbers of new notices.
pub(crate) struct Numbered {
    /// The definition of each name; 0 where it does not exist.
    pub(crate) def_ids: Vec<i64>,
    /// Whether it stores only encrypted parameters.
    pub(crate) encrypt: Vec<bool>,
    /// The first of the new numbers.
    pub(crate) first: i64,
    /// The names of all definitions, if one of the names does not exist.
    pub(crate) known: Vec<String>,
}

impl RedisStore {
    pub(crate) async fn number_all(&self, names: &[&str], notices: usize) -> Result<Numbered, StoreError> {
        if notices == 0 {
            return Ok(Numbered { def_ids: Vec::new(), encrypt: Vec::new(), first: 0, known: Vec::new() });
        }
        let wanted = given::Common::Names { wanted: notices, names: self.last_ids(names) };
        let (def_ids, first, known, encrypt): (Vec<String>, i64, Vec<String>, Vec<String>) =
            self.common(&wanted, "looking for definitions").await?;
        let def_ids: Vec<i64> = def_ids.iter().map(|id| id.parse().unwrap_or_default()).collect();
        let mut last = self.ids.lock();
        for (name, id) in names.iter().zip(&def_ids).filter(|(_, id)| **id > 0) {
            if last.get(*name) != Some(id) {
                last.insert((*name).to_owned(), *id);
            }
        }
        drop(last);
        let encrypt = encrypt.iter().map(|flag| is_true(flag)).collect();
        Ok(Numbered { def_ids, encrypt, first, known })
    }

    /// Returns the last known ids of the definitions with these names. The script checks them.
    fn last_ids<'a>(&self, names: &[&'a str]) -> Vec<given::Name<'a>> {
        let last = self.ids.lock();
        names.iter().map(|name| given::Name { name, id: last.get(*name).copied().map(Text) }).collect()
    }

    /// Returns for each notice the id of the stored one, and whether this call added it.
    pub(crate) async fn insert_all(
        &self,
        notices: &[(i64, NewNotice, FirstAttemptSender)],
    ) -> Result<Vec<(i64, bool)>, StoreError> {
        let mut of_definitions: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (at, (id, ..)) in notices.iter().enumerate() {
            of_definitions.entry(def_of(*id)).or_default().push(at);
        }
        let call = format!("{:x}", fastrand::u64(..));
        let mut stored = vec![(0, false); notices.len()];
        let mut last_number = 0;
        for (def_id, places) in of_definitions {
            for chunk in places.chunks(AT_ONCE) {
                let new = |at: &usize| {
                    let (id, notice, _) = &notices[*at];
                    let due = match notice.send_millis() {
                        (Some(at), _) => DueTime::At(at),
                        (None, delay) => DueTime::Delay(delay),
                    };
                    given::New {
                        member: member(*id),
                        due,
                        param: notice.param_json(),
                        description: notice.description_text(),
                        trace_context: notice.trace_context_text(),
                        ordering_key: notice.ordering_key_text(),
                        dedupe_key: notice.dedupe_key_text(),
                        dedupe_until_ended: notice.is_unique_until_ended().then_some("1"),
                        tag: notice.tag_text(),
                        max_tries: notice.own_limits().max_tries.map(Text),
                        expires_at: notice.expires_millis().map(Text),
                        skipped: notice.skip_reason(),
                        authority: None,
                    }
                };
                let insert = given::Insert { call: &call, notices: chunk.iter().map(new).collect() };
                let answers: Vec<String> = self.run(&INSERT, def_id, &insert, "adding notices").await?;
                for (at, reply) in chunk.iter().zip(answers) {
                    let id = reply.get(1..).and_then(|member| member.parse().ok()).unwrap_or_default();
                    stored[*at] = (id, reply.starts_with('n'));
                    if reply.starts_with('n') && id > notices[*at].0 {
                        last_number = last_number.max(number_of(id));
                    }
                }
            }
        }
        self.number_after(last_number).await?;
        Ok(stored)
    }

    /// Moves the counter of notices behind a number that an insert found free, because the counter was lost or set back. 0: it found none.
    async fn number_after(&self, number: i64) -> Result<(), StoreError> {
        if number > 0 {
            let numbered = given::Common::Numbered { number };
            let _: i64 = self.common(&numbered, "moving the counter of notices").await?;
            tracing::warn!(number, "the counter of notices was behind: it was lost, or set back by a restore");
        }
        Ok(())
    }

    /// Adds the notice of a bulk act, due at once; returns its id.
    pub(super) async fn add_act(&self, def_id: i64, param: &str, authority: &Authority) -> Result<i64, StoreError> {
        let number = self.common(&given::Common::Numbers { wanted: 1 }, "taking a number for a notice").await?;
        let id = notice_id(number, def_id);
        let call = format!("{:x}", fastrand::u64(..));
        let authority = codec::authority_text(authority);
        let notice = given::New { member: member(id), param, authority: Some(&authority), ..given::New::default() };
        let insert = given::Insert { call: &call, notices: vec![notice] };
        let answers: Vec<String> = self.run(&INSERT, def_id, &insert, "adding a bulk act").await?;
        // Another one where this was taken.
        let stored = answers.first().and_then(|reply| reply.get(1..)?.parse().ok()).unwrap_or(id);
        if stored > id {
            self.number_after(number_of(stored)).await?;
        }
        Ok(stored)
    }

    /// Adds a test, due at once, with its entry in the audit; returns its id.
    pub(super) async fn add_marked(&self, def_id: i64, param: &str, who: &str) -> Result<i64, StoreError> {
        const DOING: &str = "adding a test";
        let call = format!("{:x}", fastrand::u64(..));
        // A number is taken only where the node that counts them lost its last steps in a failover.
        for round in 0..AGAIN {
            pause(round).await;
            let number = self.common(&given::Common::Numbers { wanted: 1 }, "taking a number for a notice").await?;
            let id = notice_id(number, def_id);
            let entry = AuditEntry::of_test(DateTime::UNIX_EPOCH, who, def_id, id);
            let (call, audit) = (call.clone(), codec::audit_text(&entry));
            let test = given::Change::Test { member: member(id), param, tag: TEST_TAG, call, audit };
            let reply: String = self.run(&CHANGE, def_id, &test, DOING).await?;
            if reply == "done" {
                return Ok(id);
            }
        }
        Err(busy(DOING))
    }

    /// Returns the notice that has this dedupe key.
    pub(crate) async fn with_dedupe_key(&self, def_id: i64, key: &str) -> Result<Option<i64>, StoreError> {
        let member: String =
            self.run(&LOOK, def_id, &given::Look::Dedupe { dedupe_key: key }, "looking for a dedupe key").await?;
        Ok(member.parse().ok())
    }
}
