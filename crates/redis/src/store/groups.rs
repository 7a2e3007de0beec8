//! The groups of the dead letters of a definition: counts all of them, then reads the largest ones. Both go in steps, because messages that vary
//! too much make as many groups as there are dead letters.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use solid_notify_core::StoreError;
use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{QueueSlice, StoredGroup};

use super::given::{self, Text};
use super::list::bounds;
use super::row::{Words, number, score, word};
use super::{LOOK, RedisStore};

/// How many groups a script reads: each may have 40 KiB of errors.
const READ: usize = 50;
const DOING: &str = "grouping dead letters";

impl RedisStore {
    pub(super) async fn groups_of(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<StoredGroup>, StoreError> {
        let (from, to) = &bounds(slice);
        let (mut largest, mut cursor) = (BTreeSet::<(Reverse<u64>, i64)>::new(), "0".to_owned());
        loop {
            let look = given::Look::GroupCounts { from, to, cursor: &cursor };
            let (next, counts): (String, Vec<(String, u64)>) = self.run(&LOOK, slice.def_id, &look, DOING).await?;
            largest.extend(counts.iter().filter_map(|(group, count)| Some((Reverse(*count), group.parse().ok()?))));
            while largest.len() > limit {
                largest.pop_last();
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
        // A scan may return a group twice, and its count may have changed in between.
        let mut seen = BTreeSet::new();
        let groups: Vec<Text<i64>> =
            largest.into_iter().filter(|(_, group)| seen.insert(*group)).map(|(_, group)| Text(group)).collect();
        let mut stored = Vec::with_capacity(groups.len());
        for groups in groups.chunks(READ) {
            let look = given::Look::Groups { from, to, groups };
            let found: Vec<Words> = self.run(&LOOK, slice.def_id, &look, DOING).await?;
            stored.extend(found.iter().filter_map(group));
        }
        stored.sort_by_key(|group| (Reverse(group.count), group.group));
        Ok(stored)
    }
}

fn group(words: &Words) -> Option<StoredGroup> {
    let time = |at| word(words, at).and_then(|text| score(&text)).map(time_from_millis);
    Some(StoredGroup {
        group: word(words, 0)?.parse().ok()?,
        count: u64::try_from(number(words, 1)).unwrap_or(0),
        first: time(2)?,
        last: time(3)?,
        example: number(words, 4),
        class: word(words, 5),
        errors: word(words, 6),
        end_reason: word(words, 7),
    })
}
