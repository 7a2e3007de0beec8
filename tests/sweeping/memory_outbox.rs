//! What the testkit does beyond the store: messages of `assert_added`, and edits of a row behind the back of sweepers.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use serde_json::json;
use solid_notify::{NotifyDef, add_notice};
use solid_notify_testkit::{Expectation, MemoryOutbox, assert_added};

async fn outbox(params: impl IntoIterator<Item = serde_json::Value>) -> MemoryOutbox {
    let outbox = MemoryOutbox::new();
    outbox.define_if_missing(NotifyDef::new("sync_to_omp")).await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    for param in params {
        add_notice(&mut tx, "sync_to_omp", param).await.unwrap();
    }
    tx.commit().await.unwrap();
    outbox
}

/// The message of an assertion that must fail.
async fn message(assertion: Expectation<'_>) -> String {
    let panic = AssertUnwindSafe(assertion.into_future()).catch_unwind().await.unwrap_err();
    *panic.downcast::<String>().unwrap()
}

#[tokio::test]
async fn a_parameter_has_the_members_that_are_named_and_is_equal_otherwise() {
    let added = outbox([json!({"order": 7, "to": {"city": "Ulm", "zip": 89073}, "lines": [1, 2]})]).await;
    for expected in [json!({}), json!({"order": 7}), json!({"to": {"city": "Ulm"}}), json!({"lines": [1, 2]})] {
        assert_added(&added, "sync_to_omp").with(expected).times(1).await;
    }
    for expected in [json!({"order": "7"}), json!({"to": {"street": 1}}), json!({"lines": [1]}), json!([]), json!(7)] {
        assert_added(&added, "sync_to_omp").with(expected).never().await;
    }
}

#[tokio::test]
async fn a_failed_assertion_is_reported_with_its_place() {
    let outbox = outbox([json!(5), json!(6)]).await;
    let failed = message(assert_added(&outbox, "sync_to_omp").with(7)).await;
    for part in ["memory_outbox.rs:", "with 7: expected one or more, found 0", "added were 2", "(NotSent): 5"] {
        assert!(failed.contains(part), "{part}: {failed}");
    }
    let failed = message(assert_added(&outbox, "sync_to_omp").never()).await;
    assert!(failed.contains("expected none, found 2"), "{failed}");
    assert_eq!(assert_added(&outbox, "sync_to_omp").times(2).await.len(), 2);
    assert_added(&outbox, "sync_to_omp").with(7).never().await;
}

#[tokio::test]
async fn an_unknown_definition_is_reported_with_the_nearest_name() {
    let outbox = outbox([]).await;
    let failed = message(assert_added(&outbox, "sync_to_imp").never()).await;
    assert!(failed.contains(r#"no definition "sync_to_imp"; did you mean "sync_to_omp"?"#), "{failed}");
}

#[tokio::test]
async fn more_notices_than_one_page_are_counted() {
    let outbox = outbox((0..1100).map(|number| json!(number))).await;
    let added = assert_added(&outbox, "sync_to_omp").times(1100).await;
    assert!(added.is_sorted_by_key(|record| record.id));
}

#[tokio::test]
async fn edit_by_hand_takes_numbers_of_older_conventions() {
    let outbox = outbox([]).await;
    let row = async || outbox.definitions().await.unwrap().remove(0).row;
    let seen = row().await;
    for (number, word) in ["final_failure", "each_failure", "never", "after_failures"].iter().enumerate() {
        let by_hand = seen.clone().alert_trigger_type(number.to_string()).max_confirm_delay("60");
        outbox.edit_by_hand(seen.id, Some(by_hand.max_retry_interval("-1")));
        let read = row().await;
        assert_eq!((read.alert_trigger_type.as_str(), read.max_confirm_delay.as_str()), (*word, "60s"));
        assert_eq!((read.max_retry_interval, read.create_time), (None, seen.create_time));
    }
}
