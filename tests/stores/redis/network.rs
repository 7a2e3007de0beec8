//! The network to Redis stalls, discards requests, or loses replies; a password is refused for a while. Calls end by their
//! time-out, all loops recover, and every notice whose add succeeded is delivered.
//!
//! Each test has a private server behind a proxy.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use solid_notify_redis::Redis;
use solid_notify_timed::{ClaimedTask, TimedTasks};
use test_servers::servers::{Ending, Server, redis};
use test_support::proxy::{Proxy, Weather};
use test_support::redis_load::Load;
use test_support::sending::{Calls, PATIENCE, eventually};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

const SECOND: Duration = Duration::from_secs(1);
/// The time-out of a call.
const TIMEOUT: Duration = Duration::from_millis(500);

async fn private() -> Server {
    spawn_blocking(redis::start).await.unwrap().unwrap()
}

/// A server with a load on it that goes through a proxy.
async fn far() -> (Server, Proxy, Load) {
    let server = private().await;
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port())), || ()).await;
    let url = format!("redis://127.0.0.1:{}", proxy.port);
    let load = Load::start(Redis::builder(&url).timeout(TIMEOUT).connect().await.unwrap()).await;
    load.goes_on("before").await;
    (server, proxy, load)
}

async fn ends_well(mut load: Load) {
    let all = load.stop_adding().await;
    load.delivers(&all).await;
    load.ends().await;
}

mod on_redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_survives_a_connection_that_discards_everything() {
        let (server, proxy, load) = far().await;
        let (before, began) = (proxy.accepted(), Instant::now());
        // No client gets its end while the fault lasts.
        proxy.set(Weather::HalfOpen);
        load.goes_on("over another connection").await;
        assert!(proxy.struck() >= 1);
        let (made, most) = (proxy.accepted() - before, 5 + began.elapsed().as_secs());
        assert!((1..most).contains(&(made as u64)), "{made} connections in {:?}", began.elapsed());
        ends_well(load).await;
        drop(server);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_new_connection_outlives_late_calls_over_the_old_one() {
        let server = private().await;
        let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port())), || ()).await;
        let url = format!("redis://127.0.0.1:{}", proxy.port);
        let tasks = TimedTasks::new(Redis::builder(&url).timeout(4 * SECOND).connect().await.unwrap());
        tokio::time::sleep(SECOND).await;
        proxy.set(Weather::HalfOpen);
        let before = proxy.accepted();
        let late = async {
            tokio::time::sleep(SECOND).await;
            tasks.count("kind").await
        };
        let (first, late) = tokio::join!(tasks.count("kind"), late);
        assert!(first.is_err() && late.is_err());
        tasks.count("kind").await.unwrap();
        tokio::time::sleep(SECOND / 2).await;
        assert_eq!(proxy.accepted() - before, 1);
        drop(server);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_falls_silent_ends_no_loop_and_is_not_flooded() {
        let (server, proxy, load) = far().await;
        let before = proxy.accepted();
        proxy.set(Weather::Stall);
        let began = Instant::now();
        let call = tokio::time::timeout(PATIENCE, load.tasks().count("kind 0"));
        assert!(call.await.expect("it ends").is_err());
        assert!(began.elapsed() >= TIMEOUT, "the call waits until its time-out");
        tokio::time::sleep(5 * SECOND).await;
        eventually("it tries to connect", async || proxy.accepted() - before >= 2).await;
        // One at a time tries to connect.
        let (made, most) = (proxy.accepted() - before, 3 + began.elapsed().as_secs());
        assert!((made as u64) < most, "{made} connections in {:?}", began.elapsed());
        proxy.set(Weather::Fair);
        load.goes_on("after the silence").await;
        ends_well(load).await;
        drop(server);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_whose_answers_get_lost_delivers_what_it_answered() {
        let (server, proxy, load) = far().await;
        proxy.set(Weather::Lossy(0.2));
        let (began, mut lost) = (Instant::now(), 0);
        while began.elapsed() < 3 * SECOND || lost <= 3 {
            load.goes_on("while answers get lost").await;
            lost += proxy.struck();
            assert!(began.elapsed() < PATIENCE, "it hangs, after {PATIENCE:?}: {lost} answers were lost");
        }
        proxy.set(Weather::Fair);
        ends_well(load).await;
        drop(server);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_refused_a_password_for_a_while_is_reached_again() {
        let server = private().await;
        let mut person = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let mut by_hand = |words: &[&str]| {
            let mut command = ::redis::cmd(words[0]);
            words[1..].iter().for_each(|word| {
                command.arg(word);
            });
            command.query::<()>(&mut person).unwrap();
        };
        by_hand(&["CONFIG", "SET", "requirepass", "right"]);
        let url = format!("redis://:right@127.0.0.1:{}", server.port());
        let connect = async |timeout| TimedTasks::new(Redis::builder(&url).timeout(timeout).connect().await.unwrap());
        let (hasty, patient) = (connect(SECOND).await, connect(30 * SECOND).await);
        patient.add("kind", Duration::ZERO, &1).await.unwrap();
        by_hand(&["CONFIG", "SET", "requirepass", "wrong"]);
        by_hand(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        // The client tries for some seconds, and never again.
        let refused = async |tasks: &TimedTasks| {
            tasks.count("kind").await.is_err_and(|error| error.to_string().contains("uthentication"))
        };
        let errors = Calls::default();
        let hasty_calls = async {
            loop {
                errors.note(hasty.count("kind").await.unwrap_err().to_string());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            () = eventually("the password is refused", async || refused(&patient).await) => {}
            () = hasty_calls => {}
        }
        // Also a call that waits for a connection ends by its time-out.
        assert!(errors.all().iter().any(|error| error.contains("timed out")), "{:?}", errors.all());
        by_hand(&["CONFIG", "SET", "requirepass", "right"]);
        for tasks in [&hasty, &patient] {
            let reached = async || tasks.count("kind").await.is_ok_and(|counts| counts.waiting == 1);
            eventually("it is reached again", reached).await;
        }
        drop(server);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_is_away_ends_no_runner_and_is_not_flooded() {
        let server = private().await;
        let looks = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&looks);
        let redis = Redis::builder(server.url()).timeout(SECOND).connect().await.unwrap();
        let tasks = TimedTasks::new(redis).clock(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            chrono::Utc::now()
        });
        let calls: Calls<(i64, u64)> = Calls::default();
        let (gate, seen) = (Arc::new(Semaphore::new(0)), calls.clone());
        let permits = Arc::clone(&gate);
        let handler = move |task: ClaimedTask<i64>| {
            seen.note((task.value, task.tries));
            let gate = Arc::clone(&permits);
            async move {
                gate.acquire_owned().await?.forget();
                Ok(())
            }
        };
        let runner = tasks.run("kind", handler).concurrency(2).poll(SECOND / 20).start().unwrap();
        tasks.add("kind", Duration::ZERO, &1).await.unwrap();
        eventually("it runs", async || calls.count() == 1).await;
        let mut server = spawn_blocking(move || {
            let mut server = server;
            server.shut_down(Ending::Kill).unwrap();
            server
        })
        .await
        .unwrap();
        // Its outcome has to wait, too.
        gate.add_permits(10);
        let (before, began) = (looks.load(Ordering::SeqCst), Instant::now());
        tokio::time::sleep(2 * SECOND).await;
        eventually("it looks again", async || looks.load(Ordering::SeqCst) - before >= 2).await;
        // The pauses grow from fifty milliseconds to two seconds.
        let (made, most) = (looks.load(Ordering::SeqCst) - before, 36 + 2 * began.elapsed().as_secs());
        assert!((made as u64) < most, "{made} calls in {:?}", began.elapsed());
        server = spawn_blocking(move || {
            server.start_again().unwrap();
            server
        })
        .await
        .unwrap();
        eventually("it is reached", async || tasks.add("kind", Duration::ZERO, &2).await.is_ok()).await;
        eventually("the runner goes on", async || calls.all().iter().any(|(value, _)| *value == 2)).await;
        eventually("all are done", async || {
            tasks.count("kind").await.is_ok_and(|counts| (counts.waiting, counts.claimed) == (0, 0))
        })
        .await;
        let tally = runner.shutdown().await;
        assert!(tally.finished >= 1 && tally.finished + tally.lost >= 2, "{tally:?}");
        drop(server);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_stays_away_does_not_keep_a_runner_from_its_end() {
        let server = private().await;
        let redis = Redis::builder(server.url()).timeout(SECOND).connect().await.unwrap();
        let tasks = TimedTasks::new(redis);
        let calls: Calls<i64> = Calls::default();
        let seen = calls.clone();
        let handler = move |task: ClaimedTask<i64>| {
            seen.note(task.value);
            std::future::pending()
        };
        let runner = tasks.run("kind", handler).concurrency(1).shutdown_grace(Duration::ZERO).start().unwrap();
        tasks.add("kind", Duration::ZERO, &1).await.unwrap();
        eventually("it runs", async || calls.count() == 1).await;
        drop(server);
        let began = Instant::now();
        let tally = tokio::time::timeout(PATIENCE, runner.shutdown()).await.expect("it ends without Redis");
        assert_eq!(tally.released, 0, "its task waits for the end of the lease");
        assert!(began.elapsed() >= 9 * SECOND, "it tried until then");
    }
}
