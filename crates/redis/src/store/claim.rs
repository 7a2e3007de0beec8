//! Claims: one script where no limit applies to a definition; else a look, a decision, and a claim of exactly what the look
//! found.

use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::limit::{Quota, QuotaStop, allowance, begin};
use solid_notify_core::notice::Status;
use solid_notify_core::store::{Claim, ClaimWhat, Claims};

use super::row::{Words, claimed};
use super::{AGAIN, CLAIM, RedisStore, codec, keys, member, millis, pause};

const DOING: &str = "claiming notices";

impl RedisStore {
    pub(super) async fn claim_some(&self, claim: &Claim) -> Result<Claims, StoreError> {
        let (what, members) = match &claim.what {
            ClaimWhat::Slice(Status::NotSent) => (keys::FIRST_SENDS, Vec::new()),
            ClaimWhat::Slice(Status::Failed) => (keys::RETRIES, Vec::new()),
            ClaimWhat::Slice(_) => return Ok(Claims::default()),
            ClaimWhat::CrashLooping => (keys::CRASH_LOOPING, Vec::new()),
            ClaimWhat::Ids(ids) => ("ids", ids.iter().map(|id| member(*id)).collect()),
            ClaimWhat::Keys(keys) => ("keys", keys.clone()),
        };
        match &claim.quota {
            Some(quota) => self.claim_within(claim, quota, what, &members).await,
            None => {
                let (_, _, _, _, found, aside) =
                    self.ask(claim, what, claim.limit, ["free", "", "", ""], &members).await?;
                report(claim.def_id, &aside);
                let mut notices: Vec<_> = found.iter().map(|words| claimed(claim.def_id, words)).collect();
                notices.sort_unstable_by_key(|notice| notice.id);
                Ok(notices.into())
            }
        }
    }

    async fn claim_within(
        &self,
        claim: &Claim,
        quota: &Quota,
        what: &str,
        members: &[String],
    ) -> Result<Claims, StoreError> {
        for round in 0..AGAIN {
            pause(round).await;
            let (_, now, limits, sending, found, aside) = self.peek(claim, what, members).await?;
            report(claim.def_id, &aside);
            let now = now.parse().unwrap_or_default();
            let row = codec::limit_row(&limits).unwrap_or_default();
            let most = match allowance(&row, quota, now, sending, claim.lease) {
                Ok(most) => most.min(claim.limit),
                Err(hold) => return Ok(Claims { notices: Vec::new(), stopped_by: Some(hold) }),
            };
            let mut taken: Vec<String> = found.into_iter().take(most).collect();
            if taken.is_empty() {
                return Ok(Claims::default());
            }
            taken.sort_unstable();
            let ids: Vec<i64> = taken.iter().filter_map(|member| member.parse().ok()).collect();
            let new = begin(&row, quota, now, &ids, claim.lease);
            let words = ["take", &limits, &codec::limit_text(&new), &sending.to_string()];
            let (answer, _, _, sending, found, _) = self.ask(claim, "any", taken.len(), words, &taken).await?;
            if answer == "claimed" {
                let notices = found.iter().map(|words| claimed(claim.def_id, words)).collect();
                let stopped_by = allowance(&new, quota, now, sending, claim.lease).err();
                return Ok(Claims { notices, stopped_by });
            }
        }
        Ok(Claims { notices: Vec::new(), stopped_by: Some(QuotaStop::Busy { after: Duration::from_millis(20) }) })
    }

    /// Returns which notices could be claimed, and the limits.
    async fn peek(&self, claim: &Claim, what: &str, members: &[String]) -> Result<ClaimReply<String>, StoreError> {
        let args = arguments(claim, what, claim.limit, ["look", "", "", ""], members);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.run(&CLAIM, claim.def_id, &args, DOING).await
    }

    async fn ask(
        &self,
        claim: &Claim,
        what: &str,
        most: usize,
        words: [&str; 4],
        members: &[String],
    ) -> Result<ClaimReply<Words>, StoreError> {
        let args = arguments(claim, what, most, words, members);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let answer: redis::Value = self.run(&CLAIM, claim.def_id, &args, DOING).await?;
        if let redis::Value::Array(parts) = &answer
            && parts.len() == 1
        {
            return Ok(("conflict".to_owned(), String::new(), String::new(), 0, Vec::new(), Vec::new()));
        }
        redis::from_redis_value(answer).map_err(|error| super::unreadable(DOING, &error))
    }
}

/// The script's reply: result, time, limits, number of notices being sent, the notices, and the ids that it put aside.
type ClaimReply<T> = (String, String, String, usize, Vec<T>, Vec<String>);

fn arguments(claim: &Claim, what: &str, most: usize, words: [&str; 4], members: &[String]) -> Vec<String> {
    let mut args = vec![what.to_owned(), most.to_string(), millis(claim.lease), claim.worker.clone()];
    args.extend(words.map(str::to_owned));
    args.extend_from_slice(members);
    args
}

fn report(def_id: i64, aside: &[String]) {
    for member in aside {
        tracing::error!(def_id, member, "put aside a score without an entry");
    }
}
