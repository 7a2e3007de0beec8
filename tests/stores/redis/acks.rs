//! What acks need of Redis: a health check finds out whether it is there, on an account without a right, beside a damaged key, and on a
//! full server.

use std::time::Duration;

use solid_notify::error::FaultKind;
use solid_notify::{NotifyDef, Status, add_notice};
use solid_notify_conformance::{outcome, succeed};
use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::store::{Claim, ClaimWhat, NamedTarget, Settle, Settled};
use solid_notify_core::transition::Next;
use solid_notify_redis::{Redis, RedisOutbox};
use test_servers::servers::redis;
use tokio::task::spawn_blocking;

const SECOND: Duration = Duration::from_secs(1);

async fn command(url: &str, words: &[&str]) -> ::redis::Value {
    let mut connection = ::redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    ::redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await.unwrap()
}

mod on_redis {
    use super::*;

    #[tokio::test]
    async fn missing_right_of_acks_and_a_damaged_key_are_found() {
        let server = spawn_blocking(redis::start).await.unwrap().unwrap();
        let admin = async |words: &[&str]| command(server.url(), words).await;
        admin(&["ACL", "SETUSER", "shop", "on", ">secret", "~*", "+@all"]).await;
        let url = server.url().replace("redis://", "redis://shop:secret@");
        let outbox = RedisOutbox::new(Redis::connect(&url).await.unwrap());
        let stores = outbox.engine().stores();
        let can_ack = async || stores.operate.can_ack().await;
        can_ack().await.unwrap();
        for right in ["hgetall", "zadd", "zrem", "hset", "del", "evalsha"] {
            admin(&["ACL", "SETUSER", "shop", &format!("-{right}"), "-eval"]).await;
            let refused = can_ack().await.unwrap_err();
            assert_eq!(refused.kind, FaultKind::Unusable, "{right}: {refused}");
            let text = refused.to_string();
            assert!(text.contains("permissions") || text.contains("can't run this command"), "{right}: {text}");
            admin(&["ACL", "SETUSER", "shop", "+@all"]).await;
            can_ack().await.unwrap();
        }
        admin(&["SET", "{notify#0}:status:awaiting_ack", "no sorted set"]).await;
        let refused = can_ack().await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Unusable, "{refused}");
        admin(&["DEL", "{notify#0}:status:awaiting_ack"]).await;
        can_ack().await.unwrap();
        let left: Vec<String> = ::redis::from_redis_value(admin(&["KEYS", "*"]).await).unwrap();
        assert!(left.iter().all(|key| !key.starts_with("{notify#0}")), "{left:?}");
    }

    #[tokio::test]
    async fn full_server_stores_acks_and_passes_on() {
        let server = spawn_blocking(redis::start).await.unwrap().unwrap();
        let outbox = RedisOutbox::new(Redis::connect(server.url()).await.unwrap());
        let stores = outbox.engine().stores();
        let mut definitions = Vec::new();
        for row in [NotifyDef::new("acked"), NotifyDef::new("order"), NotifyDef::target("order", "erp")] {
            outbox.define_if_missing(row).await.unwrap();
        }
        for name in ["acked", "order", "order/erp"] {
            let rows = stores.definitions.definitions().await.unwrap();
            definitions.push(rows.into_iter().find(|row| row.name == name).unwrap().id);
        }
        let mut claimed = Vec::new();
        for (name, def_id) in [("acked", definitions[0]), ("order", definitions[1])] {
            add_notice(&mut outbox.clone(), name, 1).await.unwrap();
            let (what, worker) = (ClaimWhat::Slice(Status::NotSent), "worker-1".to_owned());
            let claim = Claim { def_id, what, limit: 1, lease: 60 * SECOND, worker, quota: None };
            claimed.push(stores.send.claim(&claim).await.unwrap().notices.remove(0));
        }
        let waits = outcome(&claimed[0], Next::Wait { status: Status::AwaitingAck, after: 60 * SECOND });
        assert_eq!(stores.send.settle(&[waits]).await.unwrap(), [Settled::Stored]);
        command(server.url(), &["CONFIG", "SET", "maxmemory", "1mb"]).await;
        assert!(add_notice(&mut outbox.clone(), "acked", 2).await.is_err(), "it is full");
        stores.operate.can_ack().await.unwrap();
        assert_eq!(stores.operate.apply_ack(&Reply::ack(claimed[0].id)).await.unwrap(), AckResult::Applied);
        let passed_on = Settle { pass_to: vec![NamedTarget::new(definitions[2], "erp")], ..succeed(&claimed[1]) };
        assert_eq!(stores.send.settle(&[passed_on]).await.unwrap(), [Settled::Stored]);
    }
}

mod on_redis_cluster {
    use super::*;

    /// An ack writes on the master that has the slot of its definition, so it is asked of each master.
    #[tokio::test]
    async fn one_master_of_a_private_redis_cluster_that_refuses_acks_is_found() {
        let mut cluster = spawn_blocking(redis::start_cluster).await.unwrap().unwrap();
        let outbox = RedisOutbox::new(Redis::connect(cluster.url()).await.unwrap());
        let stores = outbox.engine().stores();
        stores.operate.can_ack().await.unwrap();
        let nodes: Vec<String> = cluster.nodes().iter().map(|node| node.url().to_owned()).collect();
        for node in &nodes {
            command(node, &["ACL", "SETUSER", "default", "-zadd"]).await;
            let refused = stores.operate.can_ack().await.unwrap_err();
            assert_eq!(refused.kind, FaultKind::Unusable, "{node}: {refused}");
            command(node, &["ACL", "SETUSER", "default", "+zadd"]).await;
            stores.operate.can_ack().await.unwrap();
            // Too few replicas, as in a failover.
            command(node, &["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
            let refused = stores.operate.can_ack().await.unwrap_err();
            assert_eq!(refused.kind, FaultKind::Outage, "{node}: {refused}");
            command(node, &["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
            stores.operate.can_ack().await.unwrap();
        }
        for node in &nodes {
            let left: Vec<String> = ::redis::from_redis_value(command(node, &["KEYS", "{notify#0*"]).await).unwrap();
            assert_eq!(left, [] as [String; 0], "{node}");
        }
    }
}
