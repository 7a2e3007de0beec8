//! Redis whose master fails or is replaced: a cluster with replicas, and one server with a replica behind a name that is
//! switched. Producers, sweepers and consumers recover; notices that had reached the replica are not lost.
//!
//! Each test has private servers.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use solid_notify_redis::Redis;
use test_servers::servers::redis::Cluster;
use test_servers::servers::{Ending, Server, redis};
use test_support::proxy::Proxy;
use test_support::redis_load::{Answered, Load};
use test_support::sending::{PATIENCE, eventually};
use tokio::task::spawn_blocking;

const SECOND: Duration = Duration::from_secs(1);

/// Sends a command to a server and waits for the reply.
fn ask<T: ::redis::FromRedisValue>(server: &Server, words: &[&str]) -> ::redis::RedisResult<T> {
    let mut connection = ::redis::Client::open(server.url())?.get_connection()?;
    query(&mut connection, words)
}

fn query<T: ::redis::FromRedisValue>(connection: &mut ::redis::Connection, words: &[&str]) -> ::redis::RedisResult<T> {
    let mut command = ::redis::cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(word);
    });
    command.query(connection)
}

fn says(server: &Server, line: &str) -> bool {
    ask::<String>(server, &["INFO", "replication"]).is_ok_and(|info| info.lines().any(|other| other.trim() == line))
}

/// Returns when the replica has what the master had at the call. `WAIT` speaks of the writes of its own connection, so there is one.
fn has_reached_the_replica(master: &Server) {
    let mut connection = ::redis::Client::open(master.url()).unwrap().get_connection().unwrap();
    let mut mark = |n: &u32| query::<()>(&mut connection, &["SET", &format!("mark {n}"), "here"]).is_ok();
    assert!((0..10_000).any(|n| mark(&n)), "one of so many keys is in its slots");
    assert_eq!(query::<i64>(&mut connection, &["WAIT", "1", "10000"]).unwrap(), 1);
}

/// The number of the master that has the definitions, the numbers of new notices and the alerts: all adding needs it.
fn most_important(cluster: &mut Cluster) -> usize {
    let masters = &cluster.nodes()[..3];
    masters.iter().position(|node| ask::<i64>(node, &["EXISTS", "{notify#}:definitions"]).is_ok()).unwrap()
}

/// Connections that were made to these servers so far.
fn connections(servers: &[Server]) -> i64 {
    let count = |server| {
        let info: String = ask(server, &["INFO", "stats"]).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
        line.trim().parse::<i64>().unwrap()
    };
    servers.iter().map(count).sum()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}: it hangs, after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn becomes_replica(server: &Server) {
    wait_until("it is no replica", || says(server, "role:slave") && says(server, "master_link_status:up"));
}

/// Runs what waits for servers on a thread of its own, and gives them back.
async fn with<S: Send + 'static, T: Send + 'static>(
    mut servers: S,
    work: impl FnOnce(&mut S) -> T + Send + 'static,
) -> (S, T) {
    let done = spawn_blocking(move || {
        let done = work(&mut servers);
        (servers, done)
    });
    done.await.unwrap()
}

fn begun_after(moment: Instant, all: &[Answered]) -> Vec<Answered> {
    all.iter().copied().filter(|added| added.begun > moment).collect()
}

async fn cluster() -> Cluster {
    spawn_blocking(redis::start_cluster_with_replicas).await.unwrap().unwrap()
}

async fn load_on(url: &str) -> Load {
    let load = Load::start(Redis::builder(url).timeout(SECOND).connect().await.unwrap()).await;
    load.goes_on("before").await;
    load
}

mod on_redis_cluster {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_cluster_with_a_killed_master_keeps_replicated_notices() {
        let cluster = cluster().await;
        let mut load = load_on(cluster.url()).await;
        // The replica may lack the writes that succeed from now on.
        let sure = load.answered();
        let (cluster, (killed, before)) = with(cluster, |cluster| {
            let killed = most_important(cluster);
            cluster.nodes()[..3].iter().for_each(has_reached_the_replica);
            cluster.nodes()[killed].shut_down(Ending::Kill).unwrap();
            (killed, connections(&cluster.nodes()[3..]))
        })
        .await;
        let end = Instant::now();
        load.goes_on("after the promotion").await;
        let (cluster, ()) = with(cluster, move |cluster| {
            assert!(says(&cluster.nodes()[3 + killed], "role:master"));
            let made = connections(&cluster.nodes()[3..]) - before;
            assert!(made < 100, "{made} connections to three nodes");
            cluster.nodes()[killed].start_again().unwrap();
            becomes_replica(&cluster.nodes()[killed]);
        })
        .await;
        load.goes_on("with the former master as a replica").await;
        let errors = load.errors();
        assert!(errors < 200, "{errors} errors of thirteen callers");
        let later = begun_after(end, &load.stop_adding().await);
        load.delivers(&sure).await;
        load.delivers(&later).await;
        load.ends().await;
        drop(cluster);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_cluster_whose_master_is_exchanged_loses_nothing() {
        let cluster = cluster().await;
        let mut load = load_on(cluster.url()).await;
        let (cluster, ()) = with(cluster, |cluster| {
            let master = most_important(cluster);
            let nodes = cluster.nodes();
            ask::<()>(&nodes[3 + master], &["CLUSTER", "FAILOVER"]).unwrap();
            wait_until("it is no master", || says(&nodes[3 + master], "role:master"));
            becomes_replica(&nodes[master]);
        })
        .await;
        load.goes_on("after the exchange").await;
        let all = load.stop_adding().await;
        load.delivers(&all).await;
        load.ends().await;
        drop(cluster);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_cluster_whose_master_hangs_is_served_by_its_replica() {
        let cluster = cluster().await;
        let mut load = load_on(cluster.url()).await;
        let sure = load.answered();
        let signal = |server: &Server, name: &str| {
            let process = server.process().unwrap().to_string();
            assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
        };
        let (cluster, hanging) = with(cluster, move |cluster| {
            let hanging = most_important(cluster);
            cluster.nodes()[..3].iter().for_each(has_reached_the_replica);
            // It closes no connection, and answers nothing.
            signal(&cluster.nodes()[hanging], "STOP");
            wait_until("no replica is promoted", || says(&cluster.nodes()[3 + hanging], "role:master"));
            hanging
        })
        .await;
        let end = Instant::now();
        load.goes_on("after the promotion").await;
        let (cluster, ()) = with(cluster, move |cluster| {
            signal(&cluster.nodes()[hanging], "CONT");
            becomes_replica(&cluster.nodes()[hanging]);
        })
        .await;
        load.goes_on("with the former master as a replica").await;
        let later = begun_after(end, &load.stop_adding().await);
        load.delivers(&sure).await;
        load.delivers(&later).await;
        load.ends().await;
        drop(cluster);
    }
}

/// A master, its replica, and a proxy that leads to the master, as a name does.
async fn pair() -> ((Server, Server), Proxy, String) {
    let start = || {
        let (master, replica) = (redis::start().unwrap(), redis::start().unwrap());
        ask::<()>(&replica, &["REPLICAOF", "127.0.0.1", &master.port().to_string()]).unwrap();
        becomes_replica(&replica);
        (master, replica)
    };
    let pair = spawn_blocking(start).await.unwrap();
    let proxy = Proxy::start(address(&pair.0), || ()).await;
    let url = format!("redis://127.0.0.1:{}", proxy.port);
    (pair, proxy, url)
}

fn address(server: &Server) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))
}

mod on_redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_behind_a_switched_name_loses_nothing_replicated() {
        let (pair, proxy, url) = pair().await;
        let mut load = load_on(&url).await;
        let sure = load.answered();
        let (pair, ()) = with(pair, |(master, replica)| {
            has_reached_the_replica(master);
            master.shut_down(Ending::Kill).unwrap();
            ask::<()>(replica, &["REPLICAOF", "NO", "ONE"]).unwrap();
        })
        .await;
        let end = Instant::now();
        proxy.lead_to(address(&pair.1));
        load.goes_on("on the other server").await;
        let later = begun_after(end, &load.stop_adding().await);
        load.delivers(&sure).await;
        load.delivers(&later).await;
        load.ends().await;
        drop(pair);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_has_become_a_replica_is_left_when_its_name_moves() {
        let (pair, proxy, url) = pair().await;
        let mut load = load_on(&url).await;
        let (pair, ()) = with(pair, |(master, replica)| {
            // It waits until the replica has everything. Open connections stay and get READONLY errors.
            ask::<()>(master, &["FAILOVER", "TO", "127.0.0.1", &replica.port().to_string()]).unwrap();
            becomes_replica(master);
            assert!(says(replica, "role:master"));
        })
        .await;
        // Until the name is switched, new connections lead to the wrong server, too.
        let (before, errors, began) = (proxy.accepted(), load.errors(), Instant::now());
        // One a second is made at most. Twice as many leaves room for those that end by themselves.
        let is_not_flooded = |what: &str| {
            let (made, most) = (proxy.accepted() - before, 5 + 2 * began.elapsed().as_secs());
            assert!((made as u64) < most, "{made} connections {what} in {:?}", began.elapsed());
        };
        tokio::time::sleep(4 * SECOND).await;
        eventually("new connections are made", async || proxy.accepted() - before >= 2).await;
        eventually("calls fail", async || load.errors() > errors).await;
        is_not_flooded("to the wrong server");
        proxy.lead_to(address(&pair.1));
        load.goes_on("on the other server").await;
        is_not_flooded("until the name was switched");
        let all = load.stop_adding().await;
        load.delivers(&all).await;
        load.ends().await;
        drop(pair);
    }
}
