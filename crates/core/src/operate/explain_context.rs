//! [`ExplainContext`]: the data beside a notice by which [`super::Why`] says why it waits.

use chrono::{DateTime, Utc};

use crate::definition::InForce;
use crate::store::{SeenNode, SendLimits};

/// The data beside the notice that decides when it is sent.
#[derive(Debug, Clone)]
pub struct ExplainContext {
    /// The store's time.
    pub now: DateTime<Utc>,
    /// Its definition.
    pub definition: Option<Explained>,
    /// The notice that blocks it by its ordering key.
    pub ahead: Option<i64>,
    /// The living nodes.
    pub nodes: Vec<SeenNode>,
    /// The switch and the limits over all nodes.
    pub send_limits: SendLimits,
    /// The number of notices of its definition being sent, over all nodes. Counted up to `max_concurrency_total`, and only if
    /// that is set.
    pub sending: usize,
}

/// The definition of an explained notice.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The row as sweepers follow it.
    pub followed: InForce,
    /// Whether its notices are passed on to targets. Any node does that, in no window and without limits.
    pub has_targets: bool,
}
