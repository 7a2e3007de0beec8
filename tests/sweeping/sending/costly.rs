//! Filters and masks that take many steps: they wait for a thread, but not beyond the time-out and the shutdown, and never on a thread of the
//! runtime.

use std::io;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::{AnyOutbox, Failure, NewNotice, Notice, NoticeRecord, NotifyDef, OutboxExt, Response, Status};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, eventually, reaches, record, update};

use super::targets::{MINUTE, define, got, off, order, sending, target};

const SECRET: &str = "4111-2222-secret";

/// A parameter that takes more steps than one may take on a thread of the runtime.
fn large() -> Value {
    json!({ "amount": 1, "card": SECRET, "all": vec![0; 60_000] })
}

/// Work of a definition that ends when this is dropped.
struct Hold {
    _end: Sender<()>,
    /// Calls that wait for the same place.
    _line: Vec<Call>,
}

type Call = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Takes the one place of a definition, with so many others in line.
async fn hold(outbox: &AnyOutbox, definition: &'static str, others: usize) -> Hold {
    let (end, ends) = channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let of_work = outbox.clone();
    let work = move || {
        let _ = begun.send(());
        let _ = ends.recv();
        Ok(())
    };
    tokio::spawn(async move { of_work.engine().computing().run(definition, work).await });
    has_begun.await.unwrap();
    let mut line: Vec<Call> = Vec::new();
    for _ in 0..others {
        let outbox = outbox.clone();
        let mut call = Box::pin(async move { outbox.engine().computing().run(definition, || Ok(())).await });
        assert!(tokio::time::timeout(Duration::ZERO, &mut call).await.is_err(), "it waits");
        line.push(call);
    }
    Hold { _end: end, _line: line }
}

/// How many calls wait behind one, so that the next one does not.
const FEW: usize = 3;

async fn add(b: &dyn Backend, name: &str) -> i64 {
    b.add_new(NewNotice::new(name, large()).unwrap()).await.id()
}

fn is_untried(notice: &NoticeRecord) -> bool {
    (notice.status, notice.failures, notice.crashes) == (Status::NotSent, 0, 0)
}

/// A target and a definition whose notices are passed on, each with a filter that takes many steps.
async fn with_filter(b: &dyn Backend, timeout: &str) {
    define(b, order().timeout(timeout), &[target("erp").target_filter("@.amount > 0").timeout(timeout)]).await;
}

pub async fn waiting_for_a_filter_ends_with_the_shutdown(b: &dyn Backend) {
    with_filter(b, "1h").await;
    let calls = Calls::default();
    for name in ["order", "order/erp"] {
        let held = hold(b.outbox(), name, 0).await;
        let sweeper = sending(b, &calls, &off()).shutdown_grace(Duration::from_millis(20)).start().await.unwrap();
        let id = add(b, name).await;
        reaches(b, id, Status::Sending).await;
        sweeper.shutdown().await;
        let back = record(b, id).await;
        assert!(is_untried(&back) && back.next_call_time == Some(b.clock().now()), "{back:?}");
        drop(held);
        let sweeper = sending(b, &calls, &off()).start().await.unwrap();
        reaches(b, id, Status::Succeeded).await;
        sweeper.idle().await;
        sweeper.shutdown().await;
    }
    assert_eq!(got(&calls, 1), ["erp", "erp"]);
}

pub async fn waiting_for_a_filter_ends_with_the_time_out(b: &dyn Backend) {
    with_filter(b, "50ms").await;
    is_handed_back_uncounted(b, 0).await;
}

pub async fn few_notices_wait_for_a_filter(b: &dyn Backend) {
    with_filter(b, "1h").await;
    is_handed_back_uncounted(b, FEW).await;
}

async fn is_handed_back_uncounted(b: &dyn Backend, others: usize) {
    let calls = Calls::default();
    let sweeper = sending(b, &calls, &off()).start().await.unwrap();
    for name in ["order", "order/erp"] {
        let held = hold(b.outbox(), name, others).await;
        let id = add(b, name).await;
        let is_back = async || {
            let notice = record(b, id).await;
            is_untried(&notice) && notice.fence > 0 && notice.next_call_time > Some(b.clock().now())
        };
        eventually("it waits", is_back).await;
        // Now there is time for it.
        update(b, name, |def| def.timeout("1h")).await;
        drop(held);
        b.clock().advance(MINUTE);
        b.outbox().wake();
        reaches(b, id, Status::Succeeded).await;
    }
    eventually("both are sent", async || got(&calls, 1) == ["erp", "erp"]).await;
    sweeper.shutdown().await;
}

/// Fails with texts that have the secret.
async fn fail(notice: Notice<Value>) -> Result<(), Failure> {
    notice.set_description(format!("card {SECRET}"));
    notice.set_response(Response::new(422).body(format!("{{\"card\":\"{SECRET}\"}}")));
    Err(Failure::give_up(format!("card {SECRET} is refused")))
}

fn texts(notice: &NoticeRecord) -> [String; 4] {
    let response = notice.response.as_ref().unwrap().response.to_string();
    let described = notice.description.clone().unwrap();
    [notice.errors[0].message.clone(), notice.end_reason.clone().unwrap(), described, response]
}

pub async fn texts_that_no_thread_searches_are_hidden_as_a_whole(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").mask(r#"["$.card"]"#)).await.unwrap();
    let sweeper = b.outbox().sweeper().handler("sync", fail).start().await.unwrap();
    let refused = "card *** is refused";
    let expected = [refused, &format!("the handler gave up: {refused}"), "card ***", r#"422: {"card":"***"}"#];
    // Other tests may have the processors for long.
    let is_searched = async || {
        let searched = add(b, "sync").await;
        texts(&reaches(b, searched, Status::DeadLetter).await) == expected
    };
    eventually("texts are searched", is_searched).await;
    let held = hold(b.outbox(), "sync", FEW).await;
    let hidden = add(b, "sync").await;
    let shown = texts(&reaches(b, hidden, Status::DeadLetter).await);
    assert_eq!(shown, ["***", "the handler gave up: ***", "***", "422: ***"]);
    drop(held);
    sweeper.shutdown().await;
}

pub async fn operator_reads_a_costly_mask_off_the_runtime(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").mask(r#"["$.card"]"#)).await.unwrap();
    let id = add(b, "sync").await;
    let held = hold(b.outbox(), "sync", 0).await;
    let alice = b.outbox().operator("alice");
    let mut seen = Box::pin(alice.show(id));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut seen).await;
    assert!(early.is_err(), "it waits for the thread");
    drop(held);
    let shown = seen.await.unwrap().unwrap().param;
    assert!(shown.contains(r#""card":"***""#) && !shown.contains(SECRET));
}
