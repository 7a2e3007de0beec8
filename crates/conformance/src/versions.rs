//! Versions of definitions: each edit by any means keeps one, and any version can be restored.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use futures_util::future::join_all;
use solid_notify_core::definition::DefVersion;
use solid_notify_core::error::Error;
use solid_notify_core::operate::AuditFilter;
use solid_notify_core::store::Purge;
use solid_notify_core::{NotifyDef, Updated};

use super::Backend;

const SECOND: Duration = Duration::from_secs(1);

#[allow(clippy::unwrap_used)]
impl dyn Backend + '_ {
    async fn versions(&self, def_id: i64) -> Vec<DefVersion> {
        self.alice().versions(def_id).await.unwrap()
    }

    /// Returns the acts of all versions, the latest first.
    async fn history_of(&self, def_id: i64) -> Vec<(i64, String, String)> {
        let versions = self.versions(def_id).await.into_iter();
        versions.map(|version| (version.version, version.who, version.act)).collect()
    }

    /// Does what a sweeper does when a reading of the definitions shows a change.
    async fn look_at_definitions(&self, node: &str) -> bool {
        let rows = self.stores().definitions.definitions().await.unwrap();
        self.outbox().engine().stores().definitions.remember(&rows, node).await.unwrap()
    }
}

/// Returns a line of [`Backend::history_of`].
fn line(version: i64, who: &str, act: &str) -> (i64, String, String) {
    (version, who.to_owned(), act.to_owned())
}

fn columns(version: &DefVersion) -> Vec<&'static str> {
    version.differences.iter().map(|(column, ..)| *column).collect()
}

pub async fn each_edit_keeps_one_version_with_who_made_it_and_what_it_changed(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync")).await;
    b.clock().advance(SECOND);
    let seen = b.alice().definition("sync").await.unwrap();
    let edited = b.alice().edit_definition(&seen, seen.clone().timeout("9s").enabled(false)).await.unwrap();
    let Updated::Stored(seen) = edited else { panic!("{edited:?}") };
    let Updated::Stored(seen) = b.outbox().update(&seen, seen.clone().enabled(true)).await.unwrap() else { panic!() };
    let bob = b.outbox().operator("bob");
    assert!(matches!(bob.delete_definition(&seen).await.unwrap(), Updated::Stored(_)));
    let expected = [
        line(4, "bob", "deleted"),
        line(3, "application", "edited"),
        line(2, "alice", "edited"),
        line(1, "application", "created"),
    ];
    assert_eq!(b.history_of(id).await, expected);
    let versions = b.versions(id).await;
    let changed: Vec<_> = versions.iter().map(columns).collect();
    assert_eq!(changed, [vec!["name", "handler"], vec!["enabled"], vec!["enabled", "timeout"], vec![]]);
    assert_eq!((versions[2].time, versions[2].row.timeout.as_str()), (b.clock().now(), "9s"));
    assert!(versions[0].row.delete_time.is_some() && versions[1].row.delete_time.is_none());
    let audit = b.audit(&AuditFilter::all()).await;
    let acts: Vec<_> = audit.iter().map(|entry| (entry.who.as_str(), entry.act.as_str())).collect();
    assert_eq!(acts, [("bob", "deleted"), ("application", "edited"), ("alice", "edited")]);
    assert!(audit.iter().all(|entry| entry.def_id == Some(id) && entry.notice_id.is_none()));
    assert_eq!(audit[2].detail.as_deref(), Some("definition \"sync\", version 2: enabled, timeout"));
    // The name is free, and the new definition starts without versions.
    let again = b.define(NotifyDef::new("sync")).await;
    assert_eq!(b.alice().versions("sync").await.unwrap().len(), 1);
    assert_eq!(b.history_of(again).await, [line(1, "application", "created")]);
    assert!(matches!(b.alice().versions("snyc").await, Err(Error::UnknownDefinition { nearest: Some(_), .. })));
}

pub async fn an_edit_that_changes_nothing_or_conflicts_keeps_no_version(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync")).await;
    let seen = b.definition("sync").await;
    assert!(matches!(b.alice().edit_definition(&seen, seen.clone()).await.unwrap(), Updated::Stored(_)));
    let mut stale = seen.clone();
    stale.timeout = "1s".to_owned();
    assert!(matches!(
        b.alice().edit_definition(&stale, seen.clone().timeout("2s")).await.unwrap(),
        Updated::Conflict(_)
    ));
    assert!(matches!(b.alice().delete_definition(&stale).await.unwrap(), Updated::Conflict(_)));
    b.define(NotifyDef::new("taken")).await;
    let mut renamed = seen.clone();
    renamed.name = "taken".to_owned();
    assert!(matches!(b.alice().edit_definition(&seen, renamed).await.unwrap(), Updated::Conflict(_)));
    b.outbox().define_if_missing(NotifyDef::new("sync").timeout("7s")).await.unwrap();
    assert!(b.alice().edit_definition(&seen, seen.clone().timeout("soon")).await.is_err());
    assert_eq!(b.history_of(id).await, [line(1, "application", "created")]);
    assert!(b.look_at_definitions("node").await, "there is no new version to keep");
    assert_eq!(b.history_of(id).await.len(), 1);
    assert!(b.audit(&AuditFilter::all()).await.is_empty());
}

pub async fn an_edit_by_hand_is_kept_once_though_many_see_it(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync")).await;
    let other = b.define(NotifyDef::new("other")).await;
    b.edit_by_hand(id, "timeout", "9s").await;
    b.clock().advance(SECOND);
    let nodes: Vec<String> = (0..8).map(|n| format!("node-{n}")).collect();
    // The nodes do not all get to it at the same moment: a node that finds the row locked looks again.
    join_all(nodes.iter().map(|node| b.look_at_definitions(node))).await;
    assert!(b.look_at_definitions("late").await);
    let versions = b.versions(id).await;
    assert_eq!(versions.len(), 2, "{versions:?}");
    assert_eq!((versions[0].act.as_str(), versions[0].row.timeout.as_str()), ("by hand", "9s"));
    assert!(versions[0].who.starts_with("by hand, seen by node-"), "{versions:?}");
    assert_eq!((columns(&versions[0]), versions[0].time), (vec!["timeout"], b.clock().now()));
    assert_eq!(b.history_of(other).await.len(), 1);
    let audit = b.audit(&AuditFilter::all()).await;
    assert_eq!((audit.len(), audit[0].act.as_str(), audit[0].def_id), (1, "by hand", Some(id)));
    // An edit back to the old value is an edit too.
    b.edit_by_hand(id, "timeout", "30s").await;
    assert!(b.look_at_definitions("late").await);
    assert_eq!(b.history_of(id).await[0], line(3, "by hand, seen by late", "by hand"));
}

pub async fn numbers_of_older_conventions_in_a_row_are_read_as_words(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync")).await;
    for (column, value) in [("alert_trigger_type", "3"), ("max_confirm_delay", "3600"), ("max_retry_interval", "30")] {
        b.edit_by_hand(id, column, value).await;
    }
    let words = |row: &NotifyDef| {
        (row.alert_trigger_type.clone(), row.max_confirm_delay.clone(), row.max_retry_interval.clone())
    };
    let expected = ("after_failures".to_owned(), "3600s".to_owned(), Some("30m".to_owned()));
    let row = b.alice().definition(id).await.unwrap();
    assert_eq!(words(&row), expected);
    assert!(row.policy().is_ok());
    assert!(b.look_at_definitions("node").await);
    assert_eq!(words(&b.versions(id).await[0].row), expected, "a version has words, too");
    // An editor who saw the words changes the row, and its numbers become words.
    let edited = b.alice().edit_definition(&row, row.clone().timeout("9s")).await.unwrap();
    assert!(matches!(&edited, Updated::Stored(row) if words(row) == expected), "{edited:?}");
    b.edit_by_hand(id, "max_retry_interval", "-1").await;
    assert_eq!(b.alice().definition(id).await.unwrap().max_retry_interval, None);
    for (number, word) in [("0", "final_failure"), ("1", "each_failure"), ("2", "never")] {
        b.edit_by_hand(id, "alert_trigger_type", number).await;
        let row = b.alice().definition(id).await.unwrap();
        assert_eq!(row.alert_trigger_type, word);
        assert!(row.policy().is_ok());
    }
    // Numbers without a meaning stay, and are reported. (Databases refuse another trigger.)
    for (column, value) in [("max_confirm_delay", "-1"), ("max_retry_interval", "0")] {
        let before = b.alice().definition(id).await.unwrap();
        b.edit_by_hand(id, column, value).await;
        let wrong = b.alice().definition(id).await.unwrap().policy().unwrap_err();
        assert_eq!((wrong.len(), wrong[0].column), (1, column));
        assert!(before.policy().is_ok());
        b.edit_by_hand(id, column, "1h").await;
    }
}

pub async fn a_row_deleted_by_hand_is_kept_once_as_deleted(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync").timeout("9s")).await;
    b.delete_by_hand(id).await;
    let nodes: Vec<String> = (0..8).map(|n| format!("node-{n}")).collect();
    let kept = join_all(nodes.iter().map(|node| b.look_at_definitions(node))).await;
    assert_eq!(kept, [true; 8]);
    let versions = b.versions(id).await;
    assert_eq!((versions.len(), versions[0].act.as_str()), (2, "by hand"), "{versions:?}");
    assert!(versions[0].row.delete_time.is_some());
    assert_eq!(
        (versions[0].row.name.as_str(), versions[0].row.timeout.as_str()),
        ("sync", "9s"),
        "its last values stay known"
    );
}

pub async fn an_edit_by_hand_becomes_a_version_before_it_is_overwritten(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync")).await;
    b.edit_by_hand(id, "timeout", "9s").await;
    let seen = b.definition("sync").await;
    assert!(matches!(b.alice().edit_definition(&seen, seen.clone().timeout("3s")).await.unwrap(), Updated::Stored(_)));
    let expected =
        [line(3, "alice", "edited"), line(2, "by hand, seen by alice", "by hand"), line(1, "application", "created")];
    assert_eq!(b.history_of(id).await, expected);
    let timeouts: Vec<String> = b.versions(id).await.into_iter().map(|version| version.row.timeout).collect();
    assert_eq!(timeouts, ["3s", "9s", "30s"]);
}

pub async fn an_operator_creates_a_definition_in_that_name(b: &dyn Backend) {
    let alice = b.alice();
    let wrong = alice.create_definition(NotifyDef::new("sync").timeout("soon")).await;
    assert!(matches!(wrong, Err(Error::InvalidDefinition { .. })), "{wrong:?}");
    let created = alice.create_definition(NotifyDef::new("sync").timeout("7s")).await.unwrap();
    let Updated::Stored(row) = created else { panic!("{created:?}") };
    assert_eq!((row.timeout.as_str(), b.definition("sync").await), ("7s", row.clone()));
    assert_eq!(alice.create_definition(NotifyDef::new("sync")).await.unwrap(), Updated::Conflict(row.clone()));
    assert_eq!(b.history_of(row.id).await, [line(1, "alice", "created")]);
    let audit = b.audit(&AuditFilter::all()).await;
    let shown: Vec<_> = audit.iter().map(|entry| (entry.who.as_str(), entry.act.as_str(), entry.def_id)).collect();
    assert_eq!(shown, [("alice", "created", Some(row.id))]);
    assert_eq!(audit[0].detail.as_deref(), Some("definition \"sync\", version 1"));
    b.add_to("sync").await;
}

pub async fn a_roll_back_makes_a_definition_what_it_was(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync").handler("omp").max_retry_times(7)).await;
    let first = b.definition("sync").await;
    let mut new = first.clone().timeout("1s").enabled(false);
    (new.handler, new.max_retry_times, new.name) = (None, None, "renamed".to_owned());
    let Updated::Stored(seen) = b.alice().edit_definition(&first, new).await.unwrap() else { panic!() };
    let wakes = b.outbox().engine().wakes();
    let preview = b.alice().at_version(&seen, 1).await.unwrap();
    let Updated::Stored(row) = b.alice().roll_back(&seen, 1).await.unwrap() else { panic!() };
    assert!(wakes.has_changed().unwrap(), "it is in force at once");
    assert!(row.differences(&first).is_empty() && preview.differences(&row).is_empty(), "{row:?}");
    assert_eq!(b.definition("sync").await, row);
    assert_eq!(b.history_of(id).await[0], line(3, "alice", "rolled back to 1"));
    let entry = b.audit(&AuditFilter::all()).await.remove(0);
    assert_eq!((entry.who.as_str(), entry.act.as_str()), ("alice", "rolled back to 1"));
    // A rollback can be rolled back too.
    assert!(matches!(b.alice().roll_back(&row, 2).await.unwrap(), Updated::Stored(_)));
    assert_eq!(b.definition("renamed").await.timeout, "1s");
}

pub async fn a_roll_back_to_an_unusable_version_says_why(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync")).await;
    b.edit_by_hand(id, "timeout", "soon").await;
    b.look_at_definitions("node").await;
    b.edit_by_hand(id, "timeout", "5s").await;
    b.look_at_definitions("node").await;
    let seen = b.definition("sync").await;
    let error = b.alice().roll_back(&seen, 2).await.unwrap_err();
    assert!(matches!(&error, Error::InvalidDefinition { problems, .. } if problems[0].value == "soon"), "{error}");
    for version in [0, 4, i64::MAX] {
        let error = b.alice().roll_back(&seen, version).await.unwrap_err().to_string();
        assert!(error.contains(&format!("\"sync\" has no version {version}")), "{error}");
    }
    b.delete_by_hand(id).await;
    b.look_at_definitions("node").await;
    let error = b.alice().roll_back(&seen, 4).await.unwrap_err().to_string();
    assert!(error.contains("in version 4 the definition \"sync\" was deleted"), "{error}");
    assert_eq!(b.alice().roll_back(&seen, 1).await.unwrap(), Updated::Missing, "there is no row to roll back");
    assert_eq!(b.history_of(id).await.len(), 4);
}

pub async fn of_many_who_roll_back_what_they_saw_one_does(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync")).await;
    let first = b.definition("sync").await;
    let Updated::Stored(seen) = b.outbox().update(&first, first.clone().timeout("9s")).await.unwrap() else { panic!() };
    let operators: Vec<_> = (0..6).map(|n| b.outbox().operator(&format!("operator-{n}"))).collect();
    let answers = join_all(operators.iter().map(|operator| operator.roll_back(&seen, 1))).await;
    let done = answers.iter().filter(|reply| matches!(reply.as_ref().unwrap(), Updated::Stored(_))).count();
    let conflicts = answers.iter().filter(|reply| matches!(reply.as_ref().unwrap(), Updated::Conflict(_))).count();
    assert_eq!((done, conflicts), (1, 5), "{answers:?}");
    assert_eq!(b.history_of(id).await.len(), 3);
}

pub async fn versions_are_purged_with_their_definition(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync")).await;
    let other = b.define(NotifyDef::new("other")).await;
    b.alice().delete_definition(&b.definition("sync").await).await.unwrap();
    let purge = Purge::Definition { def_id: id, older_than: SECOND };
    assert!(b.purge(&purge).await.is_empty());
    assert_eq!(b.versions(id).await.len(), 2, "they are kept as long as the row");
    b.clock().advance(SECOND);
    assert_eq!(b.purge(&purge).await, [id]);
    assert!(b.versions(id).await.is_empty());
    assert_eq!(b.versions(other).await.len(), 1);
    assert!(b.look_at_definitions("node").await);
    assert!(b.versions(id).await.is_empty(), "the purge does not count as a deletion by hand");
}
