//! The chapter "JSON": each block is what the types of the library become, from a small story in memory.
//!
//! With `WRITE_DOCUMENTS=1` in the environment the blocks are written instead of compared.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use solid_notify::operate::{AuditFilter, DefinitionCounts, NoticeCounts, SeriesCounts};
use solid_notify::testkit::{HandClock, MemoryOutbox, TestSweeper};
use solid_notify::{ErrorClass, Failure, Filter, NewNotice, Notice, NotifyDef, Operator, OutboxExt, Response, Status};
use solid_notify_core::store::SeriesRow;
use test_support::sending::eventually;

const CHAPTER: &str = "docs/src/json.md";

/// The blocks, by name.
#[derive(Default)]
struct Blocks(BTreeMap<&'static str, String>);

impl Blocks {
    fn add(&mut self, name: &'static str, shown: &impl Serialize, node: &str) {
        let text = with_measured(&serde_json::to_string_pretty(shown).unwrap()).replace(node, "node-1");
        assert!(self.0.insert(name, text).is_none(), "the block {name} occurs twice");
    }
}

/// Replaces a duration that was measured.
fn with_measured(json: &str) -> String {
    const NAME: &str = "\"duration_ms\": ";
    let mut parts = json.split(NAME);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(&format!("{NAME}83{}", part.trim_start_matches(|digit: char| digit.is_ascii_digit())));
    }
    shown
}

async fn story() -> Blocks {
    let mut blocks = Blocks::default();
    let clock = HandClock::new("2026-11-21T12:00:00Z".parse().unwrap());
    let outbox = MemoryOutbox::builder().clock(clock).build();
    let alice: Operator = outbox.operator("alice");
    outbox.define_if_missing(NotifyDef::new("sync_order").retry_interval("[5s,5m]")).await.unwrap();
    let handlers = outbox
        .sweeper()
        .node_name("node")
        .handler("sync_order", |notice: Notice<Value>| async move {
            match notice.param()["order"].as_i64() {
                Some(7) => {
                    notice.set_response(Response::new(404).body(r#"{"error":"unknown customer"}"#));
                    Err(Failure::give_up("the customer does not exist").class(ErrorClass::Invalid))
                }
                _ => Err(Failure::retry("connection refused").class(ErrorClass::Network)),
            }
        })
        .handler("notify.alert", |_: Notice<Value>| async { Ok(()) });
    let sweeper = TestSweeper::start(handlers).await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    let new = NewNotice::new("sync_order", json!({"order": 7, "state": "booked"})).unwrap();
    let dead = new.description("order 7").ordering_key("customer 4711").add(&mut tx).await.unwrap().id();
    let new = NewNotice::new("sync_order", json!({"order": 8})).unwrap();
    let failed = new.tag("order:8").add(&mut tx).await.unwrap().id();
    tx.commit().await.unwrap();
    let tally = sweeper.drain().await;

    eventually("the node has reported", async || !alice.nodes().await.unwrap().is_empty()).await;
    let node = alice.nodes().await.unwrap().remove(0).id;
    let filter = Filter::dead_letters().definition("sync_order");
    blocks.add("Tally", &tally, &node);
    let findings = alice.examine().await;
    blocks.add("Finding", &findings.iter().find(|finding| finding.check == "dead_letters").unwrap(), &node);
    blocks.add("SeenNode", &alice.nodes().await.unwrap()[0], &node);
    blocks.add("NoticeRecord", &alice.show(dead).await.unwrap(), &node);
    blocks.add("Page", &alice.list(&filter, None, 50).await.unwrap(), &node);
    blocks.add("ClassCount", &alice.counts(&filter).await.unwrap(), &node);
    blocks.add("Preview", &alice.preview(&filter).await.unwrap(), &node);
    blocks.add("Explanation", &alice.explain(failed).await.unwrap(), &node);
    blocks.add("ErrorGroup", &alice.groups(&filter).await.unwrap()[0], &node);
    blocks.add("OpenAlert", &alice.open_alerts(10).await.unwrap(), &node);
    let now = "2026-11-21T12:00:07Z".parse().unwrap();
    let (counts, next) = (Some((NoticeCounts::default(), now)), Some(now + Duration::from_secs(30)));
    blocks.add("DefinitionCounts", &DefinitionCounts::new((1, "sync_order".to_owned()), counts, next, now), &node);

    let row = alice.definition("sync_order").await.unwrap();
    let new = row.clone().retry_interval("[1m]").max_retry_times(1);
    blocks.add("EditPreview", &alice.preview_edit(&row, &new).await.unwrap(), &node);
    blocks.add("Updated", &alice.edit_definition(&row, new).await.unwrap(), &node);
    let mut versions = alice.versions("sync_order").await.unwrap();
    blocks.add(
        "Difference",
        &json!({ "differences": serde_json::to_value(versions.remove(0)).unwrap()["differences"] }),
        &node,
    );
    let states = outbox.definitions().await.unwrap();
    let state = states.iter().find(|state| state.row.name == "sync_order").unwrap();
    let mut state = serde_json::to_value(state).unwrap();
    state["row"] = json!("…");
    blocks.add("DefinitionState", &state, &node);

    blocks.add("AckResult", &outbox.ack(1_000_000).await.unwrap(), &node);
    let result = alice.cancel(dead, "the order was deleted").await.unwrap();
    blocks.add("VerbResult", &[alice.retry(1_000_000).await.unwrap(), result], &node);
    let waiting = Filter::status(Status::Failed).definition("sync_order");
    let act = alice.start_cancel_all(&waiting, "ordered by mistake", "100/1m".parse().unwrap()).await.unwrap();
    sweeper.drain().await;
    blocks.add("BulkProgress", &act.progress().await.unwrap(), &node);
    blocks.add("Bulk", &alice.retry_all(&filter, "100/1m".parse().unwrap()).await.unwrap(), &node);
    let of_notice = AuditFilter::all().notice(dead);
    let audit = alice.audit(&of_notice, None, 1).await.unwrap();
    blocks.add("AuditPage", &audit, &node);
    sweeper.advance(Duration::from_secs(1)).await;
    let mut counts = SeriesCounts::default();
    (counts.succeeded, counts.failed, counts.timed) = (118, 2, 120);
    (counts.duration_ms, counts.duration_max_ms, counts.delivery_ms) = (9_840, 312, 11_210);
    (counts.delivery_max_ms, counts.late_max_ms) = (5_321, 14);
    let (minute, def_id) = ("2026-11-21T12:00:00Z".parse().unwrap(), row.id);
    let stores = outbox.engine().stores();
    stores.send.write_series("another", &[SeriesRow { def_id, minute, counts }]).await.unwrap();
    let step = Duration::from_secs(60);
    let points = alice.series(Some("sync_order"), minute, minute + step, step).await.unwrap();
    let text = serde_json::to_string_pretty(&points[0]).unwrap();
    blocks.0.insert("SeriesPoint", text);
    outbox.define_if_missing(NotifyDef::new("push").breaker_failures(10)).await.unwrap();
    blocks.add("Circuit", &alice.circuits().await.unwrap()[0], &node);
    blocks
}

#[tokio::test]
async fn the_chapter_on_json_shows_what_the_types_become() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join(CHAPTER);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut blocks = story().await.0;
    let mut written = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("<!-- json ") {
        let (name, after) = after.split_once(" -->\n```json\n").expect("a block of JSON follows its name");
        let (_, after) = after.split_once("```\n").expect("the block ends");
        let json =
            blocks.remove(name).unwrap_or_else(|| panic!("{CHAPTER} names {name:?}, of which there is no block"));
        written.push_str(&format!("{before}<!-- json {name} -->\n```json\n{json}\n```\n"));
        rest = after;
    }
    written.push_str(rest);
    assert!(blocks.is_empty(), "{CHAPTER} lacks {:?}", blocks.keys());
    if std::env::var_os("WRITE_DOCUMENTS").is_some() {
        std::fs::write(&path, written).unwrap();
    } else {
        assert_eq!(text, written, "write {CHAPTER} anew with WRITE_DOCUMENTS=1");
    }
}
