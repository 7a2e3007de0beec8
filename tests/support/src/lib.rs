//! The shared parts of the tests: a fresh, empty database of each kind, with its outbox.
//!
//! The path of a test names each server or program that it needs: a component is its name, or ends with `_` and its name
//! (`keys::postgres::case`, `on_mysql::case`). `cargo xtask test --only` filters by these components and removes the URLs of deselected
//! servers. So a test without its component fails there, as does each test whose server cannot be reached.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod book;
pub mod databases;
pub mod faulty;
pub mod journal;
pub mod log;
pub mod memory;
pub mod proxy;
pub mod raw;
pub mod redis;
pub mod redis_load;
pub mod running;
pub mod sending;
pub mod shell;
pub mod smtp;

use std::time::Duration;

use chrono::{SubsecRound, Utc};
use solid_notify_testkit::HandClock;

pub use crate::redis::{RedisCluster, RedisServer, SingleRedis};
pub use databases::{Database, MariaDb, MySql, Postgres, Sqlite, TestDb};

/// Returns a clock that a test turns. It starts at half past an hour, so that no test depends on the time of day: the next hour of a
/// timetable and the next minute of the series are far. It is never behind the database's clock, because plain SQL of some tests inserts
/// with the database's own time.
pub fn hand_clock() -> HandClock {
    let (hour, now) = (Duration::from_secs(3600), Utc::now());
    let past = Duration::from_secs(now.timestamp().rem_euclid(3600).unsigned_abs());
    HandClock::new(now.trunc_subsecs(0) - past + hour + hour / 2)
}

/// Makes a test of each case on each database: the case is an `async fn case<D: Database>()`.
#[macro_export]
macro_rules! on_each_database {
    ($($case:ident),+ $(,)?) => {
        $crate::on_each_database! { @on sqlite, Sqlite, $($case)+ }
        $crate::on_each_database! { @on postgres, Postgres, $($case)+ }
        $crate::on_each_database! { @on mariadb, MariaDb, $($case)+ }
        $crate::on_each_database! { @on mysql, MySql, $($case)+ }
    };
    (@on $module:ident, $database:ident, $($case:ident)+) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case::<$crate::$database>().await;
            })+
        }
    };
}

/// Makes a test of each case on each database with row locks that a test holds by statements of its own.
#[macro_export]
macro_rules! on_each_server {
    ($($case:ident),+ $(,)?) => {
        $crate::on_each_database! { @on postgres, Postgres, $($case)+ }
        $crate::on_each_database! { @on mariadb, MariaDb, $($case)+ }
        $crate::on_each_database! { @on mysql, MySql, $($case)+ }
    };
}

/// Makes a test of each case on MariaDB and on MySQL, for features of this family alone. They are in a module, so that a file can also have
/// cases of each database.
#[macro_export]
macro_rules! on_mysql_family {
    ($($case:ident),+ $(,)?) => {
        mod mysql_family {
            use super::*;

            $crate::on_each_database! { @on mariadb, MariaDb, $($case)+ }
            $crate::on_each_database! { @on mysql, MySql, $($case)+ }
        }
    };
}

/// Statements that give a private MySQL server an account, and a procedure `end_sessions`, which ends and counts its sessions:
/// MariaDB has a statement for that.
#[macro_export]
macro_rules! prepare_mysql {
    ($account:literal) => {
        concat!(
            "CREATE USER ",
            $account,
            "@'127.0.0.1'; GRANT ALL ON notify.* TO ",
            $account,
            "@'127.0.0.1';
DELIMITER //
CREATE PROCEDURE end_sessions(account varchar(32))
BEGIN
    DECLARE session_id, ended bigint DEFAULT 0;
    DECLARE at_the_end bool DEFAULT false;
    DECLARE sessions CURSOR FOR SELECT id FROM information_schema.processlist WHERE user = account;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET at_the_end = true;
    -- It has ended by itself.
    DECLARE CONTINUE HANDLER FOR 1094 BEGIN END;
    OPEN sessions;
    one_by_one: LOOP
        FETCH sessions INTO session_id;
        IF at_the_end THEN LEAVE one_by_one; END IF;
        KILL session_id;
        SET ended = ended + 1;
    END LOOP;
    SELECT ended;
END//
DELIMITER ;
"
        )
    };
}

/// Makes a test of each case on each Redis, one server and a cluster: the case is an `async fn case<R: RedisServer>()`.
#[macro_export]
macro_rules! on_each_redis {
    ($($case:ident),+ $(,)?) => {
        $crate::on_each_database! { @on redis, SingleRedis, $($case)+ }
        $crate::on_each_database! { @on redis_cluster, RedisCluster, $($case)+ }
    };
}

/// Makes a module per store, memory included, in which `run` runs a case on the store; `$tests` makes the tests. The case has two threads,
/// or as many as are given.
#[macro_export]
macro_rules! on_each_store {
    ($tests:ident) => {
        $crate::on_each_store! { $tests, 2 }
    };
    ($tests:ident, $threads:literal) => {
        $crate::on_each_store! { @on memory, in_memory, $threads, $tests }
        $crate::on_each_store! { @on sqlite, on_database::<$crate::Sqlite>, $threads, $tests }
        $crate::on_each_store! { @on postgres, on_database::<$crate::Postgres>, $threads, $tests }
        $crate::on_each_store! { @on mariadb, on_database::<$crate::MariaDb>, $threads, $tests }
        $crate::on_each_store! { @on mysql, on_database::<$crate::MySql>, $threads, $tests }
        $crate::on_each_store! { @on redis, on_redis::<$crate::SingleRedis>, $threads, $tests }
        $crate::on_each_store! { @on redis_cluster, on_redis::<$crate::RedisCluster>, $threads, $tests }
    };
    (@on $module:ident, $run:ident $(::<$store:ty>)?, $threads:literal, $tests:ident) => {
        mod $module {
            fn run(case: solid_notify_conformance::Case) {
                $crate::running::$run$(::<$store>)?($threads, case);
            }
            $tests!(run);
        }
    };
}
