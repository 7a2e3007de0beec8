//! The account that the book recommends (`docs/src/redis.md`, "An account") does all that the library does, and nothing else.

use std::time::Duration;

use solid_notify::alert::ALERT_DEFINITION;
use solid_notify::operate::Severity;
use solid_notify::testkit::TestSweeper;
use solid_notify::{Alert, Failure, Filter, HandClock, Notice, NotifyDef, OutboxExt, add_notice};
use solid_notify_redis::{Redis, RedisOutbox};
use solid_notify_timed::TimedTasks;
use test_servers::servers::redis;
use tokio::task::spawn_blocking;

/// The rules of the book.
fn rules() -> Vec<String> {
    let chapter = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/redis.md")).unwrap();
    let line = chapter.lines().find_map(|line| line.strip_prefix("ACL SETUSER shop ")).unwrap();
    line.split(' ').map(|rule| rule.trim_matches('\'').to_owned()).collect()
}

mod on_redis {
    use super::*;

    #[tokio::test]
    async fn account_of_the_book_does_all_that_the_library_does() {
        let server = spawn_blocking(redis::start).await.unwrap().unwrap();
        let mut admin = ::redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        ::redis::cmd("ACL").arg("SETUSER").arg("shop").arg(rules()).exec_async(&mut admin).await.unwrap();
        let url = server.url().replace("redis://", "redis://shop:secret@");
        let clock = HandClock::new(chrono::Utc::now());
        let redis = Redis::builder(&url).connect().await.unwrap();
        let mut outbox = RedisOutbox::builder(redis.clone()).clock(clock).build();
        outbox.define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
        let builder = outbox.sweeper().handler("sync", async |notice: Notice<i64>| match *notice.param() {
            0 => Err(Failure::give_up("refused")),
            _ => Ok(()),
        });
        let builder = builder.handler(ALERT_DEFINITION, async |_: Notice<Alert>| Ok(()));
        let sweeper = TestSweeper::start(builder).await.unwrap();
        for param in [0, 1] {
            add_notice(&mut outbox, "sync", param).await.unwrap();
        }
        let sent = sweeper.drain().await;
        assert_eq!((sent.dead_letters, sent.succeeded), (1, 1), "{sent:?}");
        let operator = outbox.operator("alice");
        assert_eq!(operator.list(&Filter::dead_letters(), None, 10).await.unwrap().notices.len(), 1);
        assert_eq!(operator.purge_all(&Filter::dead_letters(), "tested").await.unwrap().changed, 1);
        let examined = operator.examine().await;
        let bad: Vec<_> = examined.iter().filter(|it| it.severity == Severity::Unknown).collect();
        assert!(bad.is_empty(), "{bad:?}");
        drop(sweeper);

        let tasks = TimedTasks::new(redis);
        tasks.add("push", Duration::ZERO, "7").await.unwrap();
        assert_eq!(tasks.due::<String>("push", 10).await.unwrap().tasks.len(), 1);

        let mut account = ::redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
        for command in
            [&["FLUSHALL"][..], &["CONFIG", "GET", "*"], &["KEYS", "*"], &["GET", "session:7"], &["ACL", "LIST"]]
        {
            let error = ::redis::cmd(command[0]).arg(&command[1..]).exec_async(&mut account).await.unwrap_err();
            assert!(error.to_string().contains("no permissions"), "{command:?}: {error}");
        }
    }
}
