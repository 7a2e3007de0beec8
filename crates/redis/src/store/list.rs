//! Lists and counts of notices. A queue slice is a sorted set, and so are the notices of a tag in it. What no set has (keys of ended
//! notices, a text) is looked for in the notices of the set, some at a time, so that no script runs for long.

use chrono::{DateTime, Utc};
use solid_notify_core::StoreError;
use solid_notify_core::notice::{NEVER, Status, duration_millis, time_from_millis};
use solid_notify_core::store::{Listed, Only, Position, QueueSlice};

use super::given::{self, After, Text};
use super::row::{Words, number, number_if_there, own_limits, score, word};
use super::{LOOK, RedisStore, def_of, keys, member};

/// How many notices a script reads at most while it looks for some of them.
const READ: usize = 1000;
const LISTING: &str = "listing notices";

impl RedisStore {
    pub(super) async fn list_of(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<Listed>, StoreError> {
        if let Some(ids) = &slice.only.ids {
            let mut picked = self.picked(slice, ids).await?;
            picked.truncate(limit);
            return Ok(picked);
        }
        let (low, high) = bounds(slice);
        let (from, to) = if slice.newest_first { (high, low) } else { (low, high) };
        let mut after = slice.after.as_ref().map(|position| {
            let time = position.time().trim_start_matches('0').replace("infinity", "inf");
            let after_score = if time.is_empty() { "0".to_owned() } else { time };
            After { after_score, after_member: member(position.id()) }
        });
        let (set, latest_first) = (set_of(slice), slice.newest_first);
        let mut listed_ones: Vec<Listed> = Vec::new();
        loop {
            let from = after.as_ref().map_or_else(|| from.clone(), |after| after.after_score.clone());
            let most = limit - listed_ones.len();
            if is_whole(slice) {
                let list = given::Look::List { set, from, to, latest_first, most, after };
                let found: Vec<Words> = self.run(&LOOK, slice.def_id, &list, LISTING).await?;
                return Ok(found.iter().map(|words| listed(slice.def_id, words)).collect());
            }
            let only = conditions(slice);
            let search = given::Search { set: &set, from, to: &to, latest_first, most, read: READ, only, after };
            let (found, stopped): (Vec<Words>, Vec<String>) =
                self.run(&LOOK, slice.def_id, &given::Look::Search(search), LISTING).await?;
            listed_ones.extend(found.iter().map(|words| listed(slice.def_id, words)));
            let [after_score, after_member] = <[String; 2]>::try_from(stopped).unwrap_or_default();
            if listed_ones.len() >= limit || after_member.is_empty() {
                return Ok(listed_ones);
            }
            after = Some(After { after_score, after_member });
        }
    }

    pub(super) async fn count_of(&self, slice: &QueueSlice, most: usize) -> Result<usize, StoreError> {
        if is_whole(slice) {
            let (from, to) = bounds(slice);
            let look = given::Look::Count { set: set_of(slice), from, to };
            let count: usize = self.run(&LOOK, slice.def_id, &look, "counting notices").await?;
            return Ok(count.min(most));
        }
        Ok(self.list_of(slice, most).await?.len())
    }

    /// Returns the notices of a queue slice that have one of these ids, in the order of the slice.
    async fn picked(&self, slice: &QueueSlice, ids: &[i64]) -> Result<Vec<Listed>, StoreError> {
        let members: Vec<String> = ids.iter().filter(|id| def_of(**id) == slice.def_id).map(|id| member(*id)).collect();
        if members.is_empty() {
            return Ok(Vec::new());
        }
        let pick = given::Pick { members, status: slice.status.into(), only: conditions(slice) };
        let found: Vec<Words> = self.run(&LOOK, slice.def_id, &given::Look::Pick(pick), LISTING).await?;
        let is_in = |listed: &Listed| {
            let after = slice.after.as_ref().is_none_or(|after| match slice.newest_first {
                true => listed.position < *after,
                false => listed.position > *after,
            });
            let (from, until) = (slice.from, slice.until);
            after && from.is_none_or(|from| listed.time >= from) && until.is_none_or(|until| listed.time <= until)
        };
        let mut picked: Vec<Listed> = found.iter().map(|words| listed(slice.def_id, words)).filter(is_in).collect();
        picked.sort_by(|a, b| a.position.cmp(&b.position));
        if slice.newest_first {
            picked.reverse();
        }
        Ok(picked)
    }
}

/// True if a queue slice is all notices of its sorted set between two scores.
fn is_whole(slice: &QueueSlice) -> bool {
    let tag = slice.only.tag.clone();
    slice.only == Only { tag, ..Only::default() }
        && (slice.only.tag.is_none() || (slice.class.is_none() && slice.group.is_none()))
}

/// The sorted set of a queue slice.
fn set_of(slice: &QueueSlice) -> String {
    match (&slice.only.tag, slice.group, &slice.class) {
        (Some(tag), ..) => keys::tagged(slice.status, tag),
        (None, Some(group), _) => keys::error_group(group),
        (None, None, Some(class)) if slice.status == Status::DeadLetter => keys::dead_letters(class),
        _ => keys::status(slice.status),
    }
}

/// The conditions that each notice of the set is compared with.
fn conditions(slice: &QueueSlice) -> given::Only<'_> {
    let only = &slice.only;
    given::Only {
        tag: only.tag.as_deref(),
        ordering_key: only.ordering_key.as_deref(),
        dedupe_key: only.dedupe_key.as_deref(),
        class: slice.class.as_deref(),
        group: slice.group.map(Text),
        text: only.text.as_ref().map(|search| search.text.as_str()),
        in_param: only.text.as_ref().is_some_and(|search| search.in_param),
    }
}

/// The first and the last score. Times are stored to the millisecond.
pub(super) fn bounds(slice: &QueueSlice) -> (String, String) {
    let since = |time: DateTime<Utc>| (time - DateTime::UNIX_EPOCH).to_std().unwrap_or_default();
    let low = slice.from.map_or_else(|| "-inf".to_owned(), |from| duration_millis(since(from)).to_string());
    let high = slice.until.map_or_else(|| "+inf".to_owned(), |until| since(until).as_millis().to_string());
    (low, high)
}

fn listed(def_id: i64, words: &Words) -> Listed {
    let cut = |text: Option<String>, limit: usize| text.map(|text| text.chars().take(limit).collect::<String>());
    let at = word(words, 15).and_then(|text| score(&text));
    let id = number(words, 14);
    let position = Position::new(at.map_or_else(|| "infinity".to_owned(), |at| format!("{at:016}")), id);
    let status = Status::from_code(number(words, 0)).unwrap_or(Status::NotSent);
    let time = time_from_millis(at.unwrap_or(NEVER));
    let mut listed = Listed::new(id, def_id, status, time_from_millis(number(words, 6)), time, position);
    (listed.fence, listed.failures, listed.crashes) = (number(words, 1), number(words, 2), number(words, 3));
    listed.last_class = word(words, 4);
    listed.description = cut(word(words, 5), 200);
    listed.last_call_time = word(words, 7).map(|_| time_from_millis(number(words, 7)));
    listed.end_reason = cut(word(words, 8), 500);
    (listed.ordering_key, listed.dedupe_key, listed.tag) = (word(words, 9), word(words, 10), word(words, 11));
    listed.own = own_limits(number_if_there(words, 12), number_if_there(words, 13));
    listed.with_progress()
}
