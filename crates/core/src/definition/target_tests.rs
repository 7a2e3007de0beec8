//! Tests of `target.rs`.

use super::*;

fn accepts(filter: &str, param: &str) -> bool {
    filter.parse::<TargetFilter>().unwrap().judge(param).unwrap()
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
fn parameter_that_cannot_be_read_is_not_judged() {
    let filter: TargetFilter = "@.amount > 100".parse().unwrap();
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    for (param, why) in [
        (&*deep, "the parameter has more than 100 arrays and objects in one another (at its byte 100)"),
        ("{\"amount\":", "the parameter is not JSON (at its byte 10)"),
        ("", "the parameter is not JSON (at its byte 0)"),
    ] {
        assert_eq!(filter.judge(param).unwrap_err().to_string(), why);
    }
    let costly: TargetFilter = "count(@..*..*..*..*..*..*) > 1".parse().unwrap();
    let error = costly.judge(&format!("[{}]", vec!["[[[[[[]]]]]]"; 60_000].join(","))).unwrap_err().to_string();
    assert_eq!(error, "it takes more than 4000000 steps (at byte 6 of the expression)");
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
    let error = format!("@.a == '{}'", "x".repeat(2000)).parse::<TargetFilter>().unwrap_err();
    assert!(
        error.ends_with("at most 2000 bytes, with at most 16 brackets in one another; it has 2009 bytes"),
        "{error}"
    );
    for (text, end) in [
        (
            "amount > 100",
            "; at byte 0: \"amount\" is unknown: a text is in quotes, a member of the parameter is written `@.amount`",
        ),
        (
            "@.amount >",
            "; at byte 10, before its end, is missing a value: a literal such as `'DE'`, a query such as `@.amount`, or a function",
        ),
        ("@.a == 1 and @.b", "; at byte 9, before `a`, is missing `&&`, `||` or the end"),
        (
            "@.items[*] == 1",
            "; at byte 0: this query can find several values; compare `count(…)` or `value(…)` of it, or test them by `@.items[?@.sku == 'A-1']`",
        ),
        (
            "size(@.a) == 1",
            "; at byte 0: the function \"size\" is unknown; there are `length`, `count`, `match`, `search` and `value`",
        ),
    ] {
        let error = text.parse::<TargetFilter>().unwrap_err();
        assert!(error.ends_with(end), "{text}: {error}");
    }
}

#[test]
fn what_takes_long_is_not_judged_quickly() {
    let costly: Arc<TargetFilter> = Arc::new("count(@..*..*) > 1".parse().unwrap());
    let quickly = |param: &str| TargetFilter::judge_quickly(std::slice::from_ref(&costly), param);
    let param = format!("[{}0]", "[[0]],".repeat(8_000));
    assert_eq!(quickly(&param), []);
    assert_eq!(costly.judge(&param), Ok(true));
    assert_eq!(quickly("[[[0]]]"), [Ok(true)]);
    assert!(matches!(quickly("[")[..], [Err(Unjudged::NotJson { .. })]));
    // Its steps are few but for its length.
    assert_eq!(quickly(&format!("\"{}\"", "x".repeat(1 << 20))), []);
}

#[test]
fn filters_of_a_notice_share_the_steps_that_hold_up_no_thread() {
    let filters: Vec<Arc<TargetFilter>> =
        (0..1000).map(|n| Arc::new(format!("@[{n}] == 0 || count(@.*) > 1").parse().unwrap())).collect();
    let param = |count: usize| format!("[{}1]", "1,".repeat(count));
    assert_eq!(TargetFilter::judge_quickly(&filters, &param(3)), vec![Ok(true); 1000]);
    let judged = TargetFilter::judge_quickly(&filters, &param(1000));
    assert!((10..50).contains(&judged.len()), "{}", judged.len());
    // The rest takes a thread for one evaluation at a time.
    let portion = TargetFilter::judge_some(&filters, &param(10_000));
    assert!((100..500).contains(&portion.len()), "{}", portion.len());
    assert_eq!(TargetFilter::judge_some(&filters, &param(100)), vec![Ok(true); 1000]);
}

#[test]
fn filters_that_are_judged_together_have_the_steps_of_one_each() {
    let [costly, other]: [Arc<TargetFilter>; 2] =
        ["count(@..*..*..*..*..*..*) > 1", "@[0] == 1"].map(|text| Arc::new(text.parse().unwrap()));
    let param = format!("[1,{}]", vec!["[[[[[[]]]]]]"; 60_000].join(","));
    let judged = TargetFilter::judge_some(&[Arc::clone(&costly), Arc::clone(&other)], &param);
    assert!(matches!(judged[..], [Err(Unjudged::TooManySteps { .. })]), "{judged:?}");
    assert_eq!(TargetFilter::judge_some(&[other, costly], &param).len(), 2);
}
