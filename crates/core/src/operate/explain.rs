//! [`Why`]: why a notice is not sent yet, or how it ended. A pure function of the stored data.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::explain_context::{ExplainContext, Explained};
use crate::definition::{NotifyDef, Policy, Problem, names_its_column};
use crate::limit::{QuotaStop, allowance};
use crate::notice::rfc3339;
use crate::notice::{NoticeRecord, OwnLimits, Response, Status, millis_from_time};
use crate::store::{PauseScope, Paused};

/// Why a notice is not sent yet, or how it ended. If there are several reasons, it is the one to fix first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Why {
    /// There is no such notice: it never existed, its transaction was rolled back, or it was purged.
    NotFound,
    /// It has ended.
    Ended {
        /// The final status.
        status: Status,
        /// When.
        at: Option<DateTime<Utc>>,
        /// Why.
        reason: Option<String>,
        /// What the receiver answered to the last attempt, if the handler reported it.
        response: Option<Response>,
    },
    /// The row of its definition is missing, because it was deleted by SQL.
    DefinitionMissing {
        /// The id that the row had.
        def_id: i64,
    },
    /// The row of its definition has invalid values.
    InvalidDefinition {
        /// The definition.
        definition: String,
        /// The invalid columns.
        problems: Vec<Problem>,
    },
    /// Everything is paused by the switch.
    AllPaused(Paused),
    /// Its first attempt is over, and the switch pauses all retries.
    RetriesPaused(Paused),
    /// Its definition is paused.
    Paused {
        /// The definition.
        definition: String,
    },
    /// It is due, but the send window of its definition is closed.
    OutsideWindow {
        /// The definition.
        definition: String,
        /// When the window opens; `None`: not within three weeks.
        until: Option<DateTime<Utc>>,
    },
    /// It is not due yet, and was not attempted yet.
    NotDueUntil {
        /// When it is due.
        at: DateTime<Utc>,
        /// Its own limits. One that is expired when it is due becomes a dead letter then.
        own: OwnLimits,
        /// Why notices of the definition wait at a node: it refuses `handler_config`, cannot decrypt them or judge the filter for them, or may
        /// not send to the host that their row names. The text names the latest.
        problem: Option<String>,
    },
    /// It failed, and is retried later.
    RetryAt {
        /// When.
        at: DateTime<Utc>,
        /// The class of the last error.
        last_class: Option<String>,
        /// The message of the last error.
        last_error: Option<String>,
        /// What the receiver answered to the last attempt, if the handler reported it.
        response: Option<Response>,
        /// How many tries it has used.
        tries: i64,
        /// Its own limits. One that is expired when it is due becomes a dead letter then.
        own: OwnLimits,
        /// As of [`Self::NotDueUntil`].
        problem: Option<String>,
    },
    /// It is due, and has expired: the next sweep makes it a dead letter.
    Expired {
        /// Since when.
        since: DateTime<Utc>,
    },
    /// It waits, but has no try left, because a limit was lowered. It becomes a dead letter when it is due.
    OutOfTries {
        /// How many tries it has used.
        tries: i64,
        /// When it is due.
        at: DateTime<Utc>,
    },
    /// It is due, but no node is alive.
    NoNode {
        /// Since when it is due.
        since: DateTime<Utc>,
    },
    /// It is due, but no living node has the handler.
    NoHandler {
        /// The handler's name.
        handler: String,
        /// The number of living nodes.
        nodes: usize,
    },
    /// It is due, but the handler of every living node that has it refuses the definition's `handler_config`, or every such node cannot
    /// decrypt its parameter: then the problem begins with `encrypt_param`.
    ConfigRefused {
        /// The handler's name.
        handler: String,
        /// What is wrong, where, and what would be right.
        problem: String,
    },
    /// It is due, but blocked by another notice of its ordering key.
    Behind {
        /// That notice.
        id: i64,
    },
    /// It is due, but the circuit of its definition is open after failures in a row.
    CircuitOpen {
        /// The number of failures.
        failures: i64,
        /// When a probe may be sent. The end of a running probe may close the circuit earlier.
        until: DateTime<Utc>,
    },
    /// It is due, but the definition's `rate_limit` over all nodes is used up.
    RateUsedUp {
        /// The rate, as the definition has it.
        rate: String,
        /// When the next attempt may begin.
        next: DateTime<Utc>,
    },
    /// It is due, but the definition's `max_concurrency_total` is used up.
    AllSending {
        /// The number of notices being sent.
        total: usize,
    },
    /// It is due. The next sweep with a free slot for its definition claims it.
    Due {
        /// Since when.
        since: DateTime<Utc>,
        /// The number of living nodes with its handler.
        nodes: usize,
    },
    /// A worker is sending it.
    BeingSent {
        /// The worker.
        worker: String,
        /// When its lease ends unless it is extended.
        until: DateTime<Utc>,
    },
    /// The worker that was sending it died: its lease expired without an outcome. A living node sends it again.
    LeaseExpired {
        /// The worker.
        worker: String,
        /// When the lease ended.
        since: DateTime<Utc>,
        /// The number of living nodes.
        nodes: usize,
    },
    /// It was delivered and waits for its ack.
    AwaitingAck {
        /// The deadline; `None`: there is none.
        until: Option<DateTime<Utc>>,
    },
}

impl Why {
    /// Returns why `notice` is not sent yet.
    pub fn of(notice: &NoticeRecord, around: &ExplainContext) -> Self {
        let now = around.now;
        let next = notice.next_call_time.unwrap_or(now);
        let worker = || notice.worker.clone().unwrap_or_default();
        match notice.status {
            status if status.is_final() => {
                let (reason, response) = (notice.end_reason.clone(), last_response(notice));
                Self::Ended { status, at: notice.finish_time, reason, response }
            }
            Status::AwaitingAck => Self::AwaitingAck { until: notice.next_call_time },
            Status::Sending if next > now => Self::BeingSent { worker: worker(), until: next },
            Status::Sending => Self::LeaseExpired { worker: worker(), since: next, nodes: around.nodes.len() },
            _ => Self::waits(notice, around, next),
        }
    }

    fn waits(notice: &NoticeRecord, around: &ExplainContext, next: DateTime<Utc>) -> Self {
        let Some(Explained { followed, has_targets }) = &around.definition else {
            return Self::DefinitionMissing { def_id: notice.def_id };
        };
        let row = &followed.row;
        let policy = match followed.policy() {
            Ok(policy) => policy,
            Err(problems) => return Self::InvalidDefinition { definition: row.name.clone(), problems },
        };
        match &around.send_limits.paused {
            Some(paused) if paused.scope == PauseScope::Everything => return Self::AllPaused(paused.clone()),
            Some(paused) if notice.status == Status::Failed => return Self::RetriesPaused(paused.clone()),
            _ => {}
        }
        if !row.enabled {
            return Self::Paused { definition: row.name.clone() };
        }
        let tries = notice.failures.saturating_add(notice.crashes);
        if policy.within(&notice.own).is_exhausted_in_all(tries) && !notice.own.is_expired(next) {
            return Self::OutOfTries { tries, at: next };
        }
        if next > around.now {
            let problem = around.nodes.iter().find_map(|node| node.refuses(row.id)).map(str::to_owned);
            return match notice.status {
                Status::Failed => Self::RetryAt {
                    at: next,
                    last_class: notice.last_class.clone(),
                    last_error: notice.errors.last().map(|last| last.message.clone()),
                    response: last_response(notice),
                    tries,
                    own: notice.own,
                    problem,
                },
                _ => Self::NotDueUntil { at: next, own: notice.own, problem },
            };
        }
        if let (true, nodes @ 1..) = (*has_targets, around.nodes.len()) {
            return around.ahead.map_or(Self::Due { since: next, nodes }, |id| Self::Behind { id });
        }
        if let Some(window) = policy.window.as_ref().filter(|window| !window.is_open(around.now)) {
            return Self::OutsideWindow { definition: row.name.clone(), until: window.opens(around.now) };
        }
        let alive = &around.nodes;
        let having = alive.iter().filter(|node| node.handlers.iter().any(|name| name == row.handler_name()));
        let (refused, able): (Vec<_>, Vec<_>) = having.partition(|node| node.refuses(row.id).is_some());
        if let (Some(problem), []) = (refused.first().and_then(|node| node.refuses(row.id)), &able[..]) {
            return Self::ConfigRefused { handler: row.handler_name().to_owned(), problem: problem.to_owned() };
        }
        match (alive.len(), able.len(), around.ahead) {
            (0, _, _) => Self::NoNode { since: next },
            (nodes, 0, _) => Self::NoHandler { handler: row.handler_name().to_owned(), nodes },
            (_, _, Some(id)) => Self::Behind { id },
            (_, nodes, None) => Self::limited(&policy, row, around).unwrap_or_else(|| match notice.own.expires_at {
                Some(expires_at) if expires_at <= around.now => Self::Expired { since: expires_at },
                _ => Self::Due { since: next, nodes },
            }),
        }
    }

    /// Returns the limit over all nodes that stops it, if one does.
    fn limited(policy: &Policy, row: &NotifyDef, around: &ExplainContext) -> Option<Self> {
        let now = around.now;
        let limit = around.send_limits.limits.get(&row.id).cloned().unwrap_or_default();
        let hold = allowance(&limit, &policy.quota?, millis_from_time(now), around.sending, policy.lease()).err()?;
        Some(match hold {
            QuotaStop::Circuit { after } => Self::CircuitOpen { failures: limit.failures, until: now + after },
            QuotaStop::Rate { after } => {
                Self::RateUsedUp { rate: row.rate_limit.clone().unwrap_or_default(), next: now + after }
            }
            QuotaStop::Total => Self::AllSending { total: around.sending },
            QuotaStop::Busy { .. } => return None,
        })
    }
}

/// Returns what the receiver answered to the last attempt.
fn last_response(notice: &NoticeRecord) -> Option<Response> {
    notice.response.as_ref().filter(|last| last.fence == notice.fence).map(|last| last.response.clone())
}

fn answered(f: &mut fmt::Formatter<'_>, response: Option<&Response>) -> fmt::Result {
    response.map_or(Ok(()), |response| write!(f, "; its receiver answered {response}"))
}

fn reported(f: &mut fmt::Formatter<'_>, problem: Option<&str>) -> fmt::Result {
    problem.map_or(Ok(()), |problem| write!(f, "; a node reports: {problem}"))
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lives = |nodes: usize| match nodes {
            0 => "no node is alive".to_owned(),
            1 => "1 node is alive".to_owned(),
            more => format!("{more} nodes are alive"),
        };
        match self {
            Self::NotFound => f.write_str("there is no such notice: never added, rolled back, or purged"),
            Self::Ended { status, at, reason, response } => {
                f.write_str(match status {
                    Status::Succeeded => "delivered",
                    Status::DeadLetter => "finally failed",
                    _ => "cancelled",
                })?;
                if let Some(at) = at {
                    write!(f, " at {}", rfc3339(*at))?;
                }
                reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))?;
                answered(f, response.as_ref())
            }
            Self::DefinitionMissing { def_id } => {
                write!(f, "the row {def_id} of notify_def, its definition, is gone; insert it again with this id")
            }
            Self::InvalidDefinition { definition, problems } => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                write!(f, "the definition {definition} is invalid: {}", problems.join("; "))
            }
            Self::AllPaused(paused) | Self::RetriesPaused(paused) => write!(f, "{paused}"),
            Self::Paused { definition } => write!(f, "the definition {definition} is paused (enabled = false)"),
            Self::OutsideWindow { definition, until } => {
                write!(f, "it is due, but the definition {definition} is outside of its window")?;
                until.map_or(Ok(()), |until| write!(f, " until {}", rfc3339(until)))
            }
            Self::NotDueUntil { at, own, problem } => {
                write!(f, "it is not due until {}", rfc3339(*at))?;
                expiry(f, own, *at)?;
                reported(f, problem.as_deref())
            }
            Self::RetryAt { at, last_class, last_error, response, tries, own, problem } => {
                let class = last_class.as_deref().unwrap_or("unknown");
                write!(f, "it failed ({class}) and is retried at {}", rfc3339(*at))?;
                if let Some(most) = own.max_tries {
                    write!(f, "; it has used {tries} of its own {most} tries")?;
                }
                expiry(f, own, *at)?;
                last_error.as_ref().map_or(Ok(()), |error| write!(f, "; the last error: {error}"))?;
                answered(f, response.as_ref())?;
                reported(f, problem.as_deref())
            }
            Self::Expired { since } => {
                write!(f, "it is due, but expired at {}: the next sweep makes it a dead letter", rfc3339(*since))
            }
            Self::OutOfTries { tries, at } => {
                write!(f, "all {tries} tries are used: it becomes a dead letter when it is due at {}", rfc3339(*at))
            }
            Self::NoNode { since } => {
                write!(f, "it is due since {}, but no sweeper is running: start one", rfc3339(*since))
            }
            Self::NoHandler { handler, nodes } => {
                write!(f, "it is due, but no living node has the handler {handler:?} ({})", lives(*nodes))
            }
            Self::ConfigRefused { problem, .. } if names_its_column(problem) => {
                write!(f, "it is due, but no node can send it: {problem}")
            }
            Self::ConfigRefused { handler, problem } => {
                write!(f, "it is due, but the handler {handler:?} refuses the definition's handler_config: {problem}")
            }
            Self::Behind { id } => write!(f, "the notice {id} of the same ordering key goes first"),
            Self::CircuitOpen { failures, until } => {
                write!(
                    f,
                    "the circuit is open after {failures} failures in a row; a probe is sent from {} on",
                    rfc3339(*until)
                )
            }
            Self::RateUsedUp { rate, next } => {
                write!(f, "the rate {rate} over all nodes is used up; the next one may be sent at {}", rfc3339(*next))
            }
            Self::AllSending { total } => {
                write!(f, "{total} of {total} are being sent over all nodes (max_concurrency_total)")
            }
            Self::Due { since, nodes } => write!(
                f,
                "it is due since {} and is sent when one of {nodes} nodes with its handler has a free slot",
                rfc3339(*since)
            ),
            Self::BeingSent { worker, until } => {
                write!(f, "{worker} is sending it; its lease ends at {}", rfc3339(*until))
            }
            Self::LeaseExpired { worker, since, nodes } => write!(
                f,
                "{worker} was sending it and died: its lease ended at {}; it is sent again ({})",
                rfc3339(*since),
                lives(*nodes)
            ),
            Self::AwaitingAck { until: Some(until) } => {
                write!(f, "it was delivered and is awaiting its ack until {}", rfc3339(*until))
            }
            Self::AwaitingAck { until: None } => {
                f.write_str("it was delivered and is awaiting its ack, without a deadline")
            }
        }
    }
}

/// Writes when a notice that is due at `at` expires, if it does.
fn expiry(f: &mut fmt::Formatter<'_>, own: &OwnLimits, at: DateTime<Utc>) -> fmt::Result {
    match own.expires_at {
        None => Ok(()),
        Some(time) if time <= at => {
            write!(f, "; it expires before that, at {}, and becomes a dead letter when it is due", rfc3339(time))
        }
        Some(time) => write!(f, "; it expires at {}", rfc3339(time)),
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
