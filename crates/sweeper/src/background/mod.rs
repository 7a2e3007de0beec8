//! What a sweeper does beside sending: it extends its leases ([`lease`]), reports that it lives ([`maintenance`]) and which
//! conditions it finds ([`conditions`]), inserts the notices of timetables ([`timetable`]), keeps versions of
//! definitions ([`versions`]), counts notices ([`counts`]), stores the series ([`series`]), purges tables ([`housekeeping`]) and executes bulk acts ([`bulk`]). [`health`] says whether this
//! node sends. [`watch`] sees whether these loops run.

pub(crate) mod bulk;
pub(crate) mod conditions;
pub(crate) mod counts;
pub(crate) mod health;
pub(crate) mod housekeeping;
pub(crate) mod lease;
pub(crate) mod maintenance;
pub(crate) mod series;
pub(crate) mod timetable;
pub(crate) mod versions;
pub(crate) mod watch;
