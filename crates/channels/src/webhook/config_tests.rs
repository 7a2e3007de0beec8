//! Configurations, right and wrong: each mistake is an error with its field or position, and none is a panic.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};
use solid_notify_core::definition::read_config;

use super::*;

static WEBHOOK: LazyLock<Webhook> = LazyLock::new(|| Webhook::builder().build().unwrap());

fn prepared(config: &str) -> Result<Prepared, String> {
    WEBHOOK.prepare(read_config(Some(config))?)
}

/// A configuration that uses every field.
fn full() -> Value {
    json!({
        "url": "https://shop.example.com/orders/{{ param.id | urlencode }}",
        "allow_hosts": ["shop.example.com", "*.shop.example.com"],
        "method": "PUT",
        "headers": { "x-shop": "{{ param.shop }}" },
        "body": { "cloud_events": { "mode": "binary", "source": "/shop", "type": "order", "subject": "{{ param.id }}" } },
        "signing_keys": ["env:OLD_KEY", "file:/run/secrets/key"],
        "auth": { "oauth2": {
            "token_url": "https://login.example.com/token", "client_id": "shop", "client_secret": "env:SECRET",
            "scope": "a b", "audience": "shop", "credentials": "body"
        } },
        "tls": { "certificate": "file:/run/tls.pem", "key": "file:/run/tls.key", "ca_file": "/etc/ca.pem" },
        "secrets": { "key": "env:KEY" },
        "timeout": "10s",
        "max_request_bytes": 1000,
        "max_response_bytes": 1000,
        "success": ["2xx", 409]
    })
}

#[test]
fn a_url_is_enough_and_every_field_can_be_set() {
    assert!(prepared(r#"{"url":"https://shop.example.com/hook"}"#).is_ok());
    assert_eq!(prepared(&full().to_string()).err(), None);
}

#[test]
fn mistake_names_its_field_and_what_would_be_right() {
    let url = r#""url":"https://shop.example.com/""#;
    for (config, expected) in [
        ("{}", "missing field `url`"),
        (r#"{"url":"ftp://x/"}"#, "url: its scheme is neither `https` nor `http`"),
        (r#"{"url":"https://user:hunter2@x/"}"#, "url: it has a user or password in it; use `auth`"),
        (r#"{"url":"shop"}"#, "url: it is no URL"),
        (r#"{"url":"https://{{ param.host }}/"}"#, "`allow_hosts` must list the hosts"),
        (
            r#"{"url":"https://a.example.org/","allow_hosts":["b.example.org"]}"#,
            "url: its host is not in `allow_hosts`",
        ),
        (r#"{"url":"https://a/{{ x"}"#, "url: "),
        (&format!(r#"{{{url},"ulr":1}}"#), "unknown field `ulr`"),
        (&format!(r#"{{{url},"headers":{{"a b":"x"}}}}"#), "\"a b\" is no name of a header"),
        (&format!(r#"{{{url},"headers":{{"Webhook-Id":"x"}}}}"#), "the header `webhook-id` is set by the channel"),
        (
            &format!(r#"{{{url},"headers":{{"Authorization":"Bearer hunter2"}}}}"#),
            "headers.authorization: its value is a secret",
        ),
        (&format!(r#"{{{url},"auth":{{"bearer":"hunter2"}}}}"#), "auth.bearer: expected a reference to a secret"),
        (&format!(r#"{{{url},"auth":{{"digest":1}}}}"#), "auth: unknown variant `digest`"),
        (&format!(r#"{{{url},"method":"post"}}"#), "method: unknown variant `post`"),
        (&format!(r#"{{{url},"method":"GET","body":{{"text":"x"}}}}"#), "body: a request with the method GET has none"),
        (&format!(r#"{{{url},"timeout":"30"}}"#), "timeout: expected a unit behind `30`"),
        (&format!(r#"{{{url},"success":[]}}"#), "success: it is empty"),
        (&format!(r#"{{{url},"success":[99]}}"#), "success[0]: 99 is no status"),
        (&format!(r#"{{{url},"tls":{{"certificate":"env:A"}}}}"#), "tls: `certificate` needs its `key`"),
        (&format!(r#"{{{url},"tls":{{"ca_file":"ca.pem"}}}}"#), "tls.ca_file: expected an absolute path"),
        (&format!(r#"{{{url},"max_request_bytes":-1}}"#), "max_request_bytes: invalid value"),
        (&format!(r#"{{{url},"max_request_bytes":16777217}}"#), "max_request_bytes: expected at most 16777216"),
        (&format!(r#"{{{url},"max_response_bytes":1048577}}"#), "max_response_bytes: expected at most 1048576"),
        (
            &format!(r#"{{{url},"signing_keys":[{}]}}"#, [r#""env:NOTIFY_SECRET_A""#; 11].join(",")),
            "signing_keys: expected at most 10 keys, but there are 11",
        ),
    ] {
        let error = prepared(config).err().unwrap();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{config}: {error}");
    }
}

#[test]
fn definitions_share_a_client_and_a_token() {
    let of = |at: usize, change: fn(&mut Value)| {
        let mut config = full();
        config["headers"]["x-shop"] = json!(at.to_string());
        change(&mut config);
        WEBHOOK.prepare(read_config(Some(&config.to_string())).unwrap()).unwrap()
    };
    let all: Vec<_> = (0..1000).map(|at| of(at, |_| {})).collect();
    let (tls, token) = (all[0].tls.as_ref().unwrap(), all[0].token.as_ref().unwrap());
    assert!(all.iter().all(|other| Arc::ptr_eq(tls, other.tls.as_ref().unwrap())), "one client for their certificates");
    assert!(
        all.iter().all(|other| Arc::ptr_eq(&token.of_client, &other.token.as_ref().unwrap().of_client)),
        "one token for their client"
    );
    let other = of(0, |config| {
        config["tls"]["ca_file"] = json!("/etc/other.pem");
        config["auth"]["oauth2"]["scope"] = json!("c");
    });
    assert!(
        !Arc::ptr_eq(tls, other.tls.as_ref().unwrap())
            && !Arc::ptr_eq(&token.of_client, &other.token.as_ref().unwrap().of_client)
    );
    // Without certificates of its own a definition has no client but the one of the channel.
    assert!(of(0, |config| *config = json!({ "url": "https://shop.example.com/" })).tls.is_none());
}

/// Any JSON of a small depth.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z:/{}% .*@]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{0,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The places in a value, as JSON pointers.
fn places(value: &Value, prefix: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let path = format!("{prefix}/{name}");
        places(child, &path, found);
        found.push(path);
    }
}

/// Returns whether an error says where the mistake is: a field, or a line with its column.
fn says_where(error: &str) -> bool {
    let fields = full();
    let names = fields.as_object().unwrap().keys();
    error.contains(" at line ") || names.into_iter().any(|name| error.starts_with(&**name))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn malformed_configuration_is_an_error_with_its_place(at in any::<prop::sample::Index>(), wrong in any_json()) {
        let mut config = full();
        let mut all = Vec::new();
        places(&config, "", &mut all);
        let place: &String = at.get(&all);
        *config.pointer_mut(place).unwrap() = wrong;
        if let Err(error) = prepared(&config.to_string()) {
            prop_assert!(says_where(&error), "{error}");
        }
    }

    #[test]
    fn cut_or_changed_text_is_an_error_with_its_place(at in any::<prop::sample::Index>(), with in "\\PC{0,3}", cut in any::<bool>()) {
        let text = full().to_string();
        let at = at.index(text.len());
        let end = if cut { String::new() } else { text[at + 1..].to_owned() };
        if let Err(error) = prepared(&format!("{}{with}{end}", &text[..at])) {
            prop_assert!(says_where(&error), "{error}");
        }
    }
}

#[test]
fn host_of_a_template_is_known_from_that_of_a_path() {
    let has_one_host = |url: &str| {
        let config = json!({ "url": url, "allow_hosts": ["*.example.com"] });
        serde_json::from_value::<WebhookConfig>(config).unwrap().has_one_host()
    };
    for one in [
        "https://shop.example.com",
        "https://shop.example.com/{{ param.path }}",
        "https://shop.example.com?id={{ param.id }}",
        "https:///shop.example.com/{{ param.path }}",
    ] {
        assert!(has_one_host(one), "{one}");
    }
    for many in [
        "https://{{ param.host }}/",
        "https://shop.example.com{{ param.rest }}/",
        "https:///{{ param.host }}/",
        "https://\t/{{ param.host }}/",
        "https:\\\\{{ param.host }}/",
        "https:/{{ param.host }}/a://b/",
        "{{ param.url }}",
        "{% if param.a %}https://a.example.com/{% else %}https://b.example.com/{% endif %}",
    ] {
        assert!(!has_one_host(many), "{many:?}");
    }
}
