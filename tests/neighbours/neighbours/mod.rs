//! The bad neighbours. `rows.rs` has those that are definitions and parameters, `peers.rs` those that are receivers and clients, `locks.rs` those
//! that hold locks.

mod locks;
mod peers;
mod rows;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use test_support::proxy::Proxy;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::judge::{AFTER_GRACE, AFTER_GRACE_LOCKED};
use crate::served::{Served, Start};
use crate::site::{Site, Store};

/// A neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// Secrets in a file that is a pipe, and in one without an end.
    SecretFiles,
    /// Host names whose name servers do not answer.
    SilentNames,
    /// A lock on a definition whose receiver answers 410, and locks on due notices of another one.
    LockedRows,
    /// Locks on notices whose receivers repeat their acks.
    LockedAcks,
    /// A dedupe key of a target, in an open transaction.
    HeldDedupeKey,
    /// A template that never ends.
    CostlyTemplate,
    /// A filter with more steps than an evaluation may take, a pattern of the parameter, and a costly mask where a receiver fails.
    CostlyFilter,
    /// A log with each step, whose reader sleeps.
    UnreadLog,
    /// 1,000 idle, half-open and slow connections to `serve`.
    IdleConnections,
    /// A receiver that answers nothing until the time-out, with more notices than the process has slots.
    HangingReceiver,
    /// A mail server with a line that never ends; receivers with such headers and bodies, and one that sends a byte now and then.
    EndlessReplies,
    /// Notices with 200 targets with filters, and large parameters.
    ManyTargets,
    /// Headers that are too large for RabbitMQ, and subjects that are too long for NATS.
    OversizedMessages,
    /// 2,000 retries that are always due.
    RetriesAtOnce,
    /// A mail server and brokers that stop while connections to them are open.
    StalledServers,
    /// Receivers, a mail server and brokers that refuse connections.
    RefusedServers,
    /// A customer whose receiver answers 410, of a definition with many customers.
    GoneCustomer,
    /// Rows with columns that cannot be read, and with an unknown handler.
    BrokenRows,
    /// 500 notices of one ordering key, the first of which fails again and again.
    StuckOrder,
    /// Several definitions and targets whose receivers answer nothing until the time-out.
    HangingTogether,
    /// 500 parameters that this process cannot decrypt.
    Undecryptable,
    /// A bulk act that cancels 3,000 notices.
    BulkAct,
}

/// All of them. CI runs most of those without locks on one database: SQLite, PostgreSQL and MariaDB alternate in this order. Those that keep the processor
/// busy are on PostgreSQL and MariaDB, because on SQLite the producers also wait for its only writer.
pub const ALL: [Neighbour; 22] = [
    Neighbour::SecretFiles,
    Neighbour::SilentNames,
    Neighbour::CostlyTemplate,
    Neighbour::UnreadLog,
    Neighbour::IdleConnections,
    Neighbour::HangingReceiver,
    Neighbour::OversizedMessages,
    Neighbour::ManyTargets,
    Neighbour::EndlessReplies,
    Neighbour::StalledServers,
    Neighbour::RetriesAtOnce,
    Neighbour::RefusedServers,
    Neighbour::GoneCustomer,
    Neighbour::BrokenRows,
    Neighbour::StuckOrder,
    Neighbour::LockedRows,
    Neighbour::CostlyFilter,
    Neighbour::LockedAcks,
    Neighbour::HeldDedupeKey,
    Neighbour::HangingTogether,
    Neighbour::Undecryptable,
    Neighbour::BulkAct,
];

/// What a neighbour needs for as long as it is at work. All of it ends when this is dropped.
#[derive(Default)]
pub struct AtWork {
    /// Its notices.
    ids: Vec<i64>,
    /// Transactions and servers.
    held: Vec<Box<dyn Any>>,
    /// Open connections to `serve`.
    clients: Vec<TcpStream>,
    proxies: Vec<Proxy>,
    tasks: JoinSet<()>,
    /// How often each of its parts was seen at work.
    seen: Vec<(&'static str, Arc<AtomicUsize>)>,
}

impl AtWork {
    /// Returns a counter of a part that must be seen at work.
    fn counter(&mut self, part: &'static str) -> Arc<AtomicUsize> {
        let counter = Arc::<AtomicUsize>::default();
        self.seen.push((part, Arc::clone(&counter)));
        counter
    }
}

impl Neighbour {
    /// The name in lines and in `NOTIFY_NEIGHBOUR`, which selects those with this part of a name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SecretFiles => "secret_files",
            Self::SilentNames => "silent_names",
            Self::LockedRows => "locked_rows",
            Self::LockedAcks => "locked_acks",
            Self::HeldDedupeKey => "held_dedupe_key",
            Self::CostlyTemplate => "costly_template",
            Self::CostlyFilter => "costly_filter",
            Self::UnreadLog => "unread_log",
            Self::IdleConnections => "idle_connections",
            Self::HangingReceiver => "hanging_receiver",
            Self::EndlessReplies => "endless_replies",
            Self::ManyTargets => "many_targets",
            Self::OversizedMessages => "oversized_messages",
            Self::RetriesAtOnce => "retries_at_once",
            Self::StalledServers => "stalled_servers",
            Self::RefusedServers => "refused_servers",
            Self::GoneCustomer => "gone_customer",
            Self::BrokenRows => "broken_rows",
            Self::StuckOrder => "stuck_order",
            Self::HangingTogether => "hanging_together",
            Self::Undecryptable => "undecryptable",
            Self::BulkAct => "bulk_act",
        }
    }

    fn needs_row_locks(self) -> bool {
        matches!(self, Self::LockedRows | Self::LockedAcks | Self::HeldDedupeKey)
    }

    /// How long the end of the process may take after the grace.
    pub fn after_grace(self) -> Duration {
        if self == Self::HeldDedupeKey { AFTER_GRACE_LOCKED } else { AFTER_GRACE }
    }

    /// Whether it exists on this database.
    pub fn is_possible<D: Store>(self) -> bool {
        D::HAS_ROW_LOCKS || !self.needs_row_locks()
    }

    /// Whether CI runs it on this database. Some are for the night alone, because CI has no time for more.
    pub fn is_in_ci<D: Store>(self) -> bool {
        if matches!(self, Self::HangingTogether | Self::Undecryptable | Self::BulkAct) {
            return false;
        }
        let place = ALL.iter().position(|other| *other == self).expect("it is one of them");
        self.needs_row_locks() || ["SQLite", "PostgreSQL", "MariaDB"][place % 3] == D::NAME
    }

    /// Creates its definitions before the process starts.
    pub async fn prepare<D: Store>(self, site: &Site<D>, start: &mut Start, at: &mut AtWork) {
        match self {
            Self::SecretFiles => rows::secret_files(site).await,
            Self::SilentNames => peers::silent_names(site, start).await,
            Self::LockedRows => locks::rows(site).await,
            Self::LockedAcks => locks::acks(site).await,
            Self::HeldDedupeKey => rows::targets(site, 1).await,
            Self::CostlyTemplate => rows::costly_template(site).await,
            Self::CostlyFilter => rows::costly_filter(site).await,
            Self::UnreadLog => {
                start.log_is_unread = true;
                peers::busy(site).await;
            }
            Self::IdleConnections => {}
            Self::HangingReceiver => peers::hanging(site).await,
            Self::EndlessReplies => peers::endless(site, at).await,
            Self::ManyTargets => rows::targets(site, rows::TARGETS).await,
            Self::OversizedMessages => peers::oversized(site).await,
            Self::RetriesAtOnce | Self::StuckOrder | Self::Undecryptable => peers::busy(site).await,
            Self::HangingTogether => rows::hanging_together(site).await,
            Self::BulkAct => rows::without_handler(site).await,
            Self::StalledServers => peers::stalled(site, at).await,
            Self::RefusedServers => peers::refused(site).await,
            Self::GoneCustomer => {}
            Self::BrokenRows => rows::broken(site).await,
        }
    }

    /// Puts it to work, for at least this time.
    pub async fn begin<D: Store>(self, site: &Site<D>, served: &Served, time: Duration, at: &mut AtWork) {
        match self {
            Self::SecretFiles => rows::feed(site, at, &["bad_pipe", "bad_zero"]).await,
            Self::SilentNames => peers::use_silent_names(site, at).await,
            Self::LockedRows => locks::hold_rows(site, at).await,
            Self::LockedAcks => locks::hold_acks(site, served, at).await,
            Self::HeldDedupeKey => locks::hold_dedupe_keys(site, at).await,
            Self::CostlyTemplate => rows::use_costly_template(site, time, at).await,
            Self::CostlyFilter => rows::use_costly_filter(site, time, at).await,
            Self::UnreadLog => {
                rows::retry_at_once(site, at, 500).await;
                peers::lines_are_lost(served).await;
            }
            Self::IdleConnections => peers::connect(served, at).await,
            Self::HangingReceiver => peers::hang(site, at).await,
            Self::EndlessReplies => peers::use_endless(site, time, at).await,
            Self::ManyTargets => rows::pass_on(site, at).await,
            Self::OversizedMessages => peers::use_oversized(site, time, at).await,
            Self::RetriesAtOnce => rows::retry_at_once(site, at, 2000).await,
            Self::StalledServers => peers::stall(site, at).await,
            Self::RefusedServers => rows::feed(site, at, &peers::REFUSED).await,
            Self::GoneCustomer => rows::use_gone_customer(site, time, at).await,
            Self::BrokenRows => rows::feed(site, at, &rows::BROKEN).await,
            Self::StuckOrder => rows::stick(site, at).await,
            Self::HangingTogether => rows::hang_together(site, at).await,
            Self::Undecryptable => rows::undecryptable(site, at).await,
            Self::BulkAct => rows::cancel_many(site, at).await,
        }
    }

    /// Checks that it was at work.
    pub async fn prove<D: Store>(self, site: &Site<D>, at: &AtWork) {
        for (part, count) in &at.seen {
            assert!(count.load(Ordering::Relaxed) > 0, "{part} were not at work");
        }
        match self {
            Self::SecretFiles => rows::all_wait(site, at, true).await,
            Self::SilentNames => rows::all_time_out(site, at).await,
            Self::LockedRows => locks::rows_were_held(site, at).await,
            Self::LockedAcks => rows::all_wait(site, at, false).await,
            Self::HeldDedupeKey => rows::all_wait(site, at, false).await,
            Self::CostlyTemplate | Self::OversizedMessages => rows::all_are_dead(site, at, "invalid").await,
            Self::CostlyFilter => rows::targets_wait(site, at).await,
            Self::IdleConnections => peers::some_are_closed(at),
            Self::HangingReceiver | Self::HangingTogether => rows::all_time_out(site, at).await,
            Self::Undecryptable => rows::all_are_held_back(site, at).await,
            Self::BulkAct => rows::all_are_cancelled(site, at).await,
            Self::EndlessReplies => {}
            Self::ManyTargets => rows::all_are_passed_on(site, at).await,
            Self::UnreadLog | Self::RetriesAtOnce | Self::StalledServers | Self::RefusedServers => {
                rows::all_wait(site, at, true).await;
            }
            Self::GoneCustomer => rows::all_are_dead(site, at, "not_found").await,
            Self::BrokenRows => rows::all_wait(site, at, false).await,
            Self::StuckOrder => rows::all_stick(site, at).await,
        }
    }
}
