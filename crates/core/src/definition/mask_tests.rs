//! Tests of [`super::Mask`]: which paths can be written, what they mask, and what is left of texts.

use std::time::Duration;

use chrono::DateTime;

use super::{Mask, Masking, NotifyDef};
use crate::notice::{AttemptRecord, ClaimedNotice, ErrorClass, LastResponse, NoticeRecord, Response, Status};
use crate::path::{Budget, STEPS, quickly};

fn masked(paths: &[&str], param: &str) -> String {
    serde_json::to_string(paths).unwrap().parse::<Mask>().unwrap().masked(param)
}

#[test]
fn masked_values_are_replaced_and_the_rest_keeps_its_bytes() {
    for (path, param, shown) in [
        ("$", r#"{"a":1}"#, r#""***""#),
        ("$.a", r#"{ "z" : 1.10, "a":{"b":1} }"#, r#"{ "z" : 1.10, "a":"***" }"#),
        (
            "$.a.b",
            r#"{"a":{"b":null,"c":12345678901234567890123}}"#,
            r#"{"a":{"b":"***","c":12345678901234567890123}}"#,
        ),
        ("$.a[*].b", r#"{"a":[{"b":1},{"c":2},3]}"#, r#"{"a":[{"b":"***"},{"c":2},3]}"#),
        ("$.*", r#"{"a":1,"b":[2]}"#, r#"{"a":"***","b":"***"}"#),
        ("$['a b']['']", r#"{"a b":{"":1}}"#, r#"{"a b":{"":"***"}}"#),
        ("$..pin", r#"{"pin":1,"a":[{"pin":{"pin":2}}]}"#, r#"{"pin":"***","a":[{"pin":"***"}]}"#),
        ("$.a..b", r#"{"b":1,"a":{"c":{"b":2}}}"#, r#"{"b":1,"a":{"c":{"b":"***"}}}"#),
        ("$..['x y']", r#"[{"x y":1}]"#, r#"[{"x y":"***"}]"#),
        ("$..*", r#"{"a":[1],"b":2}"#, r#"{"a":"***","b":"***"}"#),
        ("$.a", r#"{"a":1,"a":{"a":2}}"#, r#"{"a":"***","a":"***"}"#),
        ("$.a", r#"{"\u0061":1,"\u0062":1}"#, r#"{"\u0061":"***","\u0062":1}"#),
        ("$.a", "7", "7"),
        ("$.a", " [ 1 ] ", " [ 1 ] "),
        (
            "$.a..b",
            r#"{"a":"\ud83d","c":"\ud83d","\ud83e":[1e400]}"#,
            r#"{"a":"\ud83d","c":"\ud83d","\ud83e":[1e400]}"#,
        ),
        ("$.c", r#"{"a":"\ud83d","c":"\ud83d","\ud83e":[1e400]}"#, r#"{"a":"\ud83d","c":"***","\ud83e":[1e400]}"#),
    ] {
        assert_eq!(masked(&[path], param), shown, "{path}");
    }
    assert_eq!(masked(&["$.a", "$.b"], r#"{"a":1,"b":2,"c":3}"#), r#"{"a":"***","b":"***","c":3}"#);
}

#[test]
fn a_parameter_that_cannot_be_read_is_masked_as_a_whole() {
    let deep = format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000));
    for param in ["", "{", r#"{"a":1"#, r#"{"a":1}}"#, &deep] {
        assert_eq!(masked(&["$..a"], param), r#""***""#);
    }
}

/// Returns a text as people see it.
fn text(mask: &Mask, param: &str, text: &str) -> String {
    Masking::new(Some(mask), param, &mut Budget::default()).text(text)
}

fn response(mask: &Mask, param: &str, response: &Response) -> Response {
    Masking::new(Some(mask), param, &mut Budget::default()).response(response)
}

/// Applies a mask; also returns the steps.
fn steps(paths: &[&str], param: &str) -> (Option<String>, u64) {
    let mask: Mask = serde_json::to_string(paths).unwrap().parse().unwrap();
    let mut budget = Budget::default();
    (mask.apply(param, &mut budget).ok().map(|(shown, _)| shown), budget.used())
}

#[test]
fn many_ways_to_the_same_value_are_one() {
    // Each level had doubled the ways: a parameter of 6 kB took for ever.
    let nested = format!("{}1{}", r#"{"a":"#.repeat(90), "}".repeat(90));
    let param = format!("[{}]", vec![nested; 10].join(","));
    let path = format!("${}.pin", "..*".repeat(10));
    let (shown, steps) = steps(&[&path, &format!("${}.b", "..a".repeat(20))], &param);
    assert_eq!(shown.as_deref(), Some(&*param));
    assert!(steps < 910 * 60, "{steps}");
}

#[test]
fn beyond_the_budget_the_whole_parameter_is_hidden() {
    let param = format!(r#"{{"pin":"4711","all":[{}]}}"#, vec!["0"; 400_000].join(","));
    assert!(steps(&["$..pin"], &param).1 < STEPS);
    let paths: Vec<_> = (0..30).map(|n| format!("$..pin{n}")).collect();
    let paths: Vec<_> = paths.iter().map(|path| &**path).collect();
    assert_eq!(steps(&paths, &param), (None, STEPS));
    assert_eq!(masked(&paths, &param), r#""***""#);
    let mask: Mask = serde_json::to_string(&paths).unwrap().parse().unwrap();
    assert_eq!(text(&mask, &param, "refused"), "***");
    // Nothing is left of a text in which too many values would have to be found.
    let mask: Mask = r#"["$"]"#.parse().unwrap();
    let values = serde_json::json!((1000..5000).collect::<Vec<_>>()).to_string();
    assert_eq!(text(&mask, &values, "pin 4711"), "pin ***");
    assert_eq!(text(&mask, &values, &"x".repeat(20_000)), "***");
}

#[test]
fn everything_of_one_notice_has_one_budget() {
    let param = format!(r#"{{"pin":"4711","all":[{}]}}"#, vec!["1234"; 400_000].join(","));
    let mask: Mask = r#"["$.pin","$.all"]"#.parse().unwrap();
    let mut budget = Budget::default();
    let mut masking = Masking::new(Some(&mask), &param, &mut budget);
    assert_eq!(masking.param(), r#"{"pin":"***","all":"***"}"#, "the parameter is shown");
    assert_eq!(masking.text("refused"), "***", "the values cost too many steps");
    let mask: Mask = r#"["$"]"#.parse().unwrap();
    let values = serde_json::json!((1000..3000).collect::<Vec<_>>()).to_string();
    let mut budget = Budget::default();
    let mut masking = Masking::new(Some(&mask), &values, &mut budget);
    let texts: Vec<_> = (0..40).map(|_| masking.text(&"x".repeat(1000))).collect();
    assert!(texts[0].starts_with('x') && texts[39] == "***");
    assert_eq!(masking.param(), r#""***""#);
    assert_eq!(budget.left(), 0);
}

#[test]
fn what_takes_long_is_not_masked_quickly() {
    let mask: Mask = r#"["$.a"]"#.parse().unwrap();
    let quickly = |param: &str, told: &str| quickly(|budget| Masking::new(Some(&mask), param, budget).text(told));
    assert_eq!(quickly(r#"{"a":"4711"}"#, "no 4711"), Some("no ***".to_owned()));
    assert_eq!(quickly(&format!(r#"{{"a":"4711","b":"{}"}}"#, "x".repeat(1 << 20)), "no 4711"), None, "its length");
    let values = serde_json::json!({ "a": (1000..1200).collect::<Vec<_>>() }).to_string();
    assert_eq!(quickly(&values, &"x".repeat(10_000)), None, "each value is looked for");
    assert_eq!(quickly(r#"{"a":"111"}"#, &"111".repeat(20_000)), None, "each found value is replaced");
    assert_eq!(quickly("[", "no"), Some("***".to_owned()));
}

#[test]
fn texts_lose_the_masked_values() {
    let mask: Mask = r#"["$.card", "$.pin"]"#.parse().unwrap();
    let param = r#"{"card":{"number":"4111 1111","cvv":987,"note":"a\"b"},"pin":"12","name":"Ada"}"#;
    let told = |told: &str| text(&mask, param, told);
    assert_eq!(told("Ada: card 4111 1111 (987) refused"), "Ada: card *** (***) refused");
    assert_eq!(told(r#"a"b, or "a\"b""#), r#"***, or "***""#);
    assert_eq!(told("12 tries"), "12 tries", "a value of two characters is found in any text");
    assert_eq!(text(&mask, "{", "card 4111"), "***");
}

#[test]
fn wrong_paths_are_reported_with_what_would_be_right() {
    for (text, expected) in [
        ("$.card", "a JSON array of paths"),
        ("{}", "a JSON array of paths"),
        ("[]", "or null where nothing is masked"),
        (r#"["card"]"#, "\"card\" does not begin with `$`"),
        (r#"["$.a", "$.b[0]"]"#, "\"$.b[0]\" has \"[0]\"; a step is"),
        (r#"["$.a b"]"#, "write `['a b']`"),
        (r#"["$."]"#, "as a name"),
        (r#"["$.."]"#, "as a name"),
        (r#"["$['a"]"#, "has no `']`"),
        (r#"["$.a[?@.b]"]"#, "a step is"),
        (r#"["$...a"]"#, "as a name"),
        (&format!(r#"["$.{}"]"#, "a".repeat(10_000)), "of at most 10000 bytes; it has 10006 bytes"),
    ] {
        let problem = NotifyDef::new("a").mask(text).policy().unwrap_err().remove(0);
        assert_eq!((problem.column, &*problem.value), ("mask", text));
        assert!(problem.expected.contains(expected), "{problem}");
    }
}

#[test]
fn a_record_for_people_has_no_masked_value() {
    let mut record =
        NoticeRecord::new(7, 1, Status::DeadLetter, r#"{"pin":"4711","n":1}"#.to_owned(), DateTime::UNIX_EPOCH);
    record.end_reason = Some("refused 4711".to_owned());
    record.description = Some("pin 4711".to_owned());
    let row = NotifyDef::new("a").mask(r#"["$.pin"]"#);
    let shown = record.clone().for_people(Some(&row));
    assert_eq!(shown.param, r#"{"pin":"***","n":1}"#);
    assert_eq!((shown.end_reason.as_deref(), shown.description.as_deref()), (Some("refused ***"), Some("pin ***")));
    for definition in [None, Some(NotifyDef::new("a").mask("$.pin"))] {
        assert_eq!(record.clone().for_people(definition.as_ref()).param, r#""***""#);
    }
    assert!(record.clone().for_people(Some(&NotifyDef::new("a"))) == record);
}

proptest::proptest! {
    /// The blanks, the spellings of names and numbers, and the order stay.
    #[test]
    fn what_is_not_masked_keeps_its_bytes(
        members in proptest::collection::vec(
            ("[ \n]{0,2}", "(a|\\\\u0061|pin|p\\\\u0069n|\\\\ud83d)", "[ \t]{0,2}", "(1\\.10|1e999999999|\"\\\\ud83d\"|\\[ 1 ,2\\]|null)"),
            0..6,
        ),
    ) {
        let text = |instead: Option<&str>| {
            let member = |(before, name, between, value): &(String, String, String, String)| {
                let value = instead.filter(|_| name.starts_with('p')).unwrap_or(value);
                format!("{before}\"{name}\"{between}:{between}{value}{before}")
            };
            format!("[ {{{}}}, {{ }}]", members.iter().map(member).collect::<Vec<_>>().join(","))
        };
        proptest::prop_assert_eq!(masked(&["$[*].pin"], &text(None)), text(Some("\"***\"")));
        proptest::prop_assert_eq!(masked(&["$.x..pin", "$..b"], &text(None)), text(None));
    }

    #[test]
    fn a_masked_value_is_nowhere_in_what_is_shown(
        keys in proptest::collection::vec("[a-z.'\\\\\" ]{0,3}", 1..6),
        wrapped in proptest::collection::vec(proptest::bool::ANY, 1..6),
    ) {
        let mut value = serde_json::json!({ "pin": "SECRET" });
        for (key, in_list) in keys.iter().zip(wrapped) {
            value = if in_list { serde_json::json!([1, value]) } else { serde_json::json!({ key.as_str(): value }) };
        }
        let shown = masked(&["$..pin"], &value.to_string());
        proptest::prop_assert!(!shown.contains("SECRET"), "{}", shown);
        proptest::prop_assert!(serde_json::from_str::<serde_json::Value>(&shown).is_ok(), "{}", shown);
    }
}

#[test]
fn a_json_response_is_masked_like_a_parameter_and_another_as_a_whole() {
    let mask: Mask = r#"["$.card"]"#.parse().unwrap();
    let param = r#"{"card":"4111222","amount":5}"#;
    let shown = |status: &str, body: &str| response(&mask, param, &Response::new(status).body(body)).to_string();
    assert_eq!(
        shown("422", r#"{"card":"x","echo":"card 4111222","amount":5}"#),
        r#"422: {"card":"***","echo":"card ***","amount":5}"#
    );
    for body in ["no account 4111222", "\"4111222\"", "4111222", r#"{"card":"4111"#, ""] {
        assert_eq!(shown("422", body), "422: ***", "{body}");
    }
    assert_eq!(shown("NO_4111222", "[]"), "NO_***: []");
    let without = response(&mask, param, &Response::new(204));
    assert_eq!(without.body_text(), None);
    let unreadable = response(&mask, "{", &Response::new("CODE").body("[1]"));
    assert_eq!(unreadable.to_string(), "***: ***", "nothing is known of the values to hide");
}

#[test]
fn a_response_that_spells_a_masked_value_with_other_escapes_is_masked() {
    let mask: Mask = r#"["$.name"]"#.parse().unwrap();
    let param = "{\"name\":\"José \\\"Pepe\\\" a/b\"}";
    for echo in [
        r#"José \"Pepe\" a/b"#,
        r#"Jos\u00e9 \"Pepe\" a\/b"#,
        r"Jos\u00E9 \u0022Pepe\u0022 a\u002fb",
        r#"{\"name\":\"Jos\\u00e9 \\\"Pepe\\\" a\\/b\"}"#,
    ] {
        let body = format!(r#"{{"echo":"{echo}","ok":false}}"#);
        let shown = response(&mask, param, &Response::new(422).body(&body)).body_text().unwrap().to_owned();
        assert!(!shown.contains("Jos") && !shown.contains("Pepe") && shown.contains("***"), "{body}: {shown}");
        assert!(serde_json::from_str::<serde_json::Value>(&shown).is_ok(), "{shown}");
        let message = text(&mask, param, &format!("refused: {body}"));
        assert_eq!(message, format!("refused: {shown}"));
    }
}

#[test]
fn people_see_responses_by_the_mask_as_it_is_now() {
    let mut record = NoticeRecord::new(7, 1, Status::Failed, r#"{"card":"4111222"}"#.to_owned(), DateTime::UNIX_EPOCH);
    let response = Response::new(422).body("refused: 4111222");
    record.response = Some(LastResponse::new(1, 1, DateTime::UNIX_EPOCH, 5, response.clone()));
    let claimed = ClaimedNotice::new(7, 1, Status::Sending, String::new(), DateTime::UNIX_EPOCH);
    let mut attempt = AttemptRecord::new(&claimed, Duration::ZERO, ErrorClass::Invalid, "no");
    attempt.response = Some(response);
    record.errors.push(attempt);
    let seen = |definition: Option<&NotifyDef>| {
        let record = record.clone().for_people(definition);
        [record.response.unwrap().response, record.errors[0].response.clone().unwrap()]
            .map(|response| response.to_string())
    };
    assert_eq!(seen(Some(&NotifyDef::new("a"))), ["422: refused: 4111222"; 2]);
    for hidden in [Some(&NotifyDef::new("a").mask(r#"["$.card"]"#)), Some(&NotifyDef::new("a").mask("[")), None] {
        assert_eq!(seen(hidden), ["422: ***"; 2]);
    }
}
