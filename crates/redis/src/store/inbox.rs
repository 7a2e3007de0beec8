//! The idempotency keys that receivers have seen.

use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::notice::duration_millis;
use solid_notify_core::store::Purged;

use super::{AT_ONCE, RedisStore, given};

const MARKING: &str = "marking an idempotency key as seen";

/// Returns the mark of a sender's key at a receiver. None of them contains a zero byte.
pub(crate) fn mark(receiver: &str, sender: &str, key: &str) -> String {
    format!("{receiver}\0{sender}\0{key}")
}

impl RedisStore {
    pub(crate) async fn is_seen(&self, mark: &str) -> Result<bool, StoreError> {
        let seen: i64 = self.common(&given::Common::IsSeen { mark }, "looking for an idempotency key").await?;
        Ok(seen == 1)
    }

    /// Makes the marks that are missing. Returns how many this call made.
    pub(crate) async fn mark_seen(&self, marks: &[String]) -> Result<usize, StoreError> {
        let mut made = 0;
        for marks in marks.chunks(AT_ONCE) {
            let call = format!("{:x}", fastrand::u64(..));
            made += self.common::<usize>(&given::Common::MarkSeen { marks, call: &call }, MARKING).await?;
        }
        Ok(made)
    }

    pub(super) async fn purge_inbox(&self, older_than: Duration, limit: usize) -> Result<Vec<Purged>, StoreError> {
        let purge = given::Common::PurgeInbox { minimum_age: duration_millis(older_than), most: limit };
        let purged: usize = self.common(&purge, "purging").await?;
        Ok(vec![Purged::default(); purged])
    }
}
