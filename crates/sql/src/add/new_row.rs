//! A notice as the statements that insert many of them read it.

use serde::Serialize;
use solid_notify_core::add::NewNotice;

use crate::add::find::DedupeKey;

/// Maximum size of one statement's rows, in bytes; a single notice may exceed it. MySQL accepts at least 16 MiB.
pub(super) const CHUNK_BYTES: usize = 2 << 20;

/// One row of such a statement.
#[derive(Serialize)]
pub(super) struct NewRow<'a> {
    /// Its index in the caller's list.
    #[serde(skip)]
    pub(super) asked: usize,
    /// Its position in the order of the insert.
    pub(super) place: usize,
    pub(super) owner: i64,
    pub(super) param: &'a str,
    pub(super) description: Option<&'a str>,
    pub(super) trace_context: Option<&'a str>,
    pub(super) ordering_key: Option<&'a str>,
    pub(super) dedupe_key: Option<&'a str>,
    /// 1: the dedupe key lasts until the notice has ended. Null: until it is claimed.
    pub(super) until_ended: Option<i64>,
    pub(super) tag: Option<&'a str>,
    pub(super) max_tries: Option<i64>,
    pub(super) expires_at: Option<i64>,
    pub(super) send_at: Option<i64>,
    pub(super) delay: i64,
}

impl<'a> NewRow<'a> {
    pub(super) fn new(asked: usize, owner: i64, notice: &'a NewNotice) -> Self {
        let (send_at, delay) = notice.send_millis();
        Self {
            asked,
            place: asked,
            owner,
            param: notice.param_json(),
            description: notice.description_text(),
            trace_context: notice.trace_context_text(),
            ordering_key: notice.ordering_key_text(),
            dedupe_key: notice.taken_key_text(),
            until_ended: (notice.is_unique_until_ended() && notice.skip_reason().is_none()).then_some(1),
            tag: notice.tag_text(),
            max_tries: notice.own_limits().max_tries,
            expires_at: notice.expires_millis(),
            send_at,
            delay,
        }
    }

    pub(super) fn key(&self) -> Option<DedupeKey<'a>> {
        self.dedupe_key.map(|own_key| DedupeKey { owner: self.owner, own_key })
    }

    /// The ordering key and its definition.
    pub(super) fn order(&self) -> Option<(i64, &'a str)> {
        self.ordering_key.map(|key| (self.owner, key))
    }

    pub(super) fn size(&self) -> usize {
        let texts = [self.description, self.trace_context, self.ordering_key, self.dedupe_key, self.tag];
        200 + self.param.len() + texts.into_iter().flatten().map(str::len).sum::<usize>()
    }
}
