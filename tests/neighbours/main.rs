//! The bad-neighbour suite: one bad definition, row, parameter, receiver, handler, file, lock, database or reader does not disturb the others.
//!
//! A process sends the notices of 20 healthy definitions, at least two of each channel, which are added at a known rate: once without a
//! neighbour, then once with each of `neighbours/`. The process is the program `solid-notify serve`, or an application (`embedding.rs`) where
//! the neighbour is a handler. `judge.rs` compares each run with that of the same program without a neighbour. Every neighbour proves that it
//! was at work.
//!
//! - CI runs each neighbour on one store. The last digit of the commit's hash (`NOTIFY_TURN`) chooses it, so that each store has its turn.
//! - The night (`NOTIFY_NEIGHBOURS=night`) runs all of them on all stores, in five alternating pairs of runs without and with it. Then also
//!   the median of the ratios of the 99th percentiles must be at most 1.5.
//!
//! Not covered: handlers that block all threads of the application's runtime, or end its process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod brokers;
mod healthy;
mod http;
mod judge;
mod neighbours;
mod pairs;
mod plan;
mod served;
mod settings;
mod site;
mod store;
mod window;

use test_support::redis::RedisBackend;
use test_support::{MariaDb, Postgres, Sqlite, TestDb};

macro_rules! on_stores {
    ($($module:ident, $store:ty;)+) => {
        // Each healthy definition sends to one of these.
        mod with_rabbitmq {
            mod with_nats {
                mod with_redis {
                    $(mod $module {
                        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                        async fn bad_neighbours_disturb_no_healthy_definition() {
                            crate::pairs::all::<$store>().await;
                        }
                    })+
                }
            }
        }
    };
}
on_stores! {
    on_postgres, crate::TestDb<crate::Postgres>;
    on_mariadb, crate::TestDb<crate::MariaDb>;
    on_sqlite, crate::TestDb<crate::Sqlite>;
    on_redis, crate::RedisBackend;
}
