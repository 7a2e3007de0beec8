//! The bad neighbours. `list.rs` names them. `rows.rs` has those that are definitions and parameters, `peers.rs` those that are receivers and
//! clients, `locks.rs` those that hold locks, `stores.rs` those that are stores, and `handlers.rs` those that are code of an application.

mod handlers;
mod list;
mod locks;
mod peers;
mod rows;
mod stores;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use test_support::proxy::Proxy;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

pub use self::list::{ALL, Neighbour};
use crate::served::{Served, Start};
use crate::settings::{BATCHES, BLOCKS, HANGS, PANICS};
use crate::site::Site;
use crate::store::Store;

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
    /// Creates its definitions before the process starts.
    pub async fn prepare<S: Store>(self, site: &Site<S>, start: &mut Start, at: &mut AtWork) {
        match self {
            Self::SecretFiles => rows::secret_files(site).await,
            Self::SilentNames => peers::silent_names(site, start).await,
            Self::LockedRows => locks::rows(site).await,
            Self::LockedAcks => locks::acks(site).await,
            Self::LockedReplies => locks::replies(site).await,
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
            Self::StuckDatabase => stores::another(site, start, at).await,
            Self::DamagedKeys => stores::damaged(site).await,
            Self::BlockingHandler => handlers::handled_by(site, BLOCKS).await,
            Self::HangingHandler => handlers::handled_by(site, HANGS).await,
            Self::PanickingHandler => handlers::handled_by(site, PANICS).await,
            Self::PoisonedBatch => handlers::handled_by(site, BATCHES).await,
            Self::HangingTasks => {}
        }
    }

    /// Puts it to work, for at least this time.
    pub async fn begin<S: Store>(self, site: &Site<S>, served: &Served, time: Duration, at: &mut AtWork) {
        match self {
            Self::SecretFiles => rows::feed(site, at, &["bad_pipe", "bad_zero"]).await,
            Self::SilentNames => peers::use_silent_names(site, at).await,
            Self::LockedRows => locks::hold_rows(site, at).await,
            Self::LockedAcks => locks::hold_acks(site, served, at).await,
            Self::LockedReplies => locks::hold_replies(site, at).await,
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
            Self::StuckDatabase => stores::cut_off(site, at).await,
            Self::DamagedKeys => stores::damage(site).await,
            Self::BlockingHandler => handlers::block(site, at).await,
            Self::HangingHandler => peers::hang(site, at).await,
            Self::PanickingHandler => rows::retry_at_once(site, at, 20).await,
            Self::PoisonedBatch => handlers::poison(site, time, at).await,
            Self::HangingTasks => handlers::add_tasks(site, time).await,
        }
    }

    /// Checks that it was at work.
    pub async fn prove<S: Store>(self, site: &Site<S>, at: &AtWork) {
        for (part, count) in &at.seen {
            assert!(count.load(Ordering::Relaxed) > 0, "{part} were not at work");
        }
        match self {
            Self::SecretFiles => rows::all_wait(site, at, true).await,
            Self::SilentNames => rows::all_time_out(site, at).await,
            Self::LockedRows => locks::rows_were_held(site, at).await,
            Self::LockedAcks => rows::all_wait(site, at, false).await,
            Self::LockedReplies => rows::all_wait(site, at, false).await,
            Self::HeldDedupeKey => rows::all_wait(site, at, false).await,
            Self::CostlyTemplate | Self::OversizedMessages => rows::all_are_dead(site, at, "invalid").await,
            Self::CostlyFilter => rows::targets_wait(site, at).await,
            Self::IdleConnections => peers::some_are_closed(at),
            Self::HangingReceiver | Self::HangingTogether | Self::HangingHandler => rows::all_time_out(site, at).await,
            Self::Undecryptable => rows::all_are_held_back(site, at).await,
            Self::BulkAct => rows::all_are_cancelled(site, at).await,
            Self::EndlessReplies => {}
            Self::ManyTargets => rows::all_are_passed_on(site, at).await,
            Self::UnreadLog
            | Self::RetriesAtOnce
            | Self::StalledServers
            | Self::RefusedServers
            | Self::PanickingHandler => {
                rows::all_wait(site, at, true).await;
            }
            Self::GoneCustomer => rows::all_are_dead(site, at, "not_found").await,
            Self::BrokenRows => rows::all_wait(site, at, false).await,
            Self::StuckOrder => rows::all_stick(site, at).await,
            Self::StuckDatabase => stores::was_cut_off(site, at),
            Self::DamagedKeys => stores::was_damaged(site),
            Self::BlockingHandler => handlers::one_blocks(site, at).await,
            Self::PoisonedBatch => handlers::one_is_poison(site, at).await,
            Self::HangingTasks => handlers::tasks_hang(site).await,
        }
    }
}
