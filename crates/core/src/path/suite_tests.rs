//! Tests of the evaluator: the compliance suite of JSONPath, exact numbers, and the budget.
//!
//! `suite/cts.json` is the suite of github.com/jsonpath-standard/jsonpath-compliance-test-suite as the npm package `jsonpath-rfc9535` 1.3.0 has it, unchanged.
//! Its licence is in the same folder.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::budget::{Budget, STEPS, Unjudged};
use super::evaluate::{found, holds};
use super::parse::{DEEPEST, filter, query};
use super::tree::Tree;

#[derive(Deserialize)]
struct Suite<'a> {
    #[serde(borrow)]
    tests: Vec<Case<'a>>,
}

#[derive(Deserialize)]
struct Case<'a> {
    name: String,
    selector: String,
    #[serde(default)]
    invalid_selector: bool,
    #[serde(borrow)]
    document: Option<&'a RawValue>,
    result: Option<Value>,
    results: Option<Vec<Value>>,
}

/// Returns what a query finds in a text, as one JSON array.
fn all(selector: &str, document: &str) -> Value {
    let (query, mut budget) = (query(selector).unwrap(), Budget::default());
    let tree = Tree::read(document, &mut budget).unwrap();
    let found = found(&query, &tree, &mut budget).unwrap();
    Value::Array(found.into_iter().map(|node| serde_json::from_str(tree.written(node)).unwrap()).collect())
}

#[test]
fn compliance_suite_of_jsonpath_passes() {
    let suite: Suite<'_> = serde_json::from_str(include_str!("suite/cts.json")).unwrap();
    assert_eq!(suite.tests.len(), 687);
    let mut wrong = Vec::new();
    for case in &suite.tests {
        let parsed = query(&case.selector);
        if case.invalid_selector || parsed.is_err() {
            if case.invalid_selector != parsed.is_err() {
                wrong.push(format!("{}: {:?}: {:?}", case.name, case.selector, parsed.err()));
            }
            continue;
        }
        let found = all(&case.selector, case.document.unwrap().get());
        let expected: Vec<_> = case.result.iter().chain(case.results.iter().flatten()).collect();
        assert!(!expected.is_empty(), "{}", case.name);
        if !expected.contains(&&found) {
            wrong.push(format!("{}: {:?}: {found}", case.name, case.selector));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), suite.tests.len(), wrong.join("\n"));
}

/// Judges a filter; also returns the steps.
fn judged(text: &str, param: &str) -> (Result<bool, Unjudged>, u64) {
    let (filter, mut budget) = (filter(text).unwrap(), Budget::default());
    let result = Tree::read(param, &mut budget).and_then(|tree| holds(&filter, &tree, &mut budget));
    (result, budget.used())
}

fn accepts(text: &str, param: &str) -> bool {
    judged(text, param).0.unwrap()
}

#[test]
fn numbers_are_compared_exactly_and_by_value() {
    let account = r#"{"account":9007199254740993}"#;
    assert!(!accepts("@.account == 9007199254740992", account) && accepts("@.account == 9007199254740993", account));
    assert!(accepts("@.account > 9007199254740992", account) && !accepts("@.account <= 9007199254740992", account));
    assert!(accepts("@.account == 9007199254740993.00 && @.account == 9007199254740993e0", account));
    for (filter, param, expected) in [
        ("@.country == 'DE'", r#"{"country":"FR","x":1e400}"#, false),
        ("@.x > 1e399 && @.x < 1e401 && @.x == 10e399", r#"{"x":1e400}"#, true),
        ("@.x > 1e999999998 && @.x == 1e999999999", r#"{"x":1e999999999}"#, true),
        ("@.x == 1e999999998 || @.x < 1e999999998", r#"{"x":1e999999999}"#, false),
        ("@[0] == @[1] && @[1] == @[2] && @[2] == 1", "[1.0,1,10e-1]", true),
        ("@.a == @.b", r#"{"a":{"x":[1.0,2]},"b":{"x":[1,20e-1]}}"#, true),
        ("@.a == @.b", r#"{"a":0.1,"b":0.1000000000000000055511151231257827}"#, false),
        ("@.x == '1'", r#"{"x":1}"#, false),
    ] {
        assert_eq!(accepts(filter, param), expected, "{filter} {param}");
    }
}

#[test]
fn lone_surrogates_are_judged_as_they_are_written() {
    let cut = r#"{"country":"FR","note":"gift \ud83d","same":"gift \uD83D","other":"gift \ud83e"}"#;
    for (filter, expected) in [
        ("@.country == 'DE'", false),
        ("@.country == 'FR'", true),
        ("@.note == @.same", true),
        ("@.note == @.other || @.note == 'gift \u{FFFD}'", false),
        ("@.note < @.other && @.note > 'gift'", true),
        ("length(@.note) == 6", true),
        ("search(@.note, 'gift') && match(@.note, 'gift .')", true),
        ("match(@.country, @.note)", false),
    ] {
        assert_eq!(accepts(filter, cut), expected, "{filter}");
    }
    assert!(accepts("@['a'] && @.*[0]", r#"{"\ud83d":[1],"\u0061":1}"#));
}

#[test]
fn of_two_members_of_one_name_the_last_one_counts() {
    let twice = r#"{"a":1,"\u0061":2,"b":{"c":1,"c":2},"d":{"c":2}}"#;
    assert!(accepts("@.a == 2 && @.b == @.d", twice) && !accepts("@.a == 1", twice));
    assert!(accepts("count(@.*) == 4", twice), "a query for all finds both");
}

fn is_too_many_steps((result, steps): (Result<bool, Unjudged>, u64), at: usize) {
    assert_eq!(result, Err(Unjudged::TooManySteps { limit: STEPS, at }));
    assert_eq!(steps, STEPS);
}

#[test]
fn descents_within_descents_end_within_the_budget() {
    let brackets = format!("[{}]", vec!["[[[[]]]]"; 88_000].join(","));
    is_too_many_steps(judged("count(@..*..*..*..*..*..*) > 1", &brackets), 6);
    is_too_many_steps(judged("@.a == 1 || @..[?@..[?@..[?@..*]]]", &brackets), 12);
    let (result, steps) = judged("@..sku", &brackets);
    assert!(result == Ok(false) && steps < STEPS / 4, "{result:?} in {steps}");
}

#[test]
fn comparisons_of_large_values_end_within_the_budget() {
    let numbers = format!("[{}]", vec!["10"; 2000].join(","));
    is_too_many_steps(judged("@[?@ == 0 || count($[?@ == 1]) == 1]", &numbers), 19);
    let names = format!("{{{}}}", (0..2000).map(|n| format!("\"a{n}\":[]")).collect::<Vec<_>>().join(","));
    is_too_many_steps(judged("@[?$ == @ || value($) != value($)]", &format!("[{}]", vec![names; 40].join(","))), 0);
    let long = serde_json::json!({ "text": "x".repeat(1 << 20), "all": vec![0; 100] }).to_string();
    is_too_many_steps(judged("@.all[?length($.text) == @]", &long), 14);
}

#[test]
fn patterns_of_the_parameter_end_within_the_budget() {
    let with = |text: &str, pattern: &str| serde_json::json!({ "text": text, "pattern": pattern }).to_string();
    let search = |text: &str, pattern: &str| judged("search(@.text, @.pattern)", &with(text, pattern));
    assert_eq!(search("aab", "a(b|c)").0, Ok(true));
    let (result, steps) = search(&"a".repeat(100_000), "(a*)*(a*)*b");
    assert!(result == Ok(false) && steps < STEPS, "linear in the text: {steps}");
    let (result, _) = search(&"a".repeat(1000), "((((a{1,100}){1,100}){1,100}){1,100})b");
    assert_eq!(result, Err(Unjudged::PatternTooLarge { limit: 512 << 10, at: 0 }));
    is_too_many_steps(search(&"a".repeat(1_000_000), "(a|b|ab)*[a-z]{30}d"), 0);
    let long = "a".repeat(2001);
    assert_eq!(search("a", &long).0, Err(Unjudged::PatternTooLong { bytes: 2001, limit: 2000, at: 0 }));
    let many: Vec<_> = (0..5000).map(|n| format!("{n}")).collect();
    is_too_many_steps(judged("@[?match('x', @)]", &serde_json::json!(many).to_string()), 3);
    // RFC 9535: what is no regular expression matches nothing.
    assert_eq!((search("[", "[").0, search("a)(b", "a)(b").0), (Ok(false), Ok(false)));
    assert_eq!(judged("match(@.text, @.pattern)", &with("ab", "a)(b")).0, Ok(false));
    let (result, steps) = judged("match(@.sku, 'A-[0-9]+')", r#"{"sku":"A-17"}"#);
    assert!(result == Ok(true) && steps < 300, "{steps}");
}

#[test]
fn expression_that_is_too_costly_is_refused() {
    let nested = |depth: usize| format!("{}@.a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(filter(&nested(DEEPEST)).is_ok());
    for deep in [nested(DEEPEST + 1), format!("@{}", "[?@".repeat(DEEPEST + 1)), "length(".repeat(DEEPEST + 1)] {
        let error = filter(&deep).unwrap_err();
        assert!(error.contains("there are more than 16 brackets in one another"), "{deep}: {error}");
    }
    let error = filter(r"search(@.a, '((\\w{100}){100}){100}')").unwrap_err();
    assert_eq!(error, "a pattern compiles to more than 524288 bytes (at byte 12 of the expression)");
}

#[test]
fn patterns_of_a_filter_have_one_budget() {
    let all = |count: usize, pattern: &str| vec![format!("search(@.a, '{pattern}')"); count].join(" || ");
    assert!(filter(&all(4, r"\\w{9}")).is_ok() && filter(&all(60, "[a-z]+")).is_ok());
    let error = filter(&all(100, r"\\w{9}")).unwrap_err();
    let expected = "the patterns of a filter compile to at most 2097152 bytes together";
    assert!(error.ends_with(expected), "{error}");
}
