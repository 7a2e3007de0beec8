//! The SQL of the book: the regions of `tests/stores/book.sql`, and the definitions that they insert.

use solid_notify_core::NotifyDef;

use crate::{Database, TestDb};

/// Returns the statements of a region of `book.sql`.
pub fn region(name: &str) -> &'static str {
    let (_, rest) = include_str!("../../stores/book.sql").split_once(&format!("-- [{name}]\n")).unwrap();
    rest.split_once("-- [end]").unwrap().0
}

/// Returns the rows without those of the library. Fails when one is invalid.
pub async fn valid_rows<D: Database>(db: &TestDb<D>) -> Vec<NotifyDef> {
    let states = db.outbox.definitions().await.unwrap();
    for state in &states {
        assert!(state.problems.is_empty(), "{}: {:?}", state.row.name, state.problems);
    }
    states.into_iter().map(|state| state.row).filter(|row| !row.name.starts_with("notify.")).collect()
}
