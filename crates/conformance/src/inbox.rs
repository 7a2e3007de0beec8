//! The idempotency keys that receivers have seen.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::store::Purge;
use solid_notify_core::{Error, Inbox};

use super::Backend;

const DAY: Duration = Duration::from_secs(86_400);

async fn first_time(b: &dyn Backend, receiver: &str, key: &str) -> bool {
    b.first_time(&Inbox::new(receiver, "shop"), key, true).await.unwrap()
}

pub async fn a_key_is_seen_for_the_first_time_once(b: &dyn Backend) {
    assert!(first_time(b, "warehouse", "7").await);
    for _ in 0..2 {
        assert!(!first_time(b, "warehouse", "7").await);
    }
    // Keys are compared byte by byte.
    for other in ["8", "é", "É", "e", "7 ", " 7", "'", "\\", "😀"] {
        assert!(first_time(b, "warehouse", other).await, "{other:?}");
        assert!(!first_time(b, "warehouse", other).await, "{other:?}");
    }
}

pub async fn a_rolled_back_mark_leaves_the_key_free(b: &dyn Backend) {
    let inbox = Inbox::new("warehouse", "shop");
    for _ in 0..2 {
        assert!(b.first_time(&inbox, "7", false).await.unwrap());
    }
    assert!(b.first_time(&inbox, "7", true).await.unwrap());
    assert!(!b.first_time(&inbox, "7", false).await.unwrap());
    assert!(!b.first_time(&inbox, "7", true).await.unwrap(), "the mark is still there");
}

pub async fn receivers_and_senders_share_no_keys(b: &dyn Backend) {
    for (receiver, sender, key) in [
        ("ab", "s", "c"),
        ("a", "s", "bc"),
        ("A", "s", "bc"),
        ("a", "s", "b"),
        ("bc", "s", "a"),
        ("a", "sb", "c"),
        ("as", "b", "c"),
        ("a", "S", "bc"),
    ] {
        for first in [true, false] {
            let seen = b.first_time(&Inbox::new(receiver, sender), key, true).await.unwrap();
            assert_eq!(seen, first, "{receiver} {sender} {key}");
        }
    }
}

pub async fn keys_that_some_store_cannot_keep_are_refused(b: &dyn Backend) {
    let longest = "😀".repeat(200);
    for first in [true, false] {
        assert_eq!(b.first_time(&Inbox::new(&longest, &longest), &longest, true).await.unwrap(), first);
    }
    for (receiver, sender, key, what) in [
        ("warehouse", "shop", "", "idempotency key: it has 0 characters"),
        (
            "warehouse",
            "shop",
            "a\0b",
            "idempotency key: it has 3 characters; it may have 1 to 200, and no NUL character",
        ),
        ("warehouse", "shop", &"k".repeat(201), "idempotency key: it has 201 characters"),
        ("", "shop", "7", "receiver of an inbox: it has 0 characters"),
        ("warehouse", "", "7", "sender of a delivery: it has 0 characters"),
    ] {
        let error = b.first_time(&Inbox::new(receiver, sender), key, true).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }) && error.to_string().starts_with(what), "{error}");
    }
}

pub async fn old_keys_are_purged_in_steps_and_free_again(b: &dyn Backend) {
    for key in ["1", "2", "3", "4", "5"] {
        assert!(first_time(b, "warehouse", key).await);
        b.clock().advance(Duration::from_secs(1));
    }
    b.clock().advance(DAY);
    assert!(first_time(b, "warehouse", "young").await);
    assert!(!first_time(b, "warehouse", "1").await, "a repetition does not make a key younger");
    let step = Purge::Inbox { older_than: DAY, limit: 3 };
    let purge = async || b.stores().send.purge(&step).await.unwrap().len();
    assert_eq!(purge().await, 3);
    assert!(first_time(b, "warehouse", "3").await, "the oldest first");
    assert!(!first_time(b, "warehouse", "4").await);
    assert_eq!((purge().await, purge().await), (2, 0));
    for (key, is_free) in [("4", true), ("5", true), ("3", false), ("young", false)] {
        assert_eq!(first_time(b, "warehouse", key).await, is_free, "{key}");
    }
}
