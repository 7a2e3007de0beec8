//! All faults, one after the other, then all at once, on each database. A process that is killed now and then commits
//! notices. Sweepers send them, and three attempts in ten fail.
//!
//! `nodes.rs` runs the processes (`tests/node/`), and `injected/` has the faults. `phases.rs` says when which fault strikes, and
//! that it did. `check.rs` proves from the journal and the tables that nothing was lost, repeated without need, sent
//! for nothing, or sent out of order. A longer run: `NOTIFY_SOAK=30m cargo xtask test -- --test processes -- faults::`.

mod bench;
mod check;
mod check_tests;
mod evidence;
mod injected;
mod nodes;
mod phases;
mod run;

macro_rules! on_private_databases {
    ($($module:ident, $bench:ident;)+) => {
        $(mod $module {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn every_committed_notice_ends_despite_faults() {
                crate::faults::phases::all::<crate::faults::bench::$bench>().await;
            }
        })+
    };
}
on_private_databases! {
    sqlite, Sqlite;
    postgres, Postgres;
    mariadb, MariaDb;
    mysql, MySql;
}
