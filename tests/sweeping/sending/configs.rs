//! `handler_config`: a handler's check pauses its definition instead of failing its notices.

use serde::Deserialize;
use solid_notify::alert::ALERT_DEFINITION;
use solid_notify::definition::{Refusal, SecretRef, read_config};
use solid_notify::{Error, Filter, Handler, HandlerResult, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::sending::{
    Calls, add, definition, edit_by_hand, eventually, reaches, record, refusal_of, refused_by,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    url: String,
    api_key: Option<SecretRef>,
}

/// Records the URL and the secret's reference of each attempt.
struct Partner(Calls<(String, Option<String>)>);

impl Handler for Partner {
    type Param = i64;

    fn check(&self, handler_config: Option<&str>) -> Result<(), String> {
        read_config::<Config>(handler_config).map(drop)
    }

    async fn handle(&self, notice: Notice<i64>) -> HandlerResult {
        let Config { url, api_key } = notice.config()?;
        self.0.note((url, api_key.map(|secret| secret.to_string())));
        Ok(())
    }
}

const RIGHT: &str = r#"{"url":"https://omp.example.org","api_key":"env:OMP_KEY"}"#;

pub async fn refused_config_pauses_its_definition_until_it_is_corrected(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("refused").handler("omp")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("sync").handler("omp").handler_config(RIGHT)).await.unwrap();
    edit_by_hand(b, "refused", |def| def.handler_config(r#"{"url":"x","api_key":"hunter2"}"#)).await;
    let calls = Calls::default();
    let builder = b.outbox().sweeper().node_name("node").handler_type("omp", Partner(calls.clone()));
    let sweeper = builder.start().await.unwrap();
    let (waits, sent) = (add(b, "refused").await, add(b, "sync").await);
    reaches(b, sent, Status::Succeeded).await;
    sweeper.idle().await;
    let untouched = record(b, waits).await;
    assert_eq!((untouched.status, untouched.fence, untouched.failures), (Status::NotSent, 0, 0));
    refusal_of(b.outbox(), "refused").await;
    let Refusal { node, problem, .. } = refused_by(b.outbox(), "refused").await.remove(0);
    assert!(node.starts_with("node"), "{node}");
    assert!(problem.starts_with("api_key: expected a reference") && !problem.contains("hunter2"), "{problem}");
    let explained = b.outbox().operator("alice").explain(waits).await.unwrap().to_string();
    assert!(explained.contains("the handler \"omp\" refuses") && explained.contains(&problem), "{explained}");
    let report = Filter::live().definition(ALERT_DEFINITION);
    eventually("people are alerted", async || {
        let waits = b.outbox().operator("alice").list(&report, None, 10).await.unwrap().notices;
        let ended = Filter::ended().definition(ALERT_DEFINITION);
        !waits.is_empty() || !b.outbox().operator("alice").list(&ended, None, 10).await.unwrap().notices.is_empty()
    })
    .await;
    edit_by_hand(b, "refused", |def| def.handler_config(RIGHT)).await;
    b.outbox().wake();
    reaches(b, waits, Status::Succeeded).await;
    eventually("the node reports that nothing is refused", async || refused_by(b.outbox(), "refused").await.is_empty())
        .await;
    let call = ("https://omp.example.org".to_owned(), Some("env:OMP_KEY".to_owned()));
    assert_eq!(calls.all(), [call.clone(), call]);
    sweeper.shutdown().await;
}

pub async fn definition_that_its_handler_refuses_is_not_stored(b: &dyn Backend) {
    let builder = b.outbox().sweeper().handler_type("omp", Partner(Calls::default()));
    let literal = r#"{"url":"https://omp.example.org","api_key":"hunter2"}"#;
    let wrong = NotifyDef::new("sync").handler("omp").handler_config(literal);
    let refusal = |error: Option<Error>| {
        let text = error.expect("the definition is refused").to_string();
        assert!(text.contains("handler_config") && text.contains("api_key: expected a reference"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    };
    refusal(b.outbox().define_if_missing(wrong.clone()).await.err());
    refusal(b.outbox().define_or_replace(wrong.clone()).await.err());
    b.outbox().define_if_missing(wrong.clone().handler_config(RIGHT)).await.unwrap();
    let row = definition(b, "sync").await;
    refusal(b.outbox().update(&row, row.clone().handler_config(literal)).await.err());
    refusal(b.outbox().operator("alice").edit_definition(&row, row.clone().handler_config(literal)).await.err());
    refusal(b.outbox().operator("alice").preview_edit(&row, &row.clone().handler_config(literal)).await.err());
    assert_eq!(b.outbox().operator("alice").versions("sync").await.unwrap().len(), 1);
    drop(builder);
}

pub async fn check_that_panics_refuses_the_config(b: &dyn Backend) {
    struct Broken;
    impl Handler for Broken {
        type Param = i64;

        fn check(&self, _: Option<&str>) -> Result<(), String> {
            panic!("of a test")
        }

        async fn handle(&self, _: Notice<i64>) -> HandlerResult {
            Ok(())
        }
    }
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = b.outbox().sweeper().handler_type("sync", Broken).start().await.unwrap();
    let id = add(b, "sync").await;
    sweeper.idle().await;
    assert_eq!(record(b, id).await.fence, 0);
    let row = NotifyDef::new("sync").timeout("7s").handler_config("{}");
    let error = b.outbox().define_or_replace(row).await.err().unwrap();
    assert!(error.to_string().contains("the handler's check panicked"), "{error}");
    sweeper.shutdown().await;
}
