//! Tests of how templates insert, calculate with and compare the values of a parameter.

use futures_util::FutureExt;
use proptest::prelude::*;

use super::*;

/// On this thread and without a notice, as all templates of a test.
fn rendered<E: Escape>(source: &str, param: &str) -> Result<String, String> {
    let template = Template::<E>::new(source)?;
    let values = Values::of_param(param);
    let text = template.render("body", &values).now_or_never().unwrap();
    text.map_err(|failure| failure.error().to_string())
}

fn text(source: &str, param: &str) -> String {
    rendered::<Text>(source, param).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn json(source: &str, param: &str) -> String {
    rendered::<Json>(source, param).unwrap_or_else(|error| panic!("{source}: {error}"))
}

const NUMBERS: [&str; 24] = [
    "0",
    "-0",
    "7",
    "-7",
    "19.90",
    "19.9",
    "100.00",
    "1.0",
    "0.000001",
    "1e21",
    "1E+21",
    "1e400",
    "-1e-400",
    "9007199254740993",
    "18446744073709551616",
    "12345678901234567890123",
    "-12345678901234567890123",
    "340282366920938463463374607431768211455",
    "340282366920938463463374607431768211456",
    "0.1000000000000000055511151231257827021181583404541015625",
    "0.30000000000000004",
    "1e999999999",
    "123456789.123456789123456789",
    "5e-324",
];

#[test]
fn number_is_inserted_as_it_is_written() {
    for number in NUMBERS {
        let param = format!(r#"{{"n":{number},"all":[{number}],"deep":[{{"n":{number}}}]}}"#);
        for source in [
            "{{ param.n }}",
            "{{ param['n'] }}",
            "{{ param.all[0] }}",
            "{{ param.all | first }}",
            "{{ param.all | join(',') }}",
            "{% for n in param.all %}{{ n }}{% endfor %}",
            "{% set n = param.n %}{{ n }}",
            "{{ param.n ~ '' }}",
            "{{ param.n | string }}",
            "{{ param.n | default('x') }}",
            "{{ param.all | sort | join }}",
            "{{ param.all | max }}",
            "{{ param.all | unique | first }}",
            "{{ (param.deep | map(attribute='n') | list)[0] }}",
            "{{ (param.deep | sort(attribute='n') | first).n }}",
            "{{ '%s' | format(param.n) }}",
            "{{ param.n if param.all else 0 }}",
            "{{ param.n | tojson }}",
        ] {
            assert_eq!(text(source, &param), number, "{source}");
        }
        for source in ["{{ param.n }}", "{{ param.n | tojson }}", "{{ param.n | e }}"] {
            assert_eq!(json(source, &param), number, "{source}");
        }
        assert_eq!(json("{{ param }}", &param), param);
        assert_eq!(json("{{ [param.n] }}", &param), format!("[{number}]"));
        assert_eq!(rendered::<Html>("{{ param.n }}{{ param.n | e }}", &param).unwrap(), number.repeat(2));
        assert_eq!(text(r"{{ param.n | urlencode }}", &param), number.replace('+', "%2B"));
    }
}

#[test]
fn true_and_false_have_the_spelling_of_json() {
    let param = r#"{"yes":true,"no":false,"all":[true,false]}"#;
    for (source, expected) in [
        ("{{ param.yes }} {{ param.no }}", "true false"),
        ("{{ param.yes ~ '!' }}{{ param.no | string }}{{ param.yes | urlencode }}", "true!falsetrue"),
        ("{{ param.all | join(',') }} {{ param.all }}", "true,false [true,false]"),
        ("{{ 1 == 1 }} {{ not param.yes }} {{ param.yes | e }}", "true false true"),
        ("{% if param.no %}a{% elif param.yes %}b{% endif %}", "b"),
        ("{{ 'a' if param.yes == true else 'b' }}{{ 'a' if param.no is true else 'b' }}", "ab"),
        ("{{ param.yes is boolean }}{{ param.no is false }}{{ param.no and param.yes }}", "truetruefalse"),
        ("{{ param.yes | int }}{{ param.all | select | list }}", "1[true]"),
        ("{{ '%s' | format(param.yes) }}{{ [1 == 1] }}", "true[true]"),
    ] {
        assert_eq!(text(source, param), expected, "{source}");
    }
    assert_eq!(json("{{ param.yes }},{{ 1 == 2 }},{{ param.yes | tojson }}", param), "true,false,true");
}

#[test]
fn null_is_no_text_unless_default_gives_one() {
    let param = r#"{"note":null,"all":[1,null],"of":{"note":null}}"#;
    for source in [
        "{{ param.note }}",
        "{{ param.note | string }}",
        "{{ param.note | urlencode }}",
        "{{ param.note ~ 'x' }}",
        "{{ param.note | upper }}",
        "{{ param.note | e }}",
        "{{ param.all | join(',') }}",
        "{{ '%s' | format(param.note) }}",
        "{% set n = param.of.note %}{{ n }}",
        "{{ none }}",
    ] {
        for error in [rendered::<Text>(source, param), rendered::<Html>(source, param)] {
            let error = error.unwrap_err();
            assert!(error.ends_with("`body`: a value is null; `default` gives it a text"), "{source}: {error}");
        }
    }
    for (source, expected) in [
        ("{{ param.note | default('-') }}{{ param.note | d }}", "-"),
        ("{{ param.all | map('default', '-') | join(',') }}", "1,-"),
        ("{% if param.note %}a{% else %}b{% endif %}", "b"),
        ("{{ param.note is none }}{{ param.note == none }}{{ param.all[0] is none }}", "truetruefalse"),
        ("{{ param.note or 'x' }}{% for a in param.note %}a{% endfor %}", "x"),
        ("{{ param }}", r#"{"note":null,"all":[1,null],"of":{"note":null}}"#),
    ] {
        assert_eq!(text(source, param), expected, "{source}");
    }
    assert_eq!(json("[{{ param.note }},{{ param.note | tojson }},{{ none }}]", param), "[null,null,null]");
}

#[test]
fn half_a_surrogate_pair_is_exact_in_json_and_no_text_elsewhere() {
    let param = r#"{"note":"cut \ud83d","good":"\ud83d\ude00","\ud83d":1,"n":1}"#;
    assert_eq!(json("[{{ param.note }}]", param), r#"["cut \ud83d"]"#);
    assert_eq!(json("{{ param }}", param), param);
    assert_eq!(json("{{ param | tojson }}", param), param);
    assert_eq!(json("{{ {'a': [param.note]} }}", param), r#"{"a": ["cut \ud83d"]}"#);
    assert_eq!(text("{{ param.n }}{{ param.good }}{% for name in param %}.{% endfor %}", param), "1😀....");
    for source in
        ["{{ param.note }}", "{{ param.note | upper }}", "{{ 'x' ~ param.note }}", "{{ param.note | urlencode }}"]
    {
        let error = rendered::<Text>(source, param).unwrap_err();
        assert!(error.ends_with("`body`: a text has half a surrogate pair"), "{source}: {error}");
    }
}

#[test]
fn order_and_spelling_stay_in_what_is_inserted_whole() {
    let param = r#"{ "b" : 1.50, "a":[1e2 , "\u00e9<&'" ],"b":2.00, "c": {"z":1,"a":2} }"#;
    assert_eq!(text("{{ param }}", param), param.trim());
    assert_eq!(text("{{ param.a }}", param), r#"[1e2 , "\u00e9<&'" ]"#);
    let safe = r#"[1e2 , "\u00e9\u003c\u0026\u0027" ]"#;
    assert_eq!(text("{{ param.a | tojson }}", param), safe);
    assert_eq!(rendered::<Html>("{{ param.a | tojson }}", param).unwrap(), safe);
    let members = r#"a=[1e2 , "\u00e9<&'" ];b=2.00;c={"z":1,"a":2};"#;
    assert_eq!(text("{% for name in param %}{{ name }}={{ param[name] }};{% endfor %}", param), members);
    assert_eq!(text("{{ param.b }}{{ param.c | items | list }}", param), r#"2.00[["z", 1], ["a", 2]]"#);
    let lines = "{\n  \"z\": 1,\n  \"a\": 2\n}";
    assert_eq!(text("{{ param.c | tojson(indent=2) }}", param), lines);
    assert_eq!(text("{{ param.c | tojson(true) }}", param), lines);
    assert_eq!(
        text("{{ {'e': [], 'f': {}, 't': 'a\"{,'} | tojson(1) }}", param),
        "{\n \"e\": [],\n \"f\": {},\n \"t\": \"a\\\"{,\"\n}"
    );
    assert!(text("{{ param.a | tojson(indent=99999999999) }}", param).len() < 200_000);
}

#[test]
fn numbers_are_compared_exactly_and_calculated_with() {
    let param = r#"{"amount":19.90,"n":7,"huge":1e400,"id":12345678901234567890123,"long":0.10000000000000000000001,
        "list":[5,19.90,3.0,1e1],"items":[{"p":19.90,"q":2},{"p":5,"q":1.0},{"p":1e1,"q":3}],"zero":0.00,"i":1,"neg":-2.50}"#;
    for (source, expected) in [
        ("{{ param.amount * 2 }}", "39.8"),
        ("{{ 2 * param.amount + param.n }}", "46.8"),
        ("{{ (param.amount * 3) | round(2) }} {{ param.amount | round }}", "59.7 20.0"),
        ("{{ -param.amount }} {{ - param.neg | abs }} {{ 1 - -param.neg }}", "-19.9 2.5 -1.5"),
        ("{{ param.id + 1 }} {{ param.id % 10 }} {{ param.n // 2 }}", "12345678901234567890124 3 3"),
        (
            "{{ param.amount > 5 }}{{ param.amount < 19.91 }}{{ 19.9 == param.amount }}{{ param.amount != 19.9 }}",
            "truetruetruefalse",
        ),
        ("{{ param.huge > 5 }}{{ param.long > 0.1 }}{{ param.long == 0.1 }}{{ 1 < param.n < 8 }}", "truetruefalsetrue"),
        ("{{ param.amount * 2 > 39.7 and param.n == 7.0 }}{{ (param.amount > 5) == true }}", "truetrue"),
        (
            "{{ 19.9 in param.list }}{{ 3 in param.list }}{{ 4 not in param.list }}{{ 'n' in param }}",
            "truetruetruetrue",
        ),
        ("{{ param.list == [5.0, 19.9, 3, 10] }}{{ param.items[1] == {'p': 5.00, 'q': 1} }}", "truetrue"),
        ("{{ param.list | sort | join(' ') }}", "3.0 5 1e1 19.90"),
        ("{{ param.list | sort(reverse=true) | join(' ') }}", "19.90 1e1 5 3.0"),
        ("{{ param.list | min }} {{ param.list | max }} {{ param.list | sum }}", "3.0 19.90 37.9"),
        ("{{ param.items | sort(attribute='p') | map(attribute='p') | join(' ') }}", "5 1e1 19.90"),
        ("{{ param.items | sum(attribute='p') }} {{ (param.items | max(attribute='p')).p }}", "34.9 19.90"),
        ("{{ param.items | selectattr('p', '>', 6) | map(attribute='p') | join(' ') }}", "19.90 1e1"),
        (
            "{{ param.list | select('ge', 10) | join(' ') }}{{ param.list | reject('odd') | list | length }}",
            "19.90 1e12",
        ),
        (
            "{% for g in param.items | groupby('q') %}{{ g.grouper }}:{{ g.list[0].p }} {% endfor %}",
            "1.0:5 2:19.90 3:1e1 ",
        ),
        (
            "{% for k, v in {'a': param.amount, 'b': 2} | dictsort(by='value') %}{{ k }}{{ v }} {% endfor %}",
            "b2 a19.90 ",
        ),
        ("{{ [1, 1.0, param.list[2], 3] | unique | list }}", "[1, 3.0]"),
        ("{{ param.amount | int }} {{ param.amount | float }} {{ param.n | int }}", "19 19.9 7"),
        ("{{ '%.2f|%d|%s' | format(param.amount, param.list[3], param.amount) }}", "19.90|10|19.90"),
        (
            "{{ param.amount is number }}{{ param.list[2] is float }}{{ param.n is odd }}{{ param.list[3] is divisibleby(5) }}",
            "truetruetruetrue",
        ),
        ("{{ param.amount is gt 5 }}{{ param.n is lt(-param.neg) }}{{ param.amount is eq(19.9) }}", "truefalsetrue"),
        ("{% if param.zero %}a{% else %}b{% endif %}{{ param.list[param.i] }}{{ range(param.n) | length }}", "b19.907"),
        ("{% for x in param.list if x > 4 %}{{ loop.index }}:{{ x }} {% endfor %}", "1:5 2:19.90 3:1e1 "),
        (
            "{% set total = namespace(x=0) %}{% for i in param.items %}{% set total.x = total.x + i.p * i.q %}{% endfor %}{{ total.x }}",
            "74.8",
        ),
        ("{{ 'big' if param.amount >= 19.90 else 'small' }}{{- param.n -}}", "big7"),
        ("{{ param.list + [param.amount] }}", "[5, 19.90, 3.0, 1e1, 19.90]"),
        ("{{ param.amount ~ ' ' ~ param.n * 2 }} {{ 'x' * param.n }}", "19.90 14 xxxxxxx"),
        ("{{ [param.amount + 1, {'a': param.n - 1}, (param.n ** 2)] }}", "[20.9, {\"a\": 6}, 49]"),
    ] {
        assert_eq!(text(source, param), expected, "{source}");
    }
    for source in
        ["{{ param.huge * 2 }}", "{{ param.huge | int }}", "{{ param.list | sum + param.huge }}", "{{ 1e308 * 10 }}"]
    {
        assert!(rendered::<Text>(source, param).is_err(), "{source}");
    }
}

#[test]
fn parameter_is_read_only_by_a_template_that_names_it() {
    let deep = format!("{}1{}", "[".repeat(101), "]".repeat(101));
    assert_eq!(text("{{ 1 + 1 }}", &deep), "2");
    for source in
        ["{{ param }}", "{{ param | default('x') }}", "{% if param is defined %}x{% endif %}", "{{ param[0] }}"]
    {
        let error = rendered::<Text>(source, &deep).unwrap_err();
        assert!(error.contains("`body`: the parameter has more than 100 arrays and objects in one another"), "{error}");
        assert_eq!(rendered::<Text>(source, &deep).unwrap_err(), error, "each time");
    }
    assert_eq!(text("{{ param }}", "19.90"), "19.90");
    assert_eq!(text("{{ param }}", " \"a\" "), "a");
}

#[test]
fn last_member_of_a_name_counts() {
    let param = r#"{"a":1,"b":2,"a":3,"\u0061":4.0,"c":5}"#;
    assert_eq!(
        text("{{ param.a }}{{ param.b }}{{ param.c }}{{ param | length }}{{ param | list }}", param),
        r#"4.0253["b", "a", "c"]"#
    );
}

/// Expressions whose operands the engine itself has exactly, so that marks may change nothing.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("param.a".to_owned()),
        Just("param.b[1]".to_owned()),
        Just("param['c'].d".to_owned()),
        Just("3".to_owned()),
        Just("1.5".to_owned()),
        Just("2e+1".to_owned()),
        Just("'t-x'".to_owned()),
        Just("param.b|length".to_owned()),
        Just("param.a is odd".to_owned()),
        Just("param.a is divisibleby 3".to_owned()),
        Just("param.t|replace('a', 'b')".to_owned()),
        Just("param.b".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let pair = (inner.clone(), inner.clone());
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", " in ", " not in ", " and ",
            " or ",
        ]);
        prop_oneof![
            (pair.clone(), operator).prop_map(|((a, b), operator)| format!("{a}{operator}{b}")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("-{a}")),
            inner.clone().prop_map(|a| format!("[{a}, 1][0]")),
            inner.clone().prop_map(|a| format!("{{'k': {a}}}.k")),
            inner.clone().prop_map(|a| format!("({a})|default(2)")),
            pair.prop_map(|(a, b)| format!("({a} if {b} else 1)")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn marks_change_no_expression_of_exact_numbers(expression in expression(), is_statement in any::<bool>()) {
        let source = if is_statement { format!("{{%- set x = {expression} -%}}{{{{ x|string }}}}") } else { format!("{{{{- {expression} -}}}}") };
        let marked = operands::marked(&source);
        let param = serde_json::json!({ "a": 9, "b": [1, 4], "c": { "d": 2.5 }, "t": "abc" });
        let plain = |source: &str| {
            let mut engine = Environment::new();
            filters::add_to(&mut engine);
            engine.set_undefined_behavior(UndefinedBehavior::Strict);
            let values = Values::of(serde_json::json!({ "param": param }));
            engine.render_named_str("x", source, values.all.clone()).map_err(|error| error.kind())
        };
        // A number is neither less nor greater than a text or a list, which the engine orders by their types.
        let has_other = ["param.t", "'t-x'", "param.b", "~"].iter().any(|other| expression.contains(other));
        let is_of_one_type = !has_other || !expression.contains(['<', '>']);
        let (before, after) = (plain(&source), plain(&marked));
        // Only what the engine can parse is marked.
        prop_assume!(is_of_one_type && !matches!(before, Err(ErrorKind::SyntaxError)));
        prop_assert_eq!(before.is_ok(), after.is_ok(), "{} {:?} {:?}", &marked, &before, &after);
        // An operand of another type is an error either way, but not the same one.
        if let (Ok(before), Ok(after)) = (before, after) {
            prop_assert_eq!(before, after, "{}", marked);
        }
    }

    #[test]
    fn any_number_is_inserted_as_it_is_written(number in "-?(0|[1-9][0-9]{0,45})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,12})?") {
        let param = format!("[{number}]");
        prop_assert_eq!(text("{{ param[0] }}", &param), &number[..]);
        prop_assert_eq!(json("{{ param[0] }}{{ param[0] | tojson }}", &param), number.repeat(2));
        prop_assert_eq!(text("{{ param[0] == param[0] }}{{ param[0] < param[0] }}", &param), "truefalse");
    }

    #[test]
    fn no_source_makes_marking_fail(source in "(\\{\\{|\\{%|\\}\\}|%\\}|[-+*/%|.~=<>!()\\[\\]{}'\"a1,: ]|for|in|is|not|if|é){0,40}") {
        let _ = operands::marked(&source);
        let _ = Template::<Text>::new(source);
    }
}
