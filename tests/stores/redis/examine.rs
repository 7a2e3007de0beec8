//! The examination of a store (`doctor`) on Redis servers in bad states.

use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use ::redis::aio::MultiplexedConnection;
use solid_notify::operate::{Finding, Severity};
use solid_notify_redis::{Redis, RedisOutbox};
use test_servers::servers::{Server, redis};
use test_support::proxy::{Proxy, Wire};
use test_support::sending::eventually;
use tokio::task::spawn_blocking;

/// Says that the server is an older one.
struct Older;

impl Wire for Older {
    fn answers(&self, chunk: &mut [u8]) -> bool {
        let name = b"redis_version:";
        if let Some(at) = chunk.windows(name.len()).position(|bytes| bytes == name) {
            chunk[at + name.len()] = b'6';
        }
        true
    }
}

async fn connection(server: &Server) -> MultiplexedConnection {
    ::redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

async fn ask(connection: &mut MultiplexedConnection, words: &[&str]) {
    ::redis::cmd(words[0]).arg(&words[1..]).exec_async(connection).await.unwrap();
}

/// The folder of the server's files.
async fn folder(connection: &mut MultiplexedConnection) -> PathBuf {
    let found: Vec<String> = ::redis::cmd("CONFIG").arg(&["GET", "dir"]).query_async(connection).await.unwrap();
    found[1].clone().into()
}

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
        let mut connection = connection(&server).await;
        for (setting, value, check, expected) in [
            ("maxmemory-policy", "noeviction", "eviction", Severity::Fine),
            ("maxmemory-policy", "volatile-lru", "eviction", Severity::Fine),
            ("maxmemory-policy", "allkeys-lru", "eviction", Severity::Problem),
            ("appendonly", "no", "persistence", Severity::Warning),
            ("appendonly", "yes", "persistence", Severity::Fine),
        ] {
            ask(&mut connection, &["CONFIG", "SET", setting, value]).await;
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
        let mut connection = connection(&server).await;
        let reaches = async |check: &str, severity: Severity| {
            eventually(check, async || {
                let findings = outbox.operator("alice").examine().await;
                findings.iter().any(|finding| finding.check == check && finding.severity == severity)
            })
            .await;
        };
        reaches("snapshot", Severity::Fine).await;
        let folder = folder(&mut connection).await;
        // The account of the server is no superuser.
        let allow = |mode: u32| std::fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        allow(0o555);
        ask(&mut connection, &["SET", "x", "1"]).await;
        ask(&mut connection, &["BGSAVE"]).await;
        reaches("snapshot", Severity::Problem).await;
        allow(0o755);
        ask(&mut connection, &["BGSAVE"]).await;
        reaches("snapshot", Severity::Fine).await;

        ask(&mut connection, &["REPLICAOF", "127.0.0.1", "1"]).await;
        reaches("replication", Severity::Warning).await;
    }

    /// Its file is the device that is always full.
    #[tokio::test]
    async fn private_redis_is_examined_for_a_file_that_cannot_be_written() {
        let server = spawn_blocking(redis::start).await.unwrap().unwrap();
        let outbox = RedisOutbox::new(Redis::connect(server.url()).await.unwrap());
        let mut connection = connection(&server).await;
        let folder = folder(&mut connection).await;
        ask(&mut connection, &["CONFIG", "SET", "appendonly", "no"]).await;
        let folder = folder.join("appendonlydir");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.join("temp-appendonly.aof.incr")).unwrap();
        ask(&mut connection, &["CONFIG", "SET", "appendonly", "yes"]).await;
        ask(&mut connection, &["SET", "x", "1"]).await;
        eventually("it cannot write", async || {
            let findings = outbox.operator("alice").examine().await;
            let of_check = findings.iter().find(|finding| finding.check == "append_only_file");
            of_check.is_some_and(|finding| finding.severity == Severity::Problem && finding.found == "err")
        })
        .await;
    }

    /// What lies between them says that the server is an older one.
    #[tokio::test]
    async fn private_redis_is_examined_for_its_version() {
        let server = spawn_blocking(redis::start).await.unwrap().unwrap();
        let proxy = Proxy::start((Ipv4Addr::LOCALHOST, server.port()).into(), || Older).await;
        let older = format!("redis://127.0.0.1:{}", proxy.port);
        let outbox = RedisOutbox::new(Redis::connect(&older).await.unwrap());
        let findings = outbox.operator("alice").examine().await;
        let version = findings.iter().find(|finding| finding.check == "version").unwrap();
        assert_eq!((version.severity, version.found.starts_with("Redis 6.")), (Severity::Problem, true), "{version:?}");
    }
}
