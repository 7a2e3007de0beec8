//! The span of each attempt, and the trace of the producer that goes on in it.

use std::sync::LazyLock;
use std::time::Duration;

use opentelemetry::trace::{SpanKind, Status as SpanStatus, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use solid_notify::{ErrorClass, Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, eventually, reaches, record};
use test_support::{Database, TestDb};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Instrument};
use tracing_subscriber::layer::SubscriberExt;

/// A process with one subscriber asks only the thread that enters a span first whether anybody reads it. The thread of another test has no
/// subscriber, and the span would be off for all. So there are always two.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Exports this thread's spans as long as the guard lives.
struct Exported {
    spans: InMemorySpanExporter,
    _provider: SdkTracerProvider,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Exported {
    fn start() -> Self {
        let spans = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        LazyLock::force(&ANOTHER);
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        Self { spans, _provider: provider, _guard: guard }
    }

    fn named(&self, name: &str) -> Vec<SpanData> {
        self.spans.get_finished_spans().unwrap().into_iter().filter(|span| span.name == name).collect()
    }

    /// The first span of that name, once it is exported. A span ends when the last one lets go of it, and that may be
    /// the thread of a SQLite connection: sqlx sends the current span along with each command.
    async fn first(&self, name: &str) -> SpanData {
        eventually("the span is exported", async || !self.named(name).is_empty()).await;
        self.named(name).remove(0)
    }

    /// The spans of the attempts at a notice, once there are so many.
    async fn attempts(&self, id: i64, count: usize) -> Vec<SpanData> {
        let of_notice = |span: &SpanData| attribute(span, "notice") == id.to_string();
        let found = || self.named("attempt").into_iter().filter(of_notice).collect::<Vec<_>>();
        eventually("the spans are exported", async || found().len() == count).await;
        found()
    }
}

fn attribute(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| attribute.value.to_string()).unwrap_or_default()
}

/// A traceparent of a producer that no exporter records.
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn the_trace_of_the_producer_goes_on_in_the_handler(b: &dyn Backend) {
    let exported = Exported::start();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let inside = Calls::default();
    let noted = inside.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            let noted = noted.clone();
            async move {
                // A span of the handler is within that of the attempt.
                noted.note(());
                tracing::info_span!("work").in_scope(|| ());
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    let added = async {
        let one = add(b, "sync").await;
        let many = b.add_many(vec![NewNotice::new("sync", 1).unwrap(), NewNotice::new("sync", 2).unwrap()]).await;
        let many = many.unwrap().into_iter().map(|added| added.id());
        [vec![one], many.collect()].concat()
    };
    let ids = added.instrument(tracing::info_span!("producer")).await;
    for id in &ids {
        let attempt = exported.attempts(*id, 1).await.remove(0);
        let producer = exported.first("producer").await;
        assert_eq!(attempt.span_context.trace_id(), producer.span_context.trace_id());
        assert_eq!(attempt.parent_span_id, producer.span_context.span_id());
        assert_eq!(attempt.span_kind, SpanKind::Consumer);
        let of = |key| attribute(&attempt, key);
        assert_eq!((of("definition"), of("attempt"), of("result")), ("sync".into(), "1".into(), "delivered".into()));
        let stored = record(b, *id).await.trace_context.unwrap();
        assert!(stored.contains(&producer.span_context.trace_id().to_string()), "{stored}");
        let works = exported.named("work");
        assert!(works.iter().any(|work| work.parent_span_id == attempt.span_context.span_id()), "{works:?}");
    }
    // The trace context that the producer gives has priority; without a span there is none.
    let given = b.add_new(NewNotice::new("sync", 1).unwrap().trace_context(PARENT));
    let given = given.instrument(tracing::info_span!("producer")).await.id();
    let attempt = exported.attempts(given, 1).await.remove(0);
    assert_eq!(format!("{}", attempt.span_context.trace_id()), "4bf92f3577b34da6a3ce929d0e0e4736");
    let none = add(b, "sync").await;
    assert_eq!(exported.attempts(none, 1).await.remove(0).links.len(), 0);
    assert_eq!(record(b, none).await.trace_context, None);
    sweeper.shutdown().await;
}

async fn a_retry_much_later_is_a_trace_of_its_own_with_a_link(b: &dyn Backend) {
    let exported = Exported::start();
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("[1s,1h]")).await.unwrap();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", |notice: Notice<i64>| async move {
            if notice.attempt() < 3 {
                Err(Failure::retry("connection refused").class(ErrorClass::Network))
            } else {
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    let id = b.add_new(NewNotice::new("sync", 1).unwrap().trace_context(PARENT)).await.id();
    for (attempt, pause) in [(1, 1), (2, 3600)] {
        eventually("it failed", async || {
            let record = record(b, id).await;
            (record.fence, record.status) == (attempt, Status::Failed)
        })
        .await;
        sweeper.idle().await;
        b.clock().advance(Duration::from_secs(pause));
    }
    reaches(b, id, Status::Succeeded).await;
    let attempts = exported.attempts(id, 3).await;
    let trace = |span: &SpanData| span.span_context.trace_id().to_string();
    let producer = "4bf92f3577b34da6a3ce929d0e0e4736";
    assert_eq!((trace(&attempts[0]).as_str(), trace(&attempts[1]).as_str()), (producer, producer));
    assert_ne!(trace(&attempts[2]), producer);
    assert_eq!(attempts[2].links[0].span_context.trace_id().to_string(), producer);
    assert_eq!(
        (attribute(&attempts[0], "result"), attribute(&attempts[0], "class")),
        ("failed".into(), "network".into())
    );
    assert!(matches!(attempts[0].status, SpanStatus::Error { .. }), "{:?}", attempts[0].status);
    assert_eq!(attempts[2].status, SpanStatus::Unset);
    sweeper.shutdown().await;
}

async fn a_trace_context_that_cannot_be_read_is_ignored(b: &dyn Backend) {
    let exported = Exported::start();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let seen = Calls::default();
    let noted = seen.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.trace_context().map(str::to_owned));
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let zeros = "00-00000000000000000000000000000000-0000000000000000-01";
    for text in ["nonsense", "", "00-4bf9-00f0-01", zeros, "ü-ü-ü-ü"] {
        let id = b.add_new(NewNotice::new("sync", 1).unwrap().trace_context(text)).await.id();
        reaches(b, id, Status::Succeeded).await;
        let attempt = exported.attempts(id, 1).await.remove(0);
        assert!(attempt.links.is_empty(), "{text}");
        assert_eq!(seen.all().last().unwrap().as_deref(), Some(text), "the handler gets the stored trace context");
    }
    sweeper.shutdown().await;
}

macro_rules! span_suite {
    ($run:ident) => {
        span_suite! { @cases $run;
            the_trace_of_the_producer_goes_on_in_the_handler,
            a_retry_much_later_is_a_trace_of_its_own_with_a_link,
            a_trace_context_that_cannot_be_read_is_ignored,
        }
    };
    (@cases $run:ident; $($case:ident,)+) => {
        $(#[test]
        fn $case() {
            $run(|backend| Box::pin(crate::observing::spans::$case(backend)));
        })+
    };
}
// The subscriber is that of one thread.
test_support::on_each_store!(span_suite, 1);

async fn a_producer_in_plain_sql_gives_its_trace<D: Database>(statement: &str) {
    let exported = Exported::start();
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    db.sql(&statement.replace("TRACE", PARENT)).await;
    let seen = Calls::default();
    let noted = seen.clone();
    let sweeper = db
        .outbox
        .sweeper()
        .handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.id());
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    eventually("it is sent", async || seen.count() == 1).await;
    let attempt = exported.attempts(seen.all()[0], 1).await.remove(0);
    assert_eq!(attempt.span_context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(attempt.parent_span_id.to_string(), "00f067aa0ba902b7");
    sweeper.shutdown().await;
    db.close().await;
}

macro_rules! plain_sql {
    ($($module:ident $database:ident $statement:literal;)+) => {
        $(mod $module {
            #[tokio::test]
            async fn plain_sql_gives_its_trace() {
                super::a_producer_in_plain_sql_gives_its_trace::<test_support::$database>($statement).await;
            }
        })+
    };
}
plain_sql! {
    on_sqlite Sqlite "INSERT INTO notify_add (name, param, trace_context) VALUES ('sync', '1', 'TRACE')";
    on_postgres Postgres "SELECT notify_add('sync', '1', trace_context => 'TRACE')";
    on_mariadb MariaDb "CALL notify_add_with('sync', '1', NULL, NULL, NULL, NULL, NULL, 'TRACE', NULL, NULL, NULL, @id)";
    on_mysql MySql "CALL notify_add_with('sync', '1', NULL, NULL, NULL, NULL, NULL, 'TRACE', NULL, NULL, NULL, @id)";
}
