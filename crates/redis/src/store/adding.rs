//! Adds notices: takes their numbers from the common slot, then inserts each definition's notices in its own slot.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use solid_notify_core::dispatch::FirstAttemptSender;
use solid_notify_core::{NewNotice, StoreError};

use super::{AT_ONCE, INSERT, LOOK, RedisStore, def_of, member, opt};

/// The ids of definitions, and the numbers of new notices.
pub(crate) struct Numbered {
    /// The definition of each name; 0 where it does not exist.
    pub(crate) def_ids: Vec<i64>,
    /// The first of the new numbers.
    pub(crate) first: i64,
    /// The names of all definitions, if one of the names does not exist.
    pub(crate) known: Vec<String>,
}

impl RedisStore {
    pub(crate) async fn number_all(&self, names: &[&str], notices: usize) -> Result<Numbered, StoreError> {
        if notices == 0 {
            return Ok(Numbered { def_ids: Vec::new(), first: 0, known: Vec::new() });
        }
        let notices = notices.to_string();
        let last = self.last_ids(names);
        let mut args = vec!["names", notices.as_str()];
        args.extend(names.iter().zip(&last).flat_map(|(name, id)| [*name, id.as_str()]));
        let (def_ids, first, known, _): (Vec<String>, i64, Vec<String>, String) =
            self.common(&args, "looking for definitions").await?;
        let def_ids: Vec<i64> = def_ids.iter().map(|id| id.parse().unwrap_or_default()).collect();
        let mut last = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, id) in names.iter().zip(&def_ids).filter(|(_, id)| **id > 0) {
            if last.get(*name) != Some(id) {
                last.insert((*name).to_owned(), *id);
            }
        }
        drop(last);
        Ok(Numbered { def_ids, first, known })
    }

    /// Returns the last known ids of the definitions with these names. The script checks them.
    fn last_ids(&self, names: &[&str]) -> Vec<String> {
        let last = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().map(|name| last.get(*name).map(i64::to_string).unwrap_or_default()).collect()
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
        for (def_id, places) in of_definitions {
            for window in places.chunks(AT_ONCE) {
                let mut words = vec![call.clone()];
                for at in window {
                    let (id, notice, _) = &notices[*at];
                    let (way, ms) = match notice.send_millis() {
                        (Some(at), _) => ("at", at),
                        (None, delay) => ("in", delay),
                    };
                    words.extend([
                        member(*id),
                        way.to_owned(),
                        ms.to_string(),
                        notice.param_json().to_owned(),
                        opt(notice.description_text()),
                        opt(notice.trace_context_text()),
                        opt(notice.ordering_key_text()),
                        opt(notice.dedupe_key_text()),
                        opt(notice.is_unique_until_ended().then_some("1")),
                    ]);
                }
                let args: Vec<&str> = words.iter().map(String::as_str).collect();
                let answers: Vec<String> = self.run(&INSERT, def_id, &args, "adding notices").await?;
                for (at, answer) in window.iter().zip(answers) {
                    let id = answer.get(1..).and_then(|member| member.parse().ok()).unwrap_or_default();
                    stored[*at] = (id, answer.starts_with('n'));
                }
            }
        }
        Ok(stored)
    }

    /// Returns the notice that has this dedupe key.
    pub(crate) async fn with_dedupe_key(&self, def_id: i64, key: &str) -> Result<Option<i64>, StoreError> {
        let member: String = self.run(&LOOK, def_id, &["dedupe", key], "looking for a dedupe key").await?;
        Ok(member.parse().ok())
    }
}
