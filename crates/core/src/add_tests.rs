//! Tests of [`super`]: names of definitions that no notice can have, and the nearest known name.

use super::*;

#[test]
fn the_nearest_name_is_one_that_is_like_it() {
    let known = ["sync_to_omp", "mail_invoice"];
    assert_eq!(nearest_name("sync_to_opm", known), Some("sync_to_omp".to_owned()));
    assert_eq!(nearest_name("zzzzzzzz", known), None);
    assert_eq!(nearest_name("x", []), None);
}

#[test]
fn a_name_that_no_definition_can_have_is_refused_before_any_comparison() {
    assert!(NewNotice::new("é".repeat(200), 1).unwrap().check().is_ok());
    let error = NewNotice::new("é".repeat(201), 1).unwrap().check().unwrap_err();
    assert!(matches!(error, Error::UnknownDefinition { nearest: None, .. }), "{error}");
}
