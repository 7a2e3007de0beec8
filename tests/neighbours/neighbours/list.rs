//! The list of the neighbours: where each is possible, and on which store CI runs it.

use std::time::Duration;

use crate::judge::{AFTER_GRACE, AFTER_GRACE_STUCK};
use crate::served::Program;
use crate::store::Kind;

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
    /// Locks on notices whose receivers reply through a broker, in the queue of healthy replies.
    LockedReplies,
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
    /// Notices with 100 targets with filters, and large parameters.
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
    /// Another database of the process, which stops answering.
    StuckDatabase,
    /// Keys of definitions with another type, in Redis.
    DamagedKeys,
    /// A handler of the application that blocks a thread of the runtime.
    BlockingHandler,
    /// A handler of the application that never ends, with more notices than the process has slots.
    HangingHandler,
    /// A handler of the application that panics.
    PanickingHandler,
    /// A batch handler of the application that panics for one notice.
    PoisonedBatch,
    /// Timed tasks of the application that never end.
    HangingTasks,
}

/// All of them, each with its name in lines and in `NOTIFY_NEIGHBOUR`. In CI the stores take turns in this order.
pub const ALL: [(Neighbour, &str); 30] = [
    (Neighbour::SecretFiles, "secret_files"),
    (Neighbour::SilentNames, "silent_names"),
    (Neighbour::StalledServers, "stalled_servers"),
    (Neighbour::RefusedServers, "refused_servers"),
    (Neighbour::OversizedMessages, "oversized_messages"),
    (Neighbour::BrokenRows, "broken_rows"),
    (Neighbour::GoneCustomer, "gone_customer"),
    (Neighbour::StuckOrder, "stuck_order"),
    (Neighbour::UnreadLog, "unread_log"),
    (Neighbour::IdleConnections, "idle_connections"),
    (Neighbour::Undecryptable, "undecryptable"),
    (Neighbour::StuckDatabase, "stuck_database"),
    (Neighbour::LockedRows, "locked_rows"),
    (Neighbour::LockedAcks, "locked_acks"),
    (Neighbour::LockedReplies, "locked_replies"),
    (Neighbour::HeldDedupeKey, "held_dedupe_key"),
    (Neighbour::DamagedKeys, "damaged_keys"),
    (Neighbour::CostlyTemplate, "costly_template"),
    (Neighbour::CostlyFilter, "costly_filter"),
    (Neighbour::ManyTargets, "many_targets"),
    (Neighbour::EndlessReplies, "endless_replies"),
    (Neighbour::RetriesAtOnce, "retries_at_once"),
    (Neighbour::BulkAct, "bulk_act"),
    (Neighbour::HangingReceiver, "hanging_receiver"),
    (Neighbour::HangingTogether, "hanging_together"),
    (Neighbour::BlockingHandler, "blocking_handler"),
    (Neighbour::HangingHandler, "hanging_handler"),
    (Neighbour::PanickingHandler, "panicking_handler"),
    (Neighbour::PoisonedBatch, "poisoned_batch"),
    (Neighbour::HangingTasks, "hanging_tasks"),
];

impl Neighbour {
    pub fn name(self) -> &'static str {
        ALL[self.place()].1
    }

    fn place(self) -> usize {
        ALL.iter().position(|(other, _)| *other == self).expect("it is one of them")
    }

    /// The program that it disturbs.
    pub fn program(self) -> Program {
        match self {
            Self::BlockingHandler
            | Self::HangingHandler
            | Self::PanickingHandler
            | Self::PoisonedBatch
            | Self::HangingTasks => Program::Application,
            _ => Program::Serve,
        }
    }

    /// Whether it exists on this store.
    pub fn is_possible(self, store: Kind) -> bool {
        match self {
            Self::LockedRows | Self::LockedAcks | Self::LockedReplies | Self::HeldDedupeKey => store.has_row_locks(),
            Self::DamagedKeys => store == Kind::Redis,
            _ => true,
        }
    }

    /// Whether it keeps a processor busy, or the store.
    fn is_busy(self) -> bool {
        matches!(
            self,
            Self::CostlyTemplate
                | Self::CostlyFilter
                | Self::ManyTargets
                | Self::EndlessReplies
                | Self::RetriesAtOnce
                | Self::BulkAct
                | Self::HangingReceiver
                | Self::HangingTogether
                | Self::HangingHandler
        )
    }

    /// Whether CI leaves it to the night, because it has no time for more.
    fn is_for_the_night(self) -> bool {
        // Replies to locked notices of MariaDB were not sent to their end within minutes in a run on quiet processors; the cause is not known yet.
        matches!(self, Self::HangingTogether | Self::Undecryptable | Self::BulkAct | Self::LockedReplies)
    }

    /// The store on which CI runs it in this turn. In CI all stores share two processors, and on SQLite the producers also wait for its only
    /// writer, so the busy ones are on SQLite only at night.
    pub fn store_of_turn(self, turn: usize) -> Option<Kind> {
        let is_in_ci = |store: &Kind| self.is_possible(*store) && !(self.is_busy() && *store == Kind::Sqlite);
        let mut stores: Vec<Kind> = Kind::ALL.into_iter().filter(is_in_ci).collect();
        if stores.len() == Kind::ALL.len() {
            // Of these SQLite has more, because of the others it has none.
            stores.push(Kind::Sqlite);
        }
        (!self.is_for_the_night()).then(|| stores[(self.place() + turn) % stores.len()])
    }

    /// How long the end of the process may take after the grace.
    pub fn after_grace(self) -> Duration {
        match self {
            Self::HeldDedupeKey | Self::StuckDatabase | Self::DamagedKeys | Self::BlockingHandler => AFTER_GRACE_STUCK,
            _ => AFTER_GRACE,
        }
    }
}

mod tests {
    use super::*;

    /// The last digit of a commit's hash.
    const TURNS: std::ops::Range<usize> = 0..16;

    #[test]
    fn each_store_has_its_turn_with_each_neighbour() {
        for (neighbour, name) in ALL {
            for store in Kind::ALL {
                let has_turn = TURNS.into_iter().any(|turn| neighbour.store_of_turn(turn) == Some(store));
                let is_at_night = neighbour.is_for_the_night() || (neighbour.is_busy() && store == Kind::Sqlite);
                assert_eq!(has_turn, neighbour.is_possible(store) && !is_at_night, "{name} on {}", store.name());
            }
        }
    }

    #[test]
    fn turn_has_nine_neighbours_on_a_store_at_most() {
        for turn in TURNS {
            for store in Kind::ALL {
                let count = ALL.iter().filter(|(neighbour, _)| neighbour.store_of_turn(turn) == Some(store)).count();
                assert!((4..=9).contains(&count), "{} has {count} in turn {turn}", store.name());
            }
        }
    }
}
