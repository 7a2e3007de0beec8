//! [`AuditQuery`]: the look for entries of the audit.

use chrono::{DateTime, Utc};

use super::Position;
use crate::audit::AuditEntry;

/// Which entries of the audit to read, the latest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only about this definition or its notices.
    pub def_id: Option<i64>,
    /// Only about this notice, also in a step of a bulk verb.
    pub notice_id: Option<i64>,
    /// Only by this operator.
    pub who: Option<String>,
    /// Only of this act.
    pub act: Option<String>,
    /// Only from this time on.
    pub from: Option<DateTime<Utc>>,
    /// Only up to this time.
    pub until: Option<DateTime<Utc>>,
    /// Only entries before this position: those after it in the list.
    pub after: Option<Position>,
}

impl AuditQuery {
    /// Returns true if it selects this entry, by everything but the position.
    pub fn selects(&self, entry: &AuditEntry) -> bool {
        let AuditQuery { def_id, notice_id, who, act, from, until, after: _ } = self;
        def_id.is_none_or(|id| entry.def_id == Some(id))
            && notice_id.is_none_or(|id| entry.notice_id == Some(id) || entry.notice_ids.binary_search(&id).is_ok())
            && who.as_ref().is_none_or(|who| entry.who == *who)
            && act.as_ref().is_none_or(|act| entry.act == *act)
            && from.is_none_or(|from| entry.time >= from)
            && until.is_none_or(|until| entry.time <= until)
    }
}
