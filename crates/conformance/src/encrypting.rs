//! Definitions with `encrypt_param`: what a store keeps of a parameter.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::cipher::{CipherError, Ciphertext, ParamCipher, is_encrypted};
use solid_notify_core::notice::Status;
use solid_notify_core::operate::AuditFilter;
use solid_notify_core::store::verb::VerbResult;
use solid_notify_core::{Error, NewNotice, NoticeRecord, NotifyDef};

use super::{Backend, succeed};

/// What no store may keep.
const SECRET: &str = "4111-secret";

/// A cipher for these cases only: it shifts each byte, and puts the owner in front.
struct Shift;

impl ParamCipher for Shift {
    fn encrypt(&self, param: &[u8], owner: &[u8]) -> Result<Ciphertext, CipherError> {
        let bytes = owner.iter().chain(param).map(|byte| byte.wrapping_add(1)).collect();
        Ok(Ciphertext { key: "shift".to_owned(), bytes })
    }

    fn decrypt(&self, _: &str, bytes: &[u8], owner: &[u8]) -> Result<Vec<u8>, CipherError> {
        let bytes: Vec<u8> = bytes.iter().map(|byte| byte.wrapping_sub(1)).collect();
        bytes.strip_prefix(owner).map(<[u8]>::to_vec).ok_or(CipherError::Altered)
    }
}

fn secret(name: &str) -> NewNotice {
    NewNotice::new(name, SECRET).unwrap()
}

/// Returns the record as it is stored.
async fn stored(b: &dyn Backend, id: i64) -> NoticeRecord {
    b.stores().browse.find(id).await.unwrap().expect("a notice of this id")
}

async fn is_stored_encrypted(b: &dyn Backend, id: i64) {
    let record = stored(b, id).await;
    assert!(is_encrypted(&record.param) && !record.param.contains(SECRET), "{}", record.param);
    assert!(serde_json::to_string(&record).unwrap().contains(r#""param":"<encrypted>""#));
    assert_eq!(b.record(id).await.param, format!("\"{SECRET}\""), "the application gets the parameter");
}

pub async fn an_encrypting_definition_stores_no_plaintext(b: &dyn Backend) {
    b.outbox().use_param_cipher(Arc::new(Shift));
    let def_id = b.define(NotifyDef::new("sync").encrypt_param(true)).await;
    b.define(NotifyDef::new("plain")).await;
    let shapes = || {
        [
            secret("sync"),
            secret("sync").description("an order").ordering_key("a"),
            secret("sync").unique_until_ended(format!("key {}", number())),
            secret("sync").delay(Duration::from_secs(3600)),
            secret("sync").skipped("a test"),
        ]
    };
    let mut ids = Vec::new();
    // Some of them by an id that the process has cached.
    for round in 0..2 {
        for shape in shapes() {
            ids.push(b.add_new(shape).await.id());
        }
        ids.extend(b.add_many(shapes().to_vec()).await.unwrap().iter().map(|receipt| receipt.id()));
        if round == 0 {
            b.outbox().definitions().await.unwrap();
        }
    }
    for id in ids {
        is_stored_encrypted(b, id).await;
    }
    is_stored_encrypted(b, b.alice().test_send("sync", SECRET).await.unwrap()).await;
    let mixed = b.add_many(vec![secret("plain"), secret("sync"), secret("plain")]).await.unwrap();
    is_stored_encrypted(b, mixed[1].id()).await;
    for place in [0, 2] {
        assert_eq!(
            stored(b, mixed[place].id()).await.param,
            format!("\"{SECRET}\""),
            "another definition stores it as it is"
        );
    }
    let claimed = b.claim_slice(def_id, Status::NotSent, 1).await.remove(0);
    assert!(is_encrypted(&claimed.param), "a claim returns what is stored");
    b.settle_one(succeed(&claimed)).await;
    assert_eq!(stored(b, claimed.id).await.status, Status::Succeeded);
    is_stored_encrypted(b, claimed.id).await;
}

/// A number that no other call returns.
fn number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub async fn without_a_cipher_nothing_of_an_encrypting_definition_is_added(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").encrypt_param(true)).await;
    b.define(NotifyDef::new("plain")).await;
    assert!(matches!(b.alice().test_send("sync", SECRET).await, Err(Error::Encryption { .. })));
    for round in 0..2 {
        for notice in [secret("sync"), secret("sync").unique_until_ended("a"), secret("sync").description("an order")] {
            let error = b.add(notice).await.unwrap_err();
            assert!(matches!(error, Error::Encryption { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("use_param_cipher") && text.contains("NewNotice::param_cipher"), "{text}");
            assert!(!text.contains(SECRET), "{text}");
        }
        for pair in
            [vec![secret("plain"), secret("sync")], vec![secret("sync").unique_until_claimed("a"), secret("sync")]]
        {
            let error = b.add_many(pair).await.unwrap_err();
            assert!(matches!(error, Error::Encryption { .. }), "{error}");
        }
        if round == 0 {
            b.outbox().definitions().await.unwrap();
        }
    }
    assert!(b.claim_slice(def_id, Status::NotSent, 10).await.is_empty());
    let by_itself = b.add_new(secret("sync").param_cipher(Arc::new(Shift))).await.id();
    assert!(is_encrypted(&stored(b, by_itself).await.param), "its own cipher encrypts it");
    assert!(is_encrypted(&b.record(by_itself).await.param), "the outbox has no cipher to decrypt it");
    let own = b.add_many(vec![secret("sync").param_cipher(Arc::new(Shift)), secret("plain")]).await.unwrap();
    b.outbox().use_param_cipher(Arc::new(Shift));
    is_stored_encrypted(b, by_itself).await;
    is_stored_encrypted(b, own[0].id()).await;
}

pub async fn duplicates_are_found_where_parameters_are_encrypted(b: &dyn Backend) {
    b.outbox().use_param_cipher(Arc::new(Shift));
    b.define(NotifyDef::new("sync").encrypt_param(true)).await;
    for keyed in [|| secret("sync").unique_until_ended("ended"), || secret("sync").unique_until_claimed("claimed")] {
        let first = b.add_new(keyed()).await.id();
        let again = b.add(keyed()).await.unwrap();
        assert_eq!((again.is_duplicate(), again.id()), (true, first));
        let many = b.add_many(vec![secret("sync"), keyed(), keyed()]).await.unwrap();
        assert_eq!(many[1..].iter().map(|receipt| receipt.id()).collect::<Vec<_>>(), [first, first]);
        is_stored_encrypted(b, many[0].id()).await;
    }
}

pub async fn a_definition_encrypts_from_its_edit_on(b: &dyn Backend) {
    b.outbox().use_param_cipher(Arc::new(Shift));
    b.define(NotifyDef::new("sync")).await;
    let before = b.add_new(secret("sync")).await.id();
    assert_eq!(stored(b, before).await.param, format!("\"{SECRET}\""));
    let row = b.definition("sync").await;
    b.outbox().update(&row, row.clone().encrypt_param(true)).await.unwrap();
    let encrypted = b.add_new(secret("sync")).await.id();
    is_stored_encrypted(b, encrypted).await;
    // A definition that takes over the name has its own ciphertexts.
    let row = b.definition("sync").await;
    b.outbox().delete(&row).await.unwrap();
    let successor = b.define(NotifyDef::new("sync").encrypt_param(true)).await;
    assert_ne!(successor, row.id);
    let next = b.add_new(secret("sync")).await.id();
    is_stored_encrypted(b, next).await;
    is_stored_encrypted(b, encrypted).await;
    let row = b.definition("sync").await;
    b.outbox().update(&row, row.clone().encrypt_param(false)).await.unwrap();
    let after = b.add_new(secret("sync")).await.id();
    assert_eq!(stored(b, after).await.param, format!("\"{SECRET}\""));
}

pub async fn an_edited_parameter_is_encrypted_again(b: &dyn Backend) {
    b.define(NotifyDef::new("sync").encrypt_param(true)).await;
    let add = || NewNotice::new("sync", "4111-other").unwrap().param_cipher(Arc::new(Shift));
    let id = b.add_new(add()).await.id();
    let alice = b.outbox().operator("alice");
    let before = stored(b, id).await.param;
    let error = alice.edit(id, SECRET).await.unwrap_err();
    assert!(matches!(error, Error::Encryption { .. }), "{error}");
    assert_eq!(stored(b, id).await.param, before);
    assert_eq!(alice.show(id).await.unwrap().unwrap().param, "\"<encrypted>\"");
    b.outbox().use_param_cipher(Arc::new(Shift));
    assert_eq!(alice.edit(id, SECRET).await.unwrap(), VerbResult::Applied);
    is_stored_encrypted(b, id).await;
    assert_eq!(alice.show(id).await.unwrap().unwrap().param, format!("\"{SECRET}\""));
    // Also where the definition does not demand it any more.
    let row = b.definition("sync").await;
    b.outbox().update(&row, row.clone().encrypt_param(false)).await.unwrap();
    alice.cancel(id, "a test").await.unwrap();
    assert_eq!(alice.edit(id, SECRET).await.unwrap(), VerbResult::Applied);
    is_stored_encrypted(b, id).await;
    let audit = alice.audit(&AuditFilter::all(), None, 100).await.unwrap();
    assert!(!format!("{audit:?}").contains("4111"), "{audit:?}");
    assert_eq!(alice.edit(id + 7_000_000, SECRET).await.unwrap(), VerbResult::NotFound);
}

pub async fn the_limit_of_a_parameter_counts_what_was_given(b: &dyn Backend) {
    b.outbox().use_param_cipher(Arc::new(Shift));
    b.define(NotifyDef::new("sync").encrypt_param(true)).await;
    let limited = |bytes: usize| secret("sync").param_limit(bytes);
    let length = SECRET.len() + 2;
    is_stored_encrypted(b, b.add_new(limited(length)).await.id()).await;
    let error = b.add(limited(length - 1)).await.unwrap_err();
    assert!(error.to_string().contains(&format!("has {length} bytes")), "{error}");
    let marked =
        NewNotice::new("sync", serde_json::json!({ "$encrypted": "shift", "ciphertext": "", "definition": 1 }))
            .unwrap();
    let error = b.add(marked).await.unwrap_err();
    assert!(matches!(error, Error::InvalidNotice { .. }) && error.to_string().contains("$encrypted"), "{error}");
}
