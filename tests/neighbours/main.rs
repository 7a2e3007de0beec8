//! The bad-neighbour suite: one bad definition, row, parameter, receiver, file, lock or reader does not disturb the others.
//!
//! The program `solid-notify serve` sends the notices of 20 healthy definitions, at least two of each channel, which are added at a known
//! rate: once without a neighbour, then once with each of `neighbours/`. `judge.rs` compares each run with the one without a neighbour.
//! Every neighbour proves that it was at work.
//!
//! - CI runs most neighbours on one database, and those that hold locks on each database with row locks.
//! - The night (`NOTIFY_NEIGHBOURS=night`) runs all of them on all databases, in five alternating pairs of runs without and with it. Then also
//!   the median of the ratios of the 99th percentiles must be at most 1.5.
//!
//! Not covered: a handler that panics, crashes or blocks, and a batch with a poison notice, because `serve` has no handlers of users; the tests of the sweeper have these (`sweeping/`). The
//! store on Redis.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod brokers;
mod healthy;
mod http;
mod judge;
mod neighbours;
mod pairs;
mod served;
mod site;
mod window;

macro_rules! on_databases {
    ($($module:ident, $database:ident;)+) => {
        // Each healthy definition sends to one of these.
        mod with_rabbitmq {
            mod with_nats {
                mod with_redis {
                    $(mod $module {
                        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                        async fn bad_neighbours_disturb_no_healthy_definition() {
                            crate::pairs::all::<test_support::$database>().await;
                        }
                    })+
                }
            }
        }
    };
}
on_databases! {
    on_postgres, Postgres;
    on_mariadb, MariaDb;
    on_sqlite, Sqlite;
}
