//! Claims: one script where no limit applies to a definition; else a look, a decision, and a claim of exactly what the look
//! found.

use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::limit::{Quota, QuotaStop, allowance, begin};
use solid_notify_core::notice::Status;
use solid_notify_core::store::{Claim, ClaimWhat, Claims};
use solid_notify_redis_connection::Error;

use super::given::{self, ClaimMode, Millis};
use super::row::{Words, claimed};
use super::{AGAIN, CLAIM, RedisStore, codec, keys, member, pause};

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
                let (_, _, _, _, found, aside) = self.ask(claim, what, claim.limit, ClaimMode::Free, &members).await?;
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
            let now: i64 = now.parse().unwrap_or_default();
            let row = codec::limit_row(&limits).unwrap_or_default();
            let most = match allowance(&row, quota, now, sending, claim.lease) {
                Ok(most) => most.min(claim.limit),
                Err(hold) => return Ok(Claims { notices: Vec::new(), stopped_by: Some(hold) }),
            };
            let mut found: Vec<(String, Option<i64>)> = found.into_iter().take(most).collect();
            if found.is_empty() {
                return Ok(Claims::default());
            }
            found.sort_unstable();
            // An expired notice ends without an attempt.
            let attempted = found.iter().filter(|(_, expires_at)| expires_at.is_none_or(|at| at > now));
            let ids: Vec<i64> = attempted.filter_map(|(member, _)| member.parse().ok()).collect();
            let taken: Vec<String> = found.into_iter().map(|(member, _)| member).collect();
            let new = begin(&row, quota, now, &ids, claim.lease);
            let new_limits = codec::limit_text(&new);
            let take = ClaimMode::Take { seen_limits: &limits, new_limits: &new_limits, most_sending: sending };
            let (reply, _, _, sending, found, _) = self.ask(claim, "any", taken.len(), take, &taken).await?;
            if reply == "claimed" {
                let notices = found.iter().map(|words| claimed(claim.def_id, words)).collect();
                let stopped_by = allowance(&new, quota, now, sending, claim.lease).err();
                return Ok(Claims { notices, stopped_by });
            }
        }
        Ok(Claims { notices: Vec::new(), stopped_by: Some(QuotaStop::Busy { after: Duration::from_millis(20) }) })
    }

    /// Returns which notices could be claimed, each with its expiry, and the limits.
    async fn peek(
        &self,
        claim: &Claim,
        what: &str,
        members: &[String],
    ) -> Result<ClaimReply<(String, Option<i64>)>, StoreError> {
        let look = arguments(claim, what, claim.limit, ClaimMode::Look, members);
        self.run(&CLAIM, claim.def_id, &look, DOING).await
    }

    async fn ask(
        &self,
        claim: &Claim,
        what: &str,
        most: usize,
        mode: ClaimMode<'_>,
        members: &[String],
    ) -> Result<ClaimReply<Words>, StoreError> {
        let given = arguments(claim, what, most, mode, members);
        let reply: redis::Value = self.run(&CLAIM, claim.def_id, &given, DOING).await?;
        if let redis::Value::Array(parts) = &reply
            && parts.len() == 1
        {
            return Ok(("conflict".to_owned(), String::new(), String::new(), 0, Vec::new(), Vec::new()));
        }
        redis::from_redis_value(reply).map_err(|_| super::fault(DOING, Error::unreadable(DOING)))
    }
}

/// The script's reply: result, time, limits, number of notices being sent, the notices, and what it put aside: members and reasons.
type ClaimReply<T> = (String, String, String, usize, Vec<T>, Vec<(String, String)>);

fn arguments<'a>(
    claim: &'a Claim,
    what: &'a str,
    most: usize,
    mode: ClaimMode<'a>,
    names: &'a [String],
) -> given::Claim<'a> {
    let (members, keys) = if what == "keys" { (&[][..], names) } else { (names, &[][..]) };
    given::Claim { what, most, lease: Millis(claim.lease), worker: &claim.worker, mode, members, keys }
}

fn report(def_id: i64, aside: &[(String, String)]) {
    for (member, reason) in aside {
        tracing::error!(def_id, member, reason, "put aside a notice that cannot be used");
    }
}
