//! Redis that restarts, is emptied, is full, or loses its connections: the loops recover, and do not flood the server.
//!
//! Each test has a private server of its own.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use solid_notify::error::FaultKind;
use solid_notify::{Error, NewNotice, Notice, NotifyDef, OutboxExt, Status, Sweeper, add_notice};
use solid_notify_core::limit::Quota;
use solid_notify_core::store::{Claim, ClaimWhat, Lease};
use solid_notify_redis::{Redis, RedisOutbox};
use solid_notify_timed::{TaskLease, TaskOutcome, TimedTasks};
use test_servers::servers::redis::Log;
use test_servers::servers::{Ending, Server, redis};
use test_support::sending::{Calls, PATIENCE, eventually};
use tokio::task::spawn_blocking;

const SECOND: Duration = Duration::from_secs(1);

async fn private() -> Server {
    spawn_blocking(redis::start).await.unwrap().unwrap()
}

async fn outbox(url: &str) -> RedisOutbox {
    let outbox = RedisOutbox::new(Redis::builder(url).timeout(10 * SECOND).connect().await.unwrap());
    outbox.define_if_missing(NotifyDef::new("job").retry_interval("100ms").max_retry_times(20)).await.unwrap();
    outbox
}

async fn sweeper(outbox: &RedisOutbox, calls: &Calls<i64>) -> Sweeper {
    let calls = calls.clone();
    outbox
        .sweeper()
        .handler("job", move |notice: Notice<i64>| {
            let calls = calls.clone();
            async move {
                calls.note(*notice.param());
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(())
            }
        })
        .start()
        .await
        .unwrap()
}

fn command(url: &str, words: &[&str]) {
    let mut connection = ::redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut command = ::redis::cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(word);
    });
    let _: ::redis::Value = command.query(&mut connection).unwrap();
}

fn info(url: &str, section: &str) -> String {
    let mut connection = ::redis::Client::open(url).unwrap().get_connection().unwrap();
    ::redis::cmd("INFO").arg(section).query(&mut connection).unwrap()
}

/// Adds until an add succeeds. An error leaves open whether the notice was stored, so it adds once more.
async fn add(outbox: &RedisOutbox, n: i64) -> i64 {
    let began = Instant::now();
    loop {
        match add_notice(&mut outbox.clone(), "job", n).await {
            Ok(added) => return added.id(),
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn all_succeed(outbox: &RedisOutbox, ids: &[i64]) {
    for id in ids {
        // Longer than a lease: what was being sent by a claim whose answer was lost waits for its end.
        let began = Instant::now();
        loop {
            match outbox.find(*id).await {
                Ok(Some(record)) if record.status == Status::Succeeded => break,
                found => assert!(
                    began.elapsed() < 120 * SECOND,
                    "notice {id}: {:?}",
                    found.map(|found| found.map(|record| record.status))
                ),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

mod on_redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_restarted_under_load_loses_nothing() {
        let mut server = private().await;
        let outbox = outbox(server.url()).await;
        let calls = Calls::default();
        let sweeper = sweeper(&outbox, &calls).await;
        let producer = tokio::spawn({
            let outbox = outbox.clone();
            async move {
                let mut ids = Vec::new();
                for n in 0..400 {
                    ids.push(add(&outbox, n).await);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                ids
            }
        });
        for ending in [Ending::Kill, Ending::Graceful] {
            tokio::time::sleep(Duration::from_millis(700)).await;
            server = spawn_blocking(move || {
                server.restart(ending).unwrap();
                server
            })
            .await
            .unwrap();
        }
        all_succeed(&outbox, &producer.await.unwrap()).await;
        sweeper.shutdown().await;
    }

    /// A killed process loses nothing that it wrote to its log: the operating system has it. Only with `everysec` it may answer before
    /// it writes: while the disk is busy with what it was forced to write before, up to two seconds.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_with_a_log_keeps_what_it_answered_when_it_is_killed() {
        for log in [Log::Always, Log::EverySecond, Log::Unforced] {
            let server = spawn_blocking(move || redis::start_logging(log).unwrap()).await.unwrap();
            let outbox = outbox(server.url()).await;
            let tasks = TimedTasks::new(Redis::connect(server.url()).await.unwrap());
            let (mut notices, mut ids) = (Vec::new(), Vec::new());
            for n in 0..100 {
                notices.push(add(&outbox, n).await);
                ids.push(tasks.add("task", SECOND, &n).await.unwrap());
            }
            if log == Log::EverySecond {
                eventually("all is written", async || {
                    info(server.url(), "persistence").contains("aof_buffer_length:0")
                })
                .await;
            }
            let server = restarted(server).await;
            for (notice, id) in notices.iter().zip(&ids) {
                eventually("it answers", async || outbox.find(*notice).await.is_ok()).await;
                assert!(outbox.find(*notice).await.unwrap().is_some(), "{log:?}");
                eventually("it answers", async || tasks.is_scheduled("task", id).await.is_ok()).await;
                assert!(tasks.is_scheduled("task", id).await.unwrap(), "{log:?}");
            }
            drop(server);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_without_a_log_has_its_last_snapshot_and_goes_on() {
        let server = spawn_blocking(|| redis::start_logging(Log::Nothing).unwrap()).await.unwrap();
        let outbox = outbox(server.url()).await;
        let tasks = TimedTasks::new(Redis::connect(server.url()).await.unwrap());
        let calls = Calls::default();
        let sweeper = sweeper(&outbox, &calls).await;
        let kept = (add(&outbox, 1).await, tasks.add("task", SECOND, &1).await.unwrap());
        all_succeed(&outbox, &[kept.0]).await;
        command(server.url(), &["SAVE"]);
        let lost = (add(&outbox, 2).await, tasks.add("task", SECOND, &2).await.unwrap());
        outbox.define_if_missing(NotifyDef::new("later")).await.unwrap();
        all_succeed(&outbox, &[lost.0]).await;
        let server = restarted(server).await;
        eventually("it answers", async || outbox.find(kept.0).await.is_ok() && tasks.count("task").await.is_ok()).await;
        assert!(outbox.find(kept.0).await.unwrap().is_some());
        assert!(outbox.find(lost.0).await.unwrap().is_none());
        assert!(tasks.is_scheduled("task", &kept.1).await.unwrap());
        assert!(!tasks.is_scheduled("task", &lost.1).await.unwrap());
        let gone = add_notice(&mut outbox.clone(), "later", 3).await;
        assert!(matches!(gone, Err(Error::UnknownDefinition { .. })), "{gone:?}");
        outbox.define_if_missing(NotifyDef::new("later").handler("job")).await.unwrap();
        let again = add_notice(&mut outbox.clone(), "later", 4).await.unwrap().id();
        all_succeed(&outbox, &[again]).await;
        assert_eq!(calls.all(), [1, 2, 4]);
        sweeper.shutdown().await;
        drop(server);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_is_away_is_not_flooded() {
        let mut server = private().await;
        let outbox = outbox(server.url()).await;
        let calls = Calls::default();
        let sweeper = sweeper(&outbox, &calls).await;
        let port = server.port();
        server.shut_down(Ending::Kill).unwrap();
        // In its place there is one that closes each connection.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (began, mut knocked) = (Instant::now(), 0);
        while began.elapsed() < 4 * SECOND || knocked == 0 {
            assert!(began.elapsed() < PATIENCE, "it is not tried again");
            knocked += u64::from(listener.accept().is_ok());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(listener);
        let most = 50 * began.elapsed().as_secs();
        assert!(knocked < most, "{knocked} connections in {:?}", began.elapsed());
        server.start_again().unwrap();
        let id = add(&outbox, 1).await;
        all_succeed(&outbox, &[id]).await;
        sweeper.shutdown().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_is_emptied_begins_anew() {
        let server = private().await;
        let outbox = outbox(server.url()).await;
        let calls = Calls::default();
        let sweeper = sweeper(&outbox, &calls).await;
        let first = add(&outbox, 1).await;
        all_succeed(&outbox, &[first]).await;
        command(server.url(), &["FLUSHALL"]);
        command(server.url(), &["SCRIPT", "FLUSH"]);
        let gone = add_notice(&mut outbox.clone(), "job", 2).await;
        assert!(matches!(gone, Err(Error::UnknownDefinition { .. })), "the definition is gone with everything");
        outbox.define_if_missing(NotifyDef::new("job")).await.unwrap();
        let again = add(&outbox, 3).await;
        all_succeed(&outbox, &[again]).await;
        assert_eq!(calls.all(), [1, 3]);
        sweeper.shutdown().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_cuts_its_connections_is_reached_again() {
        let server = private().await;
        let outbox = outbox(server.url()).await;
        let calls = Calls::default();
        let sweeper = sweeper(&outbox, &calls).await;
        let mut ids = Vec::new();
        for n in 0..60 {
            if n % 10 == 0 {
                command(server.url(), &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }
            ids.push(add(&outbox, n).await);
        }
        all_succeed(&outbox, &ids).await;
        sweeper.shutdown().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_is_full_refuses_and_goes_on_when_there_is_room() {
        let server = private().await;
        let outbox = outbox(server.url()).await;
        let calls = Calls::default();
        let sweeper = sweeper(&outbox, &calls).await;
        let later = NewNotice::new("job", 1).unwrap().delay(SECOND);
        let id = later.add(&mut outbox.clone()).await.unwrap().id();
        let tasks = TimedTasks::new(Redis::connect(server.url()).await.unwrap());
        tasks.add_batch("task", [(Duration::ZERO, 1), (Duration::ZERO, 2)]).await.unwrap();
        command(server.url(), &["CONFIG", "SET", "maxmemory", "1mb"]);
        let refused = add_notice(&mut outbox.clone(), "job", 2).await;
        assert!(matches!(&refused, Err(Error::Store(error)) if error.kind == FaultKind::Unusable), "{refused:?}");
        // Existing tasks can be finished, which frees memory.
        let [one, other] =
            tasks.claim::<i64>("task", 10, &TaskLease::of(60 * SECOND)).await.unwrap().tasks.try_into().unwrap();
        let outcomes = [one.outcome(TaskOutcome::Retry(SECOND.into())), other.outcome(TaskOutcome::Finish)];
        assert_eq!(tasks.settle("task", &outcomes).await.unwrap(), [true, true]);
        assert!(tasks.add("task", SECOND, &3).await.is_err(), "but nothing is added");
        tokio::time::sleep(3 * SECOND).await;
        command(server.url(), &["CONFIG", "SET", "maxmemory", "0"]);
        all_succeed(&outbox, &[id]).await;
        all_succeed(&outbox, &[add(&outbox, 3).await]).await;
        assert_eq!(calls.all(), [1, 3], "and the refused notice is not there");
        sweeper.shutdown().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_is_full_claims_within_a_limit_and_extends_leases() {
        let server = private().await;
        let outbox = outbox(server.url()).await;
        let stores = outbox.engine().stores();
        let id = add(&outbox, 1).await;
        command(server.url(), &["CONFIG", "SET", "maxmemory", "1mb"]);
        let def_id = stores.definitions.definitions().await.unwrap()[0].id;
        let quota = Quota { rate: None, total: Some(9), breaker: None };
        let (what, worker) = (ClaimWhat::Slice(Status::NotSent), "worker-1".to_owned());
        let claim = Claim { def_id, what, limit: 1, lease: SECOND, worker, quota: Some(quota) };
        let claimed = stores.send.claim(&claim).await.unwrap().notices;
        assert_eq!(claimed.iter().map(|notice| notice.id).collect::<Vec<_>>(), [id]);
        assert_eq!(stores.send.extend(&[Lease { id, fence: claimed[0].fence, lease: SECOND }]).await.unwrap(), [id]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_misses_its_replicas_refuses_and_goes_on_with_them() {
        let server = private().await;
        let outbox = outbox(server.url()).await;
        command(server.url(), &["CONFIG", "SET", "min-replicas-to-write", "1"]);
        let refused = add_notice(&mut outbox.clone(), "job", 1).await;
        assert!(matches!(&refused, Err(Error::Store(error)) if error.kind == FaultKind::Outage), "{refused:?}");
        command(server.url(), &["CONFIG", "SET", "min-replicas-to-write", "0"]);
        add_notice(&mut outbox.clone(), "job", 2).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_evicts_is_refused_unless_that_is_allowed() {
        let server = private().await;
        for (policy, allowed) in
            [("volatile-lru", true), ("noeviction", true), ("allkeys-lru", false), ("allkeys-random", false)]
        {
            command(server.url(), &["CONFIG", "SET", "maxmemory-policy", policy]);
            let connected = Redis::connect(server.url()).await;
            match allowed {
                true => assert!(connected.is_ok(), "{policy}: {connected:?}"),
                false => {
                    assert!(
                        matches!(&connected, Err(solid_notify_redis::Error::Evicts { policy: told }) if told == policy)
                    );
                    Redis::builder(server.url()).allow_eviction(true).connect().await.unwrap();
                }
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_keeps_no_more_successes_than_the_limit_says() {
        let server = private().await;
        outbox(server.url()).await;
        let outbox = RedisOutbox::builder(Redis::connect(server.url()).await.unwrap()).history_limit(10).build();
        let calls = Calls::default();
        let sweeper = sweeper(&outbox, &calls).await;
        let mut ids = Vec::new();
        for n in 0..40 {
            ids.push(add(&outbox, n).await);
        }
        eventually("all are sent", async || calls.count() == 40).await;
        sweeper.shutdown().await;
        let mut kept = 0;
        for id in ids {
            kept += usize::from(outbox.find(id).await.unwrap().is_some());
        }
        assert!((8..=10).contains(&kept), "{kept} are kept");
    }
}

async fn restarted(mut server: Server) -> Server {
    let restart = move || {
        server.restart(Ending::Kill).unwrap();
        server
    };
    spawn_blocking(restart).await.unwrap()
}

mod on_redis_cluster {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_cluster_whose_node_restarts_goes_on() {
        let mut cluster = spawn_blocking(redis::start_cluster).await.unwrap().unwrap();
        let connection = Redis::builder(cluster.url()).timeout(10 * SECOND).connect().await.unwrap();
        let tasks = TimedTasks::new(connection);
        // Kinds on every node.
        let kinds: Vec<String> = (0..30).map(|n| format!("kind {n}")).collect();
        for kind in &kinds {
            tasks.add_as(kind, "task", Duration::ZERO, &1).await.unwrap();
        }
        cluster = spawn_blocking(move || {
            cluster.nodes()[1].restart(Ending::Kill).unwrap();
            cluster
        })
        .await
        .unwrap();
        for kind in &kinds {
            eventually(kind, async || {
                let Ok(due) = tasks.claim::<i64>(kind, 10, &TaskLease::of(SECOND)).await else { return false };
                let [task] = due.tasks.as_slice() else { return false };
                tasks.settle(kind, &[task.outcome(TaskOutcome::Finish)]).await.is_ok_and(|held| held == [true])
            })
            .await;
        }
        drop(cluster);
    }
}
