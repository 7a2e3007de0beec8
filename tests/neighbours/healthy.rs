//! The healthy definitions: 20, at least two of each channel.

use serde_json::{Value, json};
use solid_notify::NotifyDef;

use crate::brokers::Brokers;
use crate::http::Http;

/// How many there are.
pub const COUNT: usize = 20;

/// The definition whose receivers are several customers.
pub const CUSTOMERS: &str = "healthy_1";

/// References to the secrets with the URLs.
pub struct Urls {
    pub amqp: String,
    pub nats: String,
    pub redis: String,
    pub smtp: String,
    pub chat: String,
}

/// The name of one of them.
pub fn name(number: usize) -> String {
    format!("healthy_{number}")
}

/// The parameter of a notice.
pub fn param(number: usize) -> Value {
    json!({ "number": number, "customer": format!("c{}", number % 7) })
}

/// All of them, in the order of their numbers.
pub fn definitions(http: &Http, brokers: &Brokers, urls: &Urls) -> Vec<NotifyDef> {
    let mail = json!({ "smtp": urls.smtp, "from": "shop@example.org", "to": ["a@example.org"], "subject": "Order {{ param.number }}", "text": "Paid." });
    let chat = json!({ "service": "slack", "url": urls.chat, "text": "Order {{ param.number }}" });
    let amqp = json!({ "url": urls.amqp, "routing_key": brokers.name, "headers": { "x-order": "{{ param.number }}" } });
    let replied = json!({ "url": urls.amqp, "routing_key": brokers.confirmed, "reply_queue": brokers.replies });
    let nats = json!({ "url": urls.nats, "subject": format!("{}.orders", brokers.name) });
    let redis = json!({ "url": urls.redis, "stream": brokers.name, "maxlen": 100 });
    let webhook = |path: &str| json!({ "url": http.url(path), "allow_hosts": ["127.0.0.1"] });
    let acked = |def: NotifyDef| def.need_confirm(true).max_confirm_delay("1h");
    let all: [(&str, usize, Value); 9] = [
        ("webhook", 1, webhook("/plain")),
        ("webhook", 1, webhook("/customers/{{ param.customer | urlencode }}")),
        ("webhook", 2, webhook("/acked")),
        ("mail", 3, mail),
        ("chat", 3, chat),
        ("amqp", 2, amqp),
        ("amqp", 2, replied),
        ("nats", 3, nats),
        ("redis_stream", 3, redis),
    ];
    let each = all.into_iter().flat_map(|(channel, count, config)| std::iter::repeat_n((channel, config), count));
    let defined = each.enumerate().map(|(number, (channel, config))| {
        let def = NotifyDef::new(name(number)).handler(channel).handler_config(config.to_string());
        let def = def.retry_interval("1s").max_retry_times(5);
        let is_acked = config["url"] == http.url("/acked") || config.get("reply_queue").is_some();
        if is_acked { acked(def) } else { def }
    });
    defined.collect()
}
