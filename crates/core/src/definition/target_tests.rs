//! Tests of `target.rs`.

use super::*;
use crate::definition::schedule_tests::Began;

fn accepts(filter: &str, param: &str) -> bool {
    filter.parse::<TargetFilter>().unwrap().accepts(param)
}

#[test]
fn filter_reads_the_parameter_as_at() {
    let order = r#"{"amount":250,"country":"DE","items":[{"sku":"A-1"},{"sku":"B-2"}],"note":null}"#;
    for (filter, expected) in [
        ("@.amount > 100", true),
        ("@.amount > 100 && @.country == 'FR'", false),
        ("@.country == 'FR' || @.country == \"DE\"", true),
        ("!(@.amount > 100)", false),
        ("@.email", false),
        ("!@.email", true),
        ("@.note", true),
        ("@.note == null", true),
        ("@.email == null", false),
        ("@.items[?@.sku == 'B-2']", true),
        ("length(@.items) == 2", true),
        ("count(@.items[*]) > 2", false),
        ("match(@.items[0].sku, 'A-[0-9]')", true),
        ("search(@.country, 'F')", false),
        ("@..sku", true),
    ] {
        assert_eq!(accepts(filter, order), expected, "{filter}");
    }
    assert!(accepts("@ == 7", "7") && !accepts("@ == 7", "[7]") && accepts("@[0] == 7", "[7]"));
}

#[test]
fn parameter_that_cannot_be_read_gets_through() {
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    assert!(accepts("@.amount > 100", &deep));
}

#[test]
fn pattern_that_is_no_regular_expression_is_refused() {
    for text in [
        "match(@.a, '[')",
        "!search(@.a, \"a(\")",
        "@.b == 1 || match(value(@.items[?search(@.x, '*')].y), 'a' )",
        "match(@.a, 'ok') && search( @.b , 'a\\\\' )",
        r"search(@.a, '\u005b')",
    ] {
        let error = text.parse::<TargetFilter>().unwrap_err();
        assert!(error.contains("is no regular expression"), "{text}: {error}");
    }
    for text in [
        "match(@.a, '[(]')",
        r"search(@.a, 'it\'s [\']') && match(@['(,'], '')",
        "@.a == ', [' || search(@.a, \"'\")",
        "match(@.a, @.b)",
        "match('[', @.b)",
        "@.match == '['",
    ] {
        assert!(text.parse::<TargetFilter>().is_ok(), "{text}: {:?}", text.parse::<TargetFilter>());
    }
    assert!(!accepts("match(@.a, @.b)", r#"{"a":"[","b":"["}"#), "a pattern of the parameter");
}

#[test]
fn text_that_is_no_expression_is_refused() {
    for text in ["amount > 100", "@.amount >", "@.a)] , $[?(@.b", "$.a]", "@.a == undefined", "1", "@.amount + 1 > 2"] {
        let error = text.parse::<TargetFilter>().unwrap_err();
        assert!(error.contains("RFC 9535"), "{text}: {error}");
    }
    let nested = |depth| format!("{}@.a{}", "(".repeat(depth), ")".repeat(depth)).parse::<TargetFilter>();
    let began = Began::now();
    assert!(nested(DEEPEST).is_ok(), "{:?}", nested(DEEPEST));
    assert!(began.used() < std::time::Duration::from_secs(1), "{:?}", began.used());
    assert!(nested(DEEPEST + 1).is_err() && nested(900).is_err());
    assert!("@.a || ".repeat(2000).parse::<TargetFilter>().is_err());
}
