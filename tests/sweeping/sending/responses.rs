//! What a handler reports of its receiver's response is kept with the outcome of the attempt.

use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::{Failure, HttpStatus, NewNotice, Notice, NoticeRecord, NotifyDef, OutboxExt, Response, Status};
use solid_notify_conformance::Backend;
use test_support::sending::{reaches, record};

fn text(record: &NoticeRecord) -> Option<String> {
    record.response.as_ref().map(|last| last.response.to_string())
}

/// Sends one notice with this parameter once.
async fn send_one<F, T>(b: &dyn Backend, def: NotifyDef, param: Value, handler: F) -> NoticeRecord
where
    F: Fn(Notice<Value>) -> T + Send + Sync + 'static,
    T: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let name = def.name.clone();
    b.outbox().define_if_missing(def).await.unwrap();
    let id = b.add_new(NewNotice::new(&name, param).unwrap()).await.id();
    b.outbox().sweeper().handler(name, handler).run_until_idle().await.unwrap();
    record(b, id).await
}

pub async fn what_the_receiver_answered_is_kept_for_failures_and_successes(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1s")).await.unwrap();
    let id = b.add_new(NewNotice::new("sync", 1).unwrap()).await.id();
    let sweeper = b.outbox().sweeper().handler("sync", |notice: Notice<i64>| async move {
        notice.set_response(Response::new("a first answer"));
        match notice.attempt() {
            1 => {
                notice.set_response(Response::new("QUOTA").body("over the quota\u{1}"));
                Err(Failure::retry("refused"))
            }
            2 => Err(Failure::retry("refused again")),
            _ => {
                notice.set_response(Response::new(201).body("stored"));
                Ok(())
            }
        }
    });
    let sweeper = sweeper.start().await.unwrap();
    let failed = reaches(b, id, Status::Failed).await;
    let last = failed.response.as_ref().unwrap();
    assert_eq!((last.attempt, last.fence, last.time), (1, 1, failed.last_call_time.unwrap()));
    assert_eq!(text(&failed).as_deref(), Some("QUOTA: over the quota\u{FFFD}"));
    assert_eq!(failed.errors[0].response.as_ref(), Some(&last.response));
    let alice = b.outbox().operator("alice");
    let explained = alice.explain(id).await.unwrap().to_string();
    assert!(
        explained.ends_with("the last error: refused; its receiver answered QUOTA: over the quota\u{FFFD}"),
        "{explained}"
    );
    for _ in 0..2 {
        b.clock().advance(Duration::from_secs(1));
        sweeper.idle().await;
    }
    let done = reaches(b, id, Status::Succeeded).await;
    assert_eq!((text(&done).as_deref(), done.response.as_ref().unwrap().attempt), (Some("201: stored"), 3));
    let shown: Vec<String> = done.errors.iter().map(|error| error.response.as_ref().unwrap().to_string()).collect();
    assert_eq!(shown, ["QUOTA: over the quota\u{FFFD}", "a first answer"]);
    let explained = alice.explain(id).await.unwrap().to_string();
    assert!(explained.ends_with("; its receiver answered 201: stored"), "{explained}");
    sweeper.shutdown().await;
}

pub async fn response_before_a_panic_or_a_time_out_is_kept(b: &dyn Backend) {
    let def = NotifyDef::new("panics").retry_interval("1h");
    let record = send_one(b, def, json!(1), |notice: Notice<Value>| async move {
        notice.set_response(Response::new(418));
        if notice.attempt() == 1 { panic!("in the handler") } else { Ok(()) }
    });
    assert_eq!(text(&record.await).as_deref(), Some("418"));
    let def = NotifyDef::new("hangs").retry_interval("1h").timeout("50ms");
    let record = send_one(b, def, json!(1), |notice: Notice<Value>| async move {
        notice.set_response(Response::new(100));
        std::future::pending().await
    });
    let record = record.await;
    assert_eq!((text(&record).as_deref(), record.last_class.as_deref()), (Some("100"), Some("timeout")));
    let fell_silent = NotifyDef::new("silent").retry_interval("1h");
    let record = send_one(b, fell_silent, json!(1), |_| async { Err(Failure::retry("no answer")) }).await;
    assert_eq!((record.response, record.errors[0].response.as_ref()), (None, None));
}

pub async fn status_of_an_http_error_is_kept_by_itself(b: &dyn Backend) {
    let def = NotifyDef::new("http").retry_interval("1h");
    let record = send_one(b, def, json!(1), |_| async { Err(HttpStatus(503).into()) }).await;
    assert_eq!(text(&record).as_deref(), Some("503"));
    assert_eq!(record.errors[0].response.as_ref().map(Response::status), Some("503"));
    let wrapped = NotifyDef::new("wrapped").retry_interval("1h");
    let record = send_one(b, wrapped, json!(1), |_| async {
        Err(anyhow::Error::new(HttpStatus(429)).context("posting the order").into())
    });
    assert_eq!(text(&record.await).as_deref(), Some("429"));
    let reported = NotifyDef::new("reported").retry_interval("1h");
    let record = send_one(b, reported, json!(1), |notice: Notice<Value>| async move {
        notice.set_response(Response::new("503").body("maintenance"));
        Err(HttpStatus(503).into())
    });
    assert_eq!(text(&record.await).as_deref(), Some("503: maintenance"));
}

pub async fn response_that_may_repeat_the_parameter_is_masked(b: &dyn Backend) {
    let param = json!({ "card": "4111-2222", "body": null });
    for (name, body, stored) in [
        ("json", r#"{"card":"4111-2222","text":"card 4111-2222"}"#, r#"422: {"card":"***","text":"card ***"}"#),
        ("text", "card 4111-2222 is refused", "422: ***"),
    ] {
        let def = NotifyDef::new(name).retry_interval("1h").mask(r#"["$.card"]"#);
        let record = send_one(b, def, param.clone(), move |notice: Notice<Value>| async move {
            notice.set_response(Response::new(422).body(body));
            Err(Failure::retry("refused"))
        });
        let record = record.await;
        assert_eq!(text(&record).as_deref(), Some(stored));
        assert_eq!(record.errors[0].response.as_ref().map(ToString::to_string).as_deref(), Some(stored));
    }
}
