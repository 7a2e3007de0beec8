//! The column `mask`: handlers get the whole parameter, and no way out to people shows a masked value.

use serde_json::{Value, json};
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::operate::{AuditFilter, Rate};
use solid_notify::{Alert, Failure, Filter, NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::log::Log;
use test_support::sending::{Calls, PATIENCE, definition, edit_by_hand, eventually, reaches, record};

const SECRET: &str = "4111-2222-secret";

/// Fails in the way that the parameter says, each time with a text that has the secret.
async fn fail(notice: Notice<Value>) -> Result<(), Failure> {
    tracing::warn!("masks: got {notice:?}");
    let secret = notice.param()["card"]["number"].as_str().unwrap().to_owned();
    assert_eq!(secret, SECRET, "the handler gets the whole parameter");
    notice.set_description(format!("card {secret}"));
    let text = format!("card {secret} is refused");
    match notice.param()["then"].as_str().unwrap() {
        "retry" => Err(Failure::retry(text)),
        "give up" => Err(Failure::give_up(text)),
        "skip" => Err(Failure::skip(text)),
        _ => panic!("{text}"),
    }
}

pub async fn masked_value_is_on_no_way_out_to_people(b: &dyn Backend) {
    let log = Log::start();
    let def = NotifyDef::new("sync").mask(r#"["$.card.number", "$..iban"]"#).retry_interval("1h");
    b.outbox().define_if_missing(def.alert_trigger_type("each_failure").alert_cooldown("1ms")).await.unwrap();
    let alerts = Calls::default();
    let told = alerts.clone();
    let builder = b.outbox().sweeper().handler("sync", fail).handler(ALERT_DEFINITION, move |alert: Notice<Alert>| {
        told.note(alert.param().text());
        async { Ok(()) }
    });
    let sweeper = builder.start().await.unwrap();
    let alice = b.outbox().operator("alice");
    let mut shown = Vec::new();
    let ends = [("retry", Status::Failed), ("give up", Status::DeadLetter), ("skip", Status::Cancelled)];
    for (then, end) in ends.into_iter().chain([("panic", Status::Failed)]) {
        let param = json!({ "then": then, "card": { "number": SECRET, "month": 7 }, "to": [{ "iban": SECRET }] });
        let notice = NewNotice::new("sync", &param).unwrap().description(format!("order of {SECRET}"));
        shown.push(format!("{notice:?}"));
        let receipt = b.add_new(notice).await;
        let id = receipt.id();
        reaches(b, id, end).await;
        let whole = b.outbox().find(id).await.unwrap().unwrap();
        assert!(whole.param.contains(SECRET), "the application gets the whole parameter");
        let notice = alice.show(id).await.unwrap().unwrap();
        let expected = json!({ "then": then, "card": { "number": "***", "month": 7 }, "to": [{ "iban": "***" }] });
        assert_eq!(serde_json::from_str::<Value>(&notice.param).unwrap(), expected);
        assert_eq!(notice.description.as_deref(), Some("card ***"));
        let json = serde_json::to_string(&notice).unwrap();
        shown.extend([format!("{whole:?} {notice:?}"), notice.param.clone(), json]);
        shown.extend(notice.errors.iter().map(|error| format!("{error:?}")));
        // The stored texts, which lists, views and reports show, too.
        shown.extend(whole.errors.iter().map(|error| format!("{error:?}")));
        shown.extend([whole.description, whole.end_reason].into_iter().flatten());
        let explained = alice.explain(id).await.unwrap();
        shown.push(format!("{explained} {explained:?}"));
        shown.push(format!("{:?}", receipt.first_attempt(PATIENCE).await));
    }
    // Of a failure and of a final failure; the panic is within the cool-down of the former.
    eventually("two alerts", async || alerts.count() >= 2).await;
    assert!(alerts.all().iter().any(|text| text.contains("card *** is refused")), "{:?}", alerts.all());
    shown.extend(alerts.all());
    for filter in [Filter::dead_letters(), Filter::cancelled(), Filter::status(Status::Failed).definition("sync")] {
        let page = alice.list(&filter, None, 50).await.unwrap();
        shown.push(format!("{page:?}"));
        assert!(!page.notices.is_empty());
        shown.push(format!("{:?}", alice.preview(&filter).await.unwrap()));
    }
    let dead = alice.list(&Filter::dead_letters(), None, 1).await.unwrap().notices.remove(0).id;
    sweeper.shutdown().await;
    assert!(alice.edit(dead, json!({ "card": { "number": SECRET } })).await.unwrap().is_applied());
    let rate: Rate = "100/1m".parse().unwrap();
    shown.push(format!("{:?}", alice.retry_all(&Filter::cancelled(), rate).await.unwrap()));
    shown.push(format!("{:?}", alice.audit(&AuditFilter::all(), None, 100).await.unwrap()));
    let row = definition(b, "sync").await;
    shown.push(format!("{:?}", alice.preview_edit(&row, &row.clone().timeout("9s")).await.unwrap()));
    shown.extend(log.all());
    assert!(log.all().iter().any(|line| line.contains("masks: got") && line.contains("***")));
    for text in shown {
        assert!(!text.contains(SECRET), "{text}");
    }
}

pub async fn wrong_or_later_mask_shows_nothing_that_it_may_hide(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let id = b.add_new(NewNotice::new("sync", json!({ "card": SECRET })).unwrap().description(SECRET)).await.id();
    let shown = async || b.outbox().operator("alice").show(id).await.unwrap().unwrap();
    assert_eq!(shown().await.param, record(b, id).await.param, "without a mask all of it is shown");
    edit_by_hand(b, "sync", |def| def.mask("$.card")).await;
    assert_eq!(shown().await.param, "\"***\"");
    edit_by_hand(b, "sync", |def| def.mask(r#"["$.card"]"#)).await;
    let notice = shown().await;
    assert_eq!((&*notice.param, notice.description.as_deref()), (r#"{"card":"***"}"#, Some("***")));
}
