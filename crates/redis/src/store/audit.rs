//! Reading the audit: a stream for each definition, and one for what belongs to none. They are read in parts, from the latest entry
//! on, and merged by their ids.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use solid_notify_core::StoreError;
use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{AuditEntry, AuditQuery, Position};

use super::given::{self, Entries};
use super::row::score;
use super::{LOOK, RedisStore, codec, keys};

/// How many entries are read at once.
const LINES: usize = 100;
/// Stands for a definition where the stream belongs to none.
const COMMON: i64 = 0;

/// A stream, and what was read of it.
struct Stream {
    def_id: i64,
    /// The id of the last entry that is not read yet.
    last: String,
    ahead: VecDeque<(Position, AuditEntry)>,
    ended: bool,
}

/// The script's reply: how many entries were read, the id of the last one, and the found ones: id, time and entry.
type Part = (usize, String, Vec<(String, String, String)>);

impl RedisStore {
    pub(super) async fn read_audit(
        &self,
        query: &AuditQuery,
        limit: usize,
    ) -> Result<Vec<(Position, AuditEntry)>, StoreError> {
        let def_ids = match (query.notice_id, query.def_id) {
            (Some(id), _) => vec![keys::def_of(id)],
            (None, Some(def_id)) => vec![COMMON, def_id],
            (None, None) => {
                let (_, rows) = self.rows().await?;
                std::iter::once(COMMON).chain(rows.iter().map(|seen| seen.id)).collect()
            }
        };
        let stream = |def_id: i64| {
            let last = last_id(query, def_id);
            Stream { def_id, last, ahead: VecDeque::new(), ended: false }
        };
        let mut streams: Vec<Stream> = def_ids.into_iter().map(stream).collect();
        let mut found = Vec::new();
        while found.len() < limit {
            loop {
                let unread = streams.iter_mut().filter(|stream| stream.ahead.is_empty() && !stream.ended);
                let parts: Vec<_> = unread.map(|stream| self.read_part(query, stream, limit.min(LINES))).collect();
                if parts.is_empty() {
                    break;
                }
                try_join_all(parts).await?;
            }
            let heads = streams.iter_mut().filter(|stream| !stream.ahead.is_empty());
            let latest = heads.max_by_key(|stream| stream.ahead.front().map(|(position, _)| position.clone()));
            match latest.and_then(|stream| stream.ahead.pop_front()) {
                Some(next) => found.push(next),
                None => break,
            }
        }
        Ok(found)
    }

    /// Reads the next part of a stream; nothing of it may be selected.
    async fn read_part(&self, query: &AuditQuery, stream: &mut Stream, most: usize) -> Result<(), StoreError> {
        const DOING: &str = "reading the audit";
        let first = query.from.map_or_else(|| "-".to_owned(), |from| millis(from).to_string());
        // The digits are in the entries of the notice, and perhaps in others.
        let word = query.notice_id.map(|id| id.to_string());
        // What a notice's entries are searched in is read in larger parts, because few are returned.
        let most = if word.is_some() { 10 * LINES } else { most };
        let entries = Entries { last: stream.last.clone(), first, most, word };
        let (read, read_to, lines): Part = match stream.def_id {
            COMMON => self.common(&given::Common::Audit(entries), DOING).await?,
            def_id => self.run(&LOOK, def_id, &given::Look::Audit(entries), DOING).await?,
        };
        stream.ended = read < most;
        stream.last = format!("({read_to}");
        let found = lines.iter().filter_map(|(id, time, text)| {
            let entry = codec::audit(time_from_millis(score(time)?), text)?;
            Some((position(id, stream.def_id)?, entry)).filter(|(_, entry)| query.selects(entry))
        });
        stream.ahead.extend(found);
        Ok(())
    }
}

/// Returns the id of the last entry that a query selects in a stream: `(` before it leaves out the id itself.
fn last_id(query: &AuditQuery, def_id: i64) -> String {
    let until = query.until.map(millis);
    let after = query.after.as_ref().and_then(|after| {
        let (ms, order) = after.time().split_once('-')?;
        Some((ms.parse::<i64>().ok()?, order.parse::<i64>().ok()?, after.id()))
    });
    match (until, after) {
        (until, Some((ms, order, of))) if until.is_none_or(|until| ms <= until) => {
            // Entries of the same id are in the order of their streams.
            let before = if def_id < of { "" } else { "(" };
            format!("{before}{ms}-{order}")
        }
        (Some(until), _) => until.to_string(),
        (None, _) => "+".to_owned(),
    }
}

/// Returns the position of an entry: its id as a text that sorts, and its stream.
fn position(id: &str, def_id: i64) -> Option<Position> {
    let (ms, order) = id.split_once('-')?;
    let (ms, order): (u64, u64) = (ms.parse().ok()?, order.parse().ok()?);
    Some(Position::new(format!("{ms:016}-{order:020}"), def_id))
}

/// Streams have no negative times.
fn millis(time: DateTime<Utc>) -> i64 {
    time.timestamp_millis().max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_after_its_position_in_every_stream() {
        let at = |after, until: Option<i64>| AuditQuery {
            after,
            until: until.map(time_from_millis),
            ..AuditQuery::default()
        };
        let after = position("1763721727123-456", 3);
        assert_eq!(after.clone().map(|after| after.to_string().parse().unwrap()), after);
        let ids = [2, 3, 4].map(|def_id| last_id(&at(after.clone(), None), def_id));
        assert_eq!(ids, ["1763721727123-456", "(1763721727123-456", "(1763721727123-456"]);
        assert_eq!(last_id(&at(after.clone(), Some(1_763_721_727_122)), 2), "1763721727122");
        assert_eq!(last_id(&at(after, Some(1_763_721_727_124)), 2), "1763721727123-456");
        assert_eq!((last_id(&at(None, Some(5)), 2), last_id(&at(None, None), 2)), ("5".to_owned(), "+".to_owned()));
    }
}
