//! Tests of [`super::Template`]: what is escaped, what is missing, and what it may cost.

use super::*;

fn rendered<E: Escape>(source: &str, param: &str) -> Result<String, String> {
    Template::<E>::new(source)?.render("body", &Values::of_param(param)).map_err(|failure| failure.error().to_string())
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
        Template::<Addresses>::new(source).unwrap().addresses("to", &Values::of_param(param)).unwrap()
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
    let within = |limit| template.render_within(limit, "body", &Values::of_param(&param));
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
    assert_eq!(error, "it takes more than 1000000 steps (line 1 of the template)");
    let error = rendered::<Text>(&loops("param.n"), r#"{"n":10000}"#).unwrap_err();
    assert!(error.contains("`body`: it takes more than 1000000 steps"), "{error}");
}

#[test]
fn templates_of_a_notice_have_one_budget() {
    let values = Values::of_param(r#"{"n":350,"text":"x"}"#);
    let costly = "{% for a in range(param.n) %}{% for b in range(param.n) %}{% endfor %}{% endfor %}";
    let costly = Template::<Text>::new(costly).unwrap();
    assert!(costly.render("a", &values).is_ok());
    let _ = costly.render("a", &values);
    let error = costly.render("b", &values).unwrap_err().error().to_string();
    assert!(error.contains("`b`: the templates take more than 1000000 steps together"), "{error}");
    let light = Template::<Text>::new("{{ param.text }}").unwrap();
    assert_eq!(light.render("c", &values).unwrap(), "x", "what is left is enough");
    #[cfg(feature = "plain-webhook")]
    assert!(costly.render("d", &values.with_other_secrets(&BTreeMap::new())).is_err());
}

#[test]
fn templates_of_a_configuration_have_one_budget() {
    let costly = "{% for a in range(350) %}{% for b in range(350) %}{% endfor %}{% endfor %}";
    let failing = format!("{costly}{{{{ 1 // 0 }}}}");
    let read =
        |sources: &[&str]| reading(|| sources.iter().try_for_each(|source| Template::<Text>::new(*source).map(drop)));
    for source in [costly, &failing] {
        assert_eq!(read(&[source]), Ok(()));
        let error = read(&[source; 3]).unwrap_err();
        assert!(error.starts_with("the templates take more than 1000000 steps together"), "{error}");
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
