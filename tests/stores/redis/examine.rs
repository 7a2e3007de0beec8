//! The examination of a store (`doctor`) on Redis servers in bad states.

use solid_notify::operate::{Finding, Severity};
use solid_notify_redis::{Redis, RedisOutbox};
use test_servers::servers::redis;
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
}
