//! The examination of a store (`doctor`) on Redis servers in bad states.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use solid_notify::operate::{Finding, Severity};
use solid_notify_redis::{Redis, RedisOutbox};
use test_servers::servers::redis;
use test_support::sending::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
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

    /// Its file is the device that is always full.
    #[tokio::test]
    async fn private_redis_is_examined_for_a_file_that_cannot_be_written() {
        let server = spawn_blocking(redis::start).await.unwrap().unwrap();
        let outbox = RedisOutbox::new(Redis::connect(server.url()).await.unwrap());
        let mut connection =
            ::redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        let folder: Vec<String> =
            ::redis::cmd("CONFIG").arg(&["GET", "dir"]).query_async(&mut connection).await.unwrap();
        let mut ask = async |words: &[&str]| {
            ::redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut connection).await.unwrap();
        };
        ask(&["CONFIG", "SET", "appendonly", "no"]).await;
        let folder = std::path::Path::new(&folder[1]).join("appendonlydir");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.join("temp-appendonly.aof.incr")).unwrap();
        ask(&["CONFIG", "SET", "appendonly", "yes"]).await;
        ask(&["SET", "x", "1"]).await;
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
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let older = format!("redis://{}", listener.local_addr().unwrap());
        let port = server.port();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(async move {
                    let (mut asks, mut replies) = ([0; 65_536], [0; 65_536]);
                    loop {
                        tokio::select! {
                            Ok(count) = client.read(&mut asks) => {
                                if count == 0 || server.write_all(&asks[..count]).await.is_err() { break }
                            }
                            Ok(count) = server.read(&mut replies) => {
                                let name = b"redis_version:";
                                if let Some(at) = replies[..count].windows(name.len()).position(|bytes| bytes == name) {
                                    replies[at + name.len()] = b'6';
                                }
                                if count == 0 || client.write_all(&replies[..count]).await.is_err() { break }
                            }
                            else => break,
                        }
                    }
                });
            }
        });
        let outbox = RedisOutbox::new(Redis::connect(&older).await.unwrap());
        let findings = outbox.operator("alice").examine().await;
        let version = findings.iter().find(|finding| finding.check == "version").unwrap();
        assert_eq!((version.severity, version.found.starts_with("Redis 6.")), (Severity::Problem, true), "{version:?}");
    }
}
