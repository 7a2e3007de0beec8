//! [`Explanation`]: why a notice is not sent yet, or how it ended. A pure function of what the store shows.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::verb::rfc3339;
use super::{Brakes, Nodes, Paused};
use crate::definition::{NotifyDef, Policy, Problem};
use crate::limit::{Hold, allowance};
use crate::notice::{NoticeRecord, Status, millis_from_time};

/// Why a notice is not sent yet, or how it ended. Of several reasons it is the one to see to first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Explanation {
    /// There is no such notice: it never existed, its transaction was rolled back, or it was purged.
    NotFound,
    /// It has ended.
    Ended {
        /// How.
        status: Status,
        /// When.
        at: Option<SystemTime>,
        /// Why.
        reason: Option<String>,
    },
    /// The row of its definition is gone: somebody deleted it by SQL.
    DefinitionMissing {
        /// The id that the row had.
        def_id: i64,
    },
    /// The row of its definition has values that cannot work.
    InvalidDefinition {
        /// The definition.
        definition: String,
        /// What is wrong with it.
        problems: Vec<Problem>,
    },
    /// Everything is paused, by the one switch.
    AllPaused(Paused),
    /// Its definition is switched off.
    Paused {
        /// The definition.
        definition: String,
    },
    /// It is due, and its definition's notices may not be sent at this time.
    OutsideWindow {
        /// The definition.
        definition: String,
        /// When they may be; none: not within three weeks.
        until: Option<SystemTime>,
    },
    /// It is not due yet, and was not tried yet.
    NotDueUntil {
        /// When it is due.
        at: SystemTime,
    },
    /// It failed, and is retried later.
    RetryAt {
        /// When.
        at: SystemTime,
        /// The kind of the last error.
        last_class: Option<String>,
    },
    /// It is due, but no node has told lately that it lives.
    NoNode {
        /// Since when it is due.
        since: SystemTime,
    },
    /// It is due, but no living node has the handler.
    NoHandler {
        /// The handler's name.
        handler: String,
        /// How many nodes live.
        nodes: usize,
    },
    /// It is due, but another notice of its ordering key goes first.
    Behind {
        /// That notice.
        id: i64,
    },
    /// It is due, but so many failures in a row have opened the circuit of its definition.
    CircuitOpen {
        /// How many.
        failures: i64,
        /// When a probe may be sent. One that is being sent may end it earlier.
        until: SystemTime,
    },
    /// It is due, but as many attempts have begun, over all nodes, as the definition's `rate_limit` allows.
    RateUsedUp {
        /// The rate, as the definition has it.
        rate: String,
        /// When the next attempt may begin.
        next: SystemTime,
    },
    /// It is due, but as many notices of its definition are being sent, over all nodes, as `max_concurrency_total` allows.
    AllSending {
        /// How many.
        total: usize,
    },
    /// It is due: a sweeper takes it when it looks next, and has a free slot for its definition.
    Due {
        /// Since when.
        since: SystemTime,
        /// How many living nodes have its handler.
        nodes: usize,
    },
    /// A worker is sending it.
    BeingSent {
        /// The worker.
        worker: String,
        /// When its lease ends unless it is extended.
        until: SystemTime,
    },
    /// The worker that was sending it has not been heard of since its lease ended: it died. A living node sends it again.
    LeaseExpired {
        /// The worker.
        worker: String,
        /// When the lease ended.
        since: SystemTime,
        /// How many nodes live.
        nodes: usize,
    },
    /// It was delivered and waits for its confirmation.
    AwaitingConfirmation {
        /// Until when; none: for ever.
        until: Option<SystemTime>,
    },
}

/// What a notice's fate depends on besides itself.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The row of its definition.
    pub definition: Option<NotifyDef>,
    /// The notice of its ordering key that goes before it.
    pub ahead: Option<i64>,
    /// The nodes that live, and the store's time.
    pub nodes: Nodes,
    /// What holds sending back.
    pub brakes: Brakes,
    /// How many of its definition are being sent, over all nodes; counted up to `max_concurrency_total`, and only where there is
    /// one.
    pub sending: usize,
}

impl Surroundings {
    /// A node that was not heard of for so long counts as dead: three times the interval at which it tells.
    pub const ALIVE: Duration = Duration::from_secs(180);
}

/// 9000-01-01 in milliseconds since 1970: a deadline beyond it is none.
const FOR_EVER: i64 = 221_845_392_000_000;

impl Explanation {
    /// Why `notice` is not sent yet.
    pub fn of(notice: &NoticeRecord, around: &Surroundings) -> Self {
        let now = around.nodes.now;
        let next = notice.next_call_time.unwrap_or(now);
        let worker = || notice.worker.clone().unwrap_or_default();
        match notice.status {
            status if status.is_final() => {
                Self::Ended { status, at: notice.finish_time, reason: notice.end_reason.clone() }
            }
            Status::AwaitingConfirm => {
                let for_ever = millis_from_time(next) >= FOR_EVER;
                Self::AwaitingConfirmation { until: (!for_ever).then_some(next) }
            }
            Status::Sending if next > now => Self::BeingSent { worker: worker(), until: next },
            Status::Sending => Self::LeaseExpired { worker: worker(), since: next, nodes: around.nodes.seen.len() },
            _ => Self::waits(notice, around, next),
        }
    }

    fn waits(notice: &NoticeRecord, around: &Surroundings, next: SystemTime) -> Self {
        let Some(row) = &around.definition else { return Self::DefinitionMissing { def_id: notice.def_id } };
        let policy = match row.policy() {
            Ok(policy) => policy,
            Err(problems) => return Self::InvalidDefinition { definition: row.name.clone(), problems },
        };
        if let Some(paused) = &around.brakes.paused {
            return Self::AllPaused(paused.clone());
        }
        if !row.enabled {
            return Self::Paused { definition: row.name.clone() };
        }
        if next > around.nodes.now {
            return match notice.status {
                Status::Failed => Self::RetryAt { at: next, last_class: notice.last_class.clone() },
                _ => Self::NotDueUntil { at: next },
            };
        }
        if let Some(window) = policy.window.as_ref().filter(|window| !window.is_open(around.nodes.now)) {
            return Self::OutsideWindow { definition: row.name.clone(), until: window.opens(around.nodes.now) };
        }
        let alive = &around.nodes.seen;
        let able = alive.iter().filter(|node| node.handlers.iter().any(|name| name == row.handler_name())).count();
        match (alive.len(), able, around.ahead) {
            (0, _, _) => Self::NoNode { since: next },
            (nodes, 0, _) => Self::NoHandler { handler: row.handler_name().to_owned(), nodes },
            (_, _, Some(id)) => Self::Behind { id },
            (_, nodes, None) => Self::held(&policy, row, around).unwrap_or(Self::Due { since: next, nodes }),
        }
    }

    /// What a limit over all nodes holds back.
    fn held(policy: &Policy, row: &NotifyDef, around: &Surroundings) -> Option<Self> {
        let now = around.nodes.now;
        let limit = around.brakes.limits.get(&row.id).cloned().unwrap_or_default();
        let hold = allowance(&limit, &policy.quota?, millis_from_time(now), around.sending, policy.lease()).err()?;
        Some(match hold {
            Hold::Circuit { after } => Self::CircuitOpen { failures: limit.failures, until: now + after },
            Hold::Rate { after } => {
                Self::RateUsedUp { rate: row.rate_limit.clone().unwrap_or_default(), next: now + after }
            }
            Hold::Total => Self::AllSending { total: around.sending },
            Hold::Busy { .. } => return None,
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lives = |nodes: usize| match nodes {
            0 => "no node lives".to_owned(),
            1 => "1 node lives".to_owned(),
            more => format!("{more} nodes live"),
        };
        match self {
            Self::NotFound => f.write_str("there is no such notice: never added, rolled back, or purged"),
            Self::Ended { status, at, reason } => {
                f.write_str(match status {
                    Status::Succeeded => "delivered",
                    Status::DeadLetter => "finally failed",
                    _ => "cancelled",
                })?;
                if let Some(at) = at {
                    write!(f, " at {}", rfc3339(*at))?;
                }
                reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
            }
            Self::DefinitionMissing { def_id } => {
                write!(f, "the row {def_id} of notify_def, its definition, is gone; insert it again with this id")
            }
            Self::InvalidDefinition { definition, problems } => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                write!(f, "the definition {definition} is invalid: {}", problems.join("; "))
            }
            Self::AllPaused(paused) => write!(f, "{paused}"),
            Self::Paused { definition } => write!(f, "the definition {definition} is switched off (enabled = false)"),
            Self::OutsideWindow { definition, until } => {
                write!(f, "it is due, but the definition {definition} is outside of its window")?;
                until.map_or(Ok(()), |until| write!(f, " until {}", rfc3339(until)))
            }
            Self::NotDueUntil { at } => write!(f, "it is not due until {}", rfc3339(*at)),
            Self::RetryAt { at, last_class } => {
                write!(
                    f,
                    "it failed ({}) and is retried at {}",
                    last_class.as_deref().unwrap_or("unknown"),
                    rfc3339(*at)
                )
            }
            Self::NoNode { since } => {
                write!(f, "it is due since {}, but no sweeper lives: start one", rfc3339(*since))
            }
            Self::NoHandler { handler, nodes } => {
                write!(f, "it is due, but nobody has the handler {handler:?} ({})", lives(*nodes))
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
            Self::AwaitingConfirmation { until: Some(until) } => {
                write!(f, "it was delivered and is to be confirmed until {}", rfc3339(*until))
            }
            Self::AwaitingConfirmation { until: None } => {
                f.write_str("it was delivered and waits for its confirmation, however long that takes")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::time_from_millis;
    use std::time::UNIX_EPOCH;

    fn explained(status: Status, definition: Option<NotifyDef>, next: SystemTime) -> Explanation {
        let mut notice = NoticeRecord::new(7, 3, status, "1".to_owned(), UNIX_EPOCH);
        notice.next_call_time = Some(next);
        let nodes = Nodes { now: UNIX_EPOCH, seen: Vec::new() };
        Explanation::of(
            &notice,
            &Surroundings { definition, ahead: Some(1), nodes, brakes: Brakes::default(), sending: 0 },
        )
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_before_anything_else() {
        let missing = explained(Status::Failed, None, UNIX_EPOCH);
        assert_eq!(missing, Explanation::DefinitionMissing { def_id: 3 });
        let wrong = NotifyDef::new("sync").timeout("soon").enabled(false);
        let text = explained(Status::NotSent, Some(wrong), UNIX_EPOCH).to_string();
        assert!(text.contains("sync is invalid: timeout = \"soon\""), "{text}");
    }

    #[test]
    fn a_confirmation_without_a_deadline_is_awaited_for_ever() {
        for end in [253_370_764_800_000, 253_402_214_400_000] {
            let waits = explained(Status::AwaitingConfirm, None, time_from_millis(end));
            assert_eq!(waits, Explanation::AwaitingConfirmation { until: None });
            assert!(waits.to_string().ends_with("however long that takes"));
        }
    }

    #[test]
    fn outside_of_its_window_a_due_notice_waits_for_it_to_open() {
        let definition = NotifyDef::new("sync").send_window("01:00-06:00");
        let waits = explained(Status::Failed, Some(definition), UNIX_EPOCH);
        let text = "it is due, but the definition sync is outside of its window until 1970-01-01T01:00:00.000Z";
        assert_eq!(waits.to_string(), text);
        let open = explained(Status::Failed, Some(NotifyDef::new("sync").send_window("00:00-06:00")), UNIX_EPOCH);
        assert_eq!(open, Explanation::NoNode { since: UNIX_EPOCH });
    }

    #[test]
    fn without_a_node_a_due_notice_waits_for_one() {
        let waits = explained(Status::NotSent, Some(NotifyDef::new("sync")), UNIX_EPOCH);
        assert_eq!(waits, Explanation::NoNode { since: UNIX_EPOCH });
        assert_eq!(waits.to_string(), "it is due since 1970-01-01T00:00:00.000Z, but no sweeper lives: start one");
    }
}
