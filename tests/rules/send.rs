//! Every public async function can be awaited in a spawned task, on every store. The test is that this file compiles. The functions of the
//! channels are in `tests/channels/send.rs`.
#![allow(dead_code, unreachable_code, unused_variables)]

use std::time::Duration;

use anyhow::Result;
use chrono::Utc;
use solid_notify::ack::Reply;
use solid_notify::definition::{Definitions, DefinitionsPlan, SecretRef};
use solid_notify::operate::{AuditFilter, Rate};
use solid_notify::redis::{Redis, RedisOutbox};
use solid_notify::testkit::{MemoryOutbox, TestSweeper};
use solid_notify::{
    AnyOutbox, ConnectedOutbox, Filter, Inbox, NewNotice, Notice, NoticeConnection, NotifyDef, Outbox, OutboxExt,
    Receipt, ack_notice, add_notice, add_notices, nack_notice,
};
use solid_notify_core::secret::Destination;
use solid_notify_timed::{ClaimedTask, TimedTasks};

fn spawns<T>(_: impl Future<Output = T> + Send + 'static) {}

/// A value that is never made: nothing here runs.
fn never<T>() -> T {
    panic!("only the types count")
}

fn added_through<B: 'static, C: NoticeConnection<B> + 'static>() {
    spawns(async {
        let mut tx: C = never();
        add_notice(&mut tx, "sync", 1).await.unwrap();
        add_notices(&mut tx, [NewNotice::new("sync", 1).unwrap()]).await.unwrap();
        NewNotice::new("sync", 1).unwrap().delay(Duration::ZERO).add(&mut tx).await.unwrap();
        ack_notice(&mut tx, 7).await.unwrap();
        nack_notice(&mut tx, 7, "no").await.unwrap();
        never::<Reply>().apply(&mut tx).await.unwrap();
        never::<Inbox>().first_time(&mut tx, "key").await.unwrap();
    });
}

macro_rules! database {
    ($name:ident, $db:ty) => {
        fn $name() {
            spawns(async {
                let outbox: Outbox<$db> = never();
                outbox.migrate().await.unwrap();
                Outbox::<$db>::connect("url").await.unwrap().migrate().await.unwrap();
                let mut tx = outbox.begin().await.unwrap();
                add_notice(&mut tx, "sync", 1).await.unwrap();
                add_notices(&mut tx, [NewNotice::new("sync", 1).unwrap()]).await.unwrap();
                ack_notice(&mut tx, 7).await.unwrap();
                nack_notice(&mut tx, 7, "no").await.unwrap();
                let mut inner = tx.begin().await.unwrap();
                add_notice(&mut inner, "sync", 1).await.unwrap();
                inner.rollback().await.unwrap();
                tx.commit().await.unwrap();
                let mut plain = outbox.pool().begin().await.unwrap();
                add_notice(&mut plain, "sync", 1).await.unwrap();
                add_notices(&mut plain, [NewNotice::new("sync", 1).unwrap()]).await.unwrap();
                plain.commit().await.unwrap();
                let mut pooled = outbox.pool().acquire().await.unwrap();
                add_notice(&mut pooled, "sync", 1).await.unwrap();
                add_notice(&mut *pooled, "sync", 1).await.unwrap();
                outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
                outbox.sweeper().start().await.unwrap().shutdown().await;
            });
            added_through::<_, sqlx::Transaction<'static, $db>>();
        }
    };
}
database!(on_postgres, sqlx::Postgres);
database!(on_mysql, sqlx::MySql);
database!(on_sqlite, sqlx::Sqlite);

fn on_redis() {
    added_through::<_, RedisOutbox>();
    spawns(async {
        let redis = Redis::connect("url").await.unwrap();
        redis.server_info("redis_version").await.unwrap();
        Redis::builder("url").connect().await.unwrap();
        let outbox: RedisOutbox = never();
        outbox.begin().await.unwrap().rollback().await.unwrap();
        let mut batch = outbox.begin().await.unwrap();
        add_notice(&mut batch, "sync", 1).await.unwrap();
        batch.commit().await.unwrap();
        outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        outbox.sweeper().start().await.unwrap().shutdown().await;
    });
}

fn in_memory() {
    spawns(async {
        let outbox: MemoryOutbox = never();
        outbox.begin().await.unwrap().rollback().await.unwrap();
        let mut tx = outbox.begin().await.unwrap();
        add_notice(&mut tx, "sync", 1).await.unwrap();
        add_notices(&mut tx, [NewNotice::new("sync", 1).unwrap()]).await.unwrap();
        tx.commit().await.unwrap();
    });
}

fn of_an_outbox() {
    spawns(async {
        let outbox: AnyOutbox = never();
        ConnectedOutbox::connect("url").await.unwrap().migrate().await.unwrap();
        never::<ConnectedOutbox>().add(NewNotice::new("sync", 1).unwrap()).await.unwrap();
        let def = NotifyDef::new("sync");
        outbox.define_if_missing(def.clone()).await.unwrap();
        outbox.define_or_replace(def.clone()).await.unwrap();
        outbox.plan(&def).await.unwrap();
        let _ = outbox.plan_all(&never::<Definitions>()).await.unwrap();
        let _ = outbox.apply(never::<Definitions>()).await.unwrap();
        let _ = outbox.apply_plan(never::<DefinitionsPlan>()).await.unwrap();
        outbox.update(&def, def.clone()).await.unwrap();
        outbox.delete(&def).await.unwrap();
        outbox.definitions().await.unwrap();
        outbox.find(7).await.unwrap();
        outbox.ack(7).await.unwrap();
        outbox.nack(7, "no").await.unwrap();
        outbox.ack_token("token").await.unwrap();
        outbox.nack_token("token", "no").await.unwrap();
        let receipt: Receipt = never();
        receipt.first_attempt(Duration::ZERO).await;
    });
}

fn of_secrets() {
    spawns(async {
        let (notice, reference): (Notice<i64>, SecretRef) = never();
        notice.secret(&reference).await.unwrap();
        notice.secret_for(&reference, "host").await.unwrap();
        let outbox: AnyOutbox = never();
        outbox.engine().secrets("sync", vec![reference], Destination::Unknown).await.unwrap();
        outbox.engine().know_store().await.unwrap();
    });
}

fn of_an_operator() {
    spawns(async {
        let outbox: AnyOutbox = never();
        let (operator, filter, def) = (outbox.operator("alice"), Filter::live(), NotifyDef::new("sync"));
        let rate: Rate = never();
        operator.retry(7).await.unwrap();
        operator.cancel(7, "no").await.unwrap();
        operator.edit(7, 1).await.unwrap();
        operator.reschedule(7, Utc::now()).await.unwrap();
        operator.test_send("sync", 1).await.unwrap();
        operator.show(7).await.unwrap();
        operator.list(&filter, None, 10).await.unwrap();
        operator.counts(&filter).await.unwrap();
        operator.pause_all("why").await.unwrap();
        operator.pause_retries("why").await.unwrap();
        operator.is_on_last_try(7).await.unwrap();
        operator.resume_all().await.unwrap();
        operator.paused().await.unwrap();
        operator.circuits().await.unwrap();
        operator.snapshot().await.unwrap();
        operator.explain(7).await.unwrap();
        operator.audit(&AuditFilter::all(), None, 10).await.unwrap();
        operator.create_definition(def.clone()).await.unwrap();
        operator.ack(7).await.unwrap();
        operator.nack(7, "why").await.unwrap();
        operator.close_circuit("name").await.unwrap();
        operator.preview(&filter).await.unwrap();
        operator.groups(&filter).await.unwrap();
        operator.series(None, Utc::now(), Utc::now(), Duration::ZERO).await.unwrap();
        operator.retry_all(&filter, rate).await.unwrap();
        operator.cancel_all(&filter, "no").await.unwrap();
        operator.purge_all(&filter, "no").await.unwrap();
        operator.start_retry_all(&filter, rate).await.unwrap().progress().await.unwrap();
        operator.start_cancel_all(&filter, "no", rate).await.unwrap().wait().await.unwrap();
        operator.start_purge_all(&filter, "no", rate).await.unwrap();
        operator.bulks().await.unwrap();
        operator.targets("sync").await.unwrap();
        operator.definition("sync").await.unwrap();
        operator.versions("sync").await.unwrap();
        operator.preview_edit(&def, &def).await.unwrap();
        operator.edit_definition(&def, def.clone()).await.unwrap();
        operator.delete_definition(&def).await.unwrap();
        operator.roll_back(&def, 1).await.unwrap();
        operator.at_version(&def, 1).await.unwrap();
        operator.retime("sync", never::<Rate>()).await.unwrap();
        let _ = operator.apply(never::<Definitions>()).await.unwrap();
        let _ = operator.apply_plan(never::<DefinitionsPlan>()).await.unwrap();
        operator.nodes().await.unwrap();
        operator.examine().await;
        operator.open_alerts(10).await.unwrap();
        operator.silence("sync", None, Utc::now(), "why").await.unwrap();
        operator.unsilence("sync", None).await.unwrap();
        operator.acknowledge("sync", None).await.unwrap();
    });
}

fn of_a_sweeper() {
    spawns(async {
        let outbox: AnyOutbox = never();
        let sweeper = outbox.sweeper().start().await.unwrap();
        sweeper.idle().await;
        sweeper.shutdown().await;
        outbox.sweeper().run_until_idle().await.unwrap();
        outbox.sweeper().start().await.unwrap().shutdown_when_idle().await;
        let test = TestSweeper::start(outbox.sweeper()).await.unwrap();
        test.drain().await;
        test.advance(Duration::ZERO).await;
        test.shutdown().await;
    });
}

fn of_timed_tasks() {
    spawns(async {
        let tasks: TimedTasks = never();
        let now = Utc::now();
        tasks.add("kind", now, "value").await.unwrap();
        tasks.add_batch("kind", [(now, "value")]).await.unwrap();
        tasks.add_as("kind", "id", now, "value").await.unwrap();
        tasks.replace("kind", "id", now, "value").await.unwrap();
        tasks.with_target("https://shop.example").unwrap().add("kind", now, "value").await.unwrap();
        tasks.due::<String>("kind", 10).await.unwrap();
        tasks.next_due("kind").await.unwrap();
        tasks.import_older("kind").await.unwrap();
        let handler = |_: ClaimedTask<String>| async { Ok(()) };
        tasks.run("kind", handler).start().unwrap().shutdown().await;
        tasks.claim::<String>("kind", 10, &never()).await.unwrap();
        tasks.settle("kind", &[]).await.unwrap();
        tasks.delete("kind", &["id"]).await.unwrap();
        tasks.reschedule("kind", "id", now).await.unwrap();
        tasks.is_scheduled("kind", "id").await.unwrap();
        tasks.count("kind").await.unwrap();
        tasks.dead("kind", 10).await.unwrap();
        tasks.revive("kind", &["id"]).await.unwrap();
        tasks.purge("kind", Duration::ZERO).await.unwrap();
        tasks.check("kind").await.unwrap();
        tasks.aside("kind").await.unwrap();
        tasks.now("kind").await.unwrap();
    });
}

#[test]
fn futures_of_public_functions_can_be_spawned() -> Result<()> {
    // Each is compiled because it is named here.
    let all: [fn(); 10] = [
        on_postgres,
        on_mysql,
        on_sqlite,
        on_redis,
        in_memory,
        of_an_outbox,
        of_secrets,
        of_an_operator,
        of_a_sweeper,
        of_timed_tasks,
    ];
    assert_eq!(all.len(), 10);
    let own = concat!(include_str!("send.rs"), include_str!("../channels/send.rs"));
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api"));
    for entry in std::fs::read_dir(folder)? {
        let snapshot = std::fs::read_to_string(entry?.path())?;
        let functions = snapshot.lines().filter_map(|line| line.strip_prefix("pub async fn "));
        for path in functions.filter(|path| !path.starts_with("solid_notify_conformance::")) {
            let name = name_of(path);
            let called = [".", "::", " "].iter().any(|before| own.contains(&format!("{before}{name}(")));
            let called = called || own.contains(&format!("{name}::<"));
            assert!(
                called || SPI.contains(&name.as_str()),
                "{path} is not called in this file or in tests/channels/send.rs"
            );
        }
    }
    Ok(())
}

/// Methods for authors of stores, which adding, replies, the inbox and receipts call; and what operators and the bulk handler call.
/// `send`: the trait of channels requires that its future is `Send`.
const SPI: [&str; 9] = ["insert", "insert_many", "apply_ack", "mark_seen", "wait", "in_force", "begin", "step", "send"];

/// Returns the name of the function of a line: without its path, its parameters, and all generics.
fn name_of(line: &str) -> String {
    let mut depth = 0;
    let plain = line.chars().take_while(|&c| c != '(').filter(|&c| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0 && c != '>'
    });
    plain.collect::<String>().rsplit("::").next().unwrap_or_default().to_owned()
}
