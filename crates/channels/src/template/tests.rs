//! Tests of [`super::Template`]: what is escaped, what is missing, and what it may cost.

use std::collections::BTreeMap;

use futures_util::FutureExt;

use super::*;

/// The values of a notice with this parameter.
fn values(param: &str) -> Values<'static> {
    Values::of_param(param)
}

/// Without a notice all is rendered at once.
fn render<E: Escape>(template: &Template<E>, field: &str, values: &Values<'_>) -> Result<String, Failure> {
    template.render(field, values).now_or_never().unwrap()
}

fn rendered<E: Escape>(source: &str, param: &str) -> Result<String, String> {
    render(&Template::<E>::new(source)?, "body", &values(param)).map_err(|failure| failure.error().to_string())
}

#[test]
fn values_are_escaped_for_the_kind_of_text() {
    let param = r#"{"name":"<b>\"ü\"</b>","big":9007199254740993}"#;
    assert_eq!(rendered::<Text>("{{ param.name }}", param).unwrap(), "<b>\"ü\"</b>");
    assert_eq!(rendered::<Html>("{{ param.name }}", param).unwrap(), "&lt;b&gt;&quot;ü&quot;&lt;&#x2f;b&gt;");
    let json = rendered::<Json>(r#"{"n": {{ param.name }}, "big": {{ param.big }}}"#, param).unwrap();
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((read["n"].as_str(), read["big"].as_u64()), (Some("<b>\"ü\"</b>"), Some(9_007_199_254_740_993)));
}

#[test]
fn inserted_text_is_one_address_and_an_inserted_list_has_several() {
    let addresses = |source: &str, param: &str| {
        let template = Template::<Addresses>::new(source).unwrap();
        template.addresses("to", &values(param)).now_or_never().unwrap().unwrap()
    };
    assert_eq!(addresses("{{ param.one }}", r#"{"one":"a@x, b@x\nc@x"}"#), ["a@x, b@x c@x"]);
    assert_eq!(addresses("{{ param.all }}", r#"{"all":["a@x","b@x\r\nc@x",null]}"#), ["a@x", "b@x  c@x"]);
    let people = r#"{"people":[{"mail":"a@x"},{"mail":"b@x"}],"none":null}"#;
    assert_eq!(addresses("{{ param.people | map(attribute='mail') }}", people), ["a@x", "b@x"]);
    assert!(addresses("{{ param.none }}{% if param.none %}x{% endif %}", people).is_empty());
    assert_eq!(addresses("Ops <ops@x>", "{}"), ["Ops <ops@x>"]);
}

#[test]
fn mistake_in_a_template_has_its_line() {
    let error = Template::<Text>::new("a\n{{ param.").unwrap_err();
    assert!(error.contains("(line 2 of the template)"), "{error}");
    let error = serde_json::from_str::<Template>("\"{{ x | nofilter }}\"").map(drop).unwrap_err().to_string();
    assert!(error.contains("nofilter") && error.ends_with("at line 1 column 20"), "{error}");
}

#[test]
fn missing_value_is_an_error_that_shows_no_value() {
    let error = rendered::<Text>("{{ param.missing.deep }}", r#"{"secret":"hunter2"}"#).unwrap_err();
    assert!(error.contains("`body`") && error.contains("undefined") && !error.contains("hunter2"), "{error}");
}

#[test]
fn output_of_a_template_is_bounded() {
    let param = serde_json::json!({ "text": "ü".repeat(500) }).to_string();
    let loops = |count: usize| format!("{{% for n in range({count}) %}}{{{{ param.text }}}}{{% endfor %}}");
    assert_eq!(rendered::<Text>(&loops(1000), &param).unwrap().len(), 1_000_000);
    for error in [rendered::<Text>(&loops(2000), &param), rendered::<Html>(&loops(2000), &param)] {
        let error = error.unwrap_err();
        assert!(error.contains("`body`: it makes more than 1048576 bytes") && !error.contains('ü'), "{error}");
    }
    let template = Template::<Text>::new("{{ param.text }}").unwrap();
    let within = |limit| template.render_within(limit, "body", &values(&param)).now_or_never().unwrap();
    assert_eq!(within(1000).unwrap().len(), 1000);
    let error = within(999).unwrap_err().error().to_string();
    assert!(error.ends_with("it makes more than 999 bytes"), "{error}");
}

#[test]
fn endless_template_ends() {
    let loops = |count: &str| {
        format!("{{% for a in range({count}) %}}{{% for b in range({count}) %}}{{% endfor %}}{{% endfor %}}")
    };
    let error = Template::<Text>::new(loops("10000")).unwrap_err();
    assert_eq!(error, "it takes more than 50000 steps (line 1 of the template)");
    let error = rendered::<Text>(&loops("param.n"), r#"{"n":10000}"#).unwrap_err();
    assert!(error.contains("`body`: it takes more than 1000000 steps"), "{error}");
}

#[test]
fn templates_of_a_notice_have_one_budget() {
    let values = values(r#"{"n":350,"text":"x"}"#);
    let costly = "{% for a in range(param.n) %}{% for b in range(param.n) %}{% endfor %}{% endfor %}";
    let costly = Template::<Text>::new(costly).unwrap();
    assert!(render(&costly, "a", &values).is_ok());
    let _ = render(&costly, "a", &values);
    let error = render(&costly, "b", &values).unwrap_err().error().to_string();
    assert!(error.contains("`b`: the templates take more than 1000000 steps together"), "{error}");
    let light = Template::<Text>::new("{{ param.text }}").unwrap();
    assert_eq!(render(&light, "c", &values).unwrap(), "x", "what is left is enough");
    #[cfg(feature = "plain-webhook")]
    assert!(render(&costly, "d", &values.with_other_secrets(&BTreeMap::new())).is_err());
}

#[test]
fn templates_of_a_configuration_have_one_budget() {
    let costly = "{% for a in range(80) %}{% for b in range(80) %}{% endfor %}{% endfor %}";
    let failing = format!("{costly}{{{{ 1 // 0 }}}}");
    let read =
        |sources: &[&str]| reading(|| sources.iter().try_for_each(|source| Template::<Text>::new(*source).map(drop)));
    for source in [costly, &failing] {
        assert_eq!(read(&[source]), Ok(()));
        let error = read(&[source; 3]).unwrap_err();
        assert!(error.starts_with("the templates take more than 50000 steps together"), "{error}");
        assert!(Template::<Text>::new(source).is_ok(), "by itself");
    }
    assert_eq!(read(&["{{ param.a }}"; 500]), Ok(()));
}

#[test]
fn depth_length_and_memory_of_a_template_are_bounded() {
    let error = Template::<Text>::new(format!("{{{{ {}1{} }}}}", "(".repeat(200), ")".repeat(200))).unwrap_err();
    assert!(error.contains("recursion"), "{error}");
    let error = Template::<Text>::new("x".repeat(OUTPUT_LIMIT + 1)).unwrap_err();
    assert_eq!(error, "a template has at most 1048576 bytes; this one has 1048577");
    let doubled = "{% set n = namespace(x=param.a) %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
    let error = rendered::<Text>(doubled, r#"{"a":"abc"}"#).unwrap_err();
    assert!(error.contains("it takes more than 1000000 steps"), "{error}");
    let error = rendered::<Text>("{{ param.a * 9999999999 }}", r#"{"a":"abc"}"#).unwrap_err();
    assert!(error.starts_with("handler_config: the template `body`: "), "{error}");
}

#[test]
fn few_steps_are_taken_here_and_the_others_elsewhere() {
    let values = values(r#"{"n":300,"text":"x"}"#);
    let light = Template::<Text>::new("{{ param.text }}").unwrap();
    for _ in 0..100 {
        assert_eq!(render(&light, "a", &values).unwrap(), "x");
    }
    let left = values.quick.left();
    assert!(left > fuel::QUICK / 4, "light ones leave much: {left}");
    let loops = "{% for a in range(param.n) %}{% for b in range(param.n) %}{% endfor %}{% endfor %}y";
    let costly = Template::<Text>::new(loops).unwrap();
    assert_eq!(render(&costly, "b", &values).unwrap(), "y");
    assert_eq!(values.quick.left(), 0, "none is left for the next one");
    assert_eq!(render(&light, "c", &values).unwrap(), "x");
    let long = format!("{{# {} #}}{{{{ param.text }}}}", "x".repeat(60_000));
    let again = self::values(r#"{"text":"x"}"#);
    assert_eq!(render(&Template::<Text>::new(long).unwrap(), "d", &again).unwrap(), "x");
    assert_eq!(again.quick.left(), fuel::QUICK, "it is parsed elsewhere");
}

/// On the stack of a test, which is that of a thread of the runtime, or smaller.
#[test]
fn no_template_ends_the_stack() {
    for link in ["+1", "|upper", ".a", "[0]", " is string", " and 1", " if 1 else 1"] {
        let chain = |count: usize| format!("{{{{ param{} }}}}", link.repeat(count));
        let error = Template::<Text>::new(chain(9000)).unwrap_err();
        assert_eq!(error, "a tag has more than 200 operators");
        let _ = Template::<Text>::new(chain(90)).map(|template| render(&template, "a", &values("{}")));
    }
    // A value within a value, again and again.
    let (open, close) = ("[".repeat(40), "]".repeat(40));
    let wrapped = format!("{{% set n.x = {open}n.x{close} %}}");
    let loops = format!("{{% set n = namespace(x=1) %}}{{% for i in range(param.n) %}}{wrapped}{{% endfor %}}x");
    let loops = Template::<Text>::new(loops).unwrap();
    assert_eq!(render(&loops, "a", &values(r#"{"n":5000}"#)).unwrap(), "x");
    let printed =
        format!("{{% set n = namespace(x=1) %}}{{% for i in range(param.n) %}}{wrapped}{{% endfor %}}{{{{ n.x }}}}");
    let _ = render(&Template::<Text>::new(printed).unwrap(), "a", &values(r#"{"n":2000}"#));
    let straight = "{% set x = 1 %}".to_owned() + &format!("{{% set x = {open}x{close} %}}").repeat(300);
    let _ = Template::<Text>::new(straight).map(|template| render(&template, "a", &values("{}")));
    // A loop that calls itself.
    let recursive = "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}";
    assert!(
        Template::<Text>::new(recursive)
            .map(|template| render(&template, "a", &values("{}")))
            .is_ok_and(|text| text.is_err())
    );
}
