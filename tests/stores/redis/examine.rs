//! The examination of a store (`doctor`) on Redis servers in bad states.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use solid_notify::operate::{Finding, Severity};
use solid_notify_redis::{Redis, RedisOutbox};
use test_servers::servers::redis;
use test_support::sending::eventually;
use tokio::task::spawn_blocking;

mod on_redis {
    use super::*;

    #[tokio::test]
    async fn private_redis_is_examined_for_eviction_and_persistence() {
        let server = spawn_blocking(redis::start).await.unwrap().unwrap();
        let redis = Redis::builder(server.url()).allow_eviction(true).connect().await.unwrap();
        let outbox = RedisOutbox::new(redis);
        let examined = async || outbox.operator("alice").examine().await;
        let severity = |findings: &[Finding], check: &str| {
            findings.iter().find(|finding| finding.check == check).map(|finding| finding.severity)
        };
        let mut connection =
            ::redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        for (setting, value, check, expected) in [
            ("maxmemory-policy", "noeviction", "eviction", Severity::Fine),
            ("maxmemory-policy", "volatile-lru", "eviction", Severity::Fine),
            ("maxmemory-policy", "allkeys-lru", "eviction", Severity::Problem),
            ("appendonly", "no", "persistence", Severity::Warning),
            ("appendonly", "yes", "persistence", Severity::Fine),
        ] {
            let set = ::redis::cmd("CONFIG").arg("SET").arg(setting).arg(value).exec_async(&mut connection).await;
            set.unwrap();
            let findings = examined().await;
            assert_eq!(severity(&findings, check), Some(expected), "{setting} {value}: {findings:?}");
            assert_eq!(severity(&findings, "version"), Some(Severity::Fine));
            assert_eq!(severity(&findings, "tls"), Some(Severity::Warning));
        }
    }

    /// The server may not write into its folder, and its master is no server.
    #[tokio::test]
    async fn private_redis_is_examined_for_snapshots_and_replication() {
        let server = spawn_blocking(redis::start).await.unwrap().unwrap();
        let outbox = RedisOutbox::new(Redis::connect(server.url()).await.unwrap());
        let mut connection =
            ::redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        let mut reading = connection.clone();
        let mut ask = async |words: &[&str]| {
            ::redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut connection).await.unwrap();
        };
        let reaches = async |check: &str, severity: Severity| {
            eventually(check, async || {
                let findings = outbox.operator("alice").examine().await;
                findings.iter().any(|finding| finding.check == check && finding.severity == severity)
            })
            .await;
        };
        reaches("snapshot", Severity::Fine).await;
        let folder: Vec<String> = ::redis::cmd("CONFIG").arg(&["GET", "dir"]).query_async(&mut reading).await.unwrap();
        // The account of the server is no superuser.
        let allow = |mode: u32| std::fs::set_permissions(&folder[1], Permissions::from_mode(mode)).unwrap();
        allow(0o555);
        ask(&["SET", "x", "1"]).await;
        ask(&["BGSAVE"]).await;
        reaches("snapshot", Severity::Problem).await;
        allow(0o755);
        ask(&["BGSAVE"]).await;
        reaches("snapshot", Severity::Fine).await;

        ask(&["REPLICAOF", "127.0.0.1", "1"]).await;
        reaches("replication", Severity::Warning).await;
    }
}
