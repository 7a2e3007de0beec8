//! Values of a parameter in a request: they arrive as they were, and each stays in its place of the URL.

use serde_json::json;
use solid_notify::Status;

use super::sender::{Sender, failure};
use super::server::Receiver;
use crate::brokers::strange_param;

#[tokio::test]
async fn parameter_and_its_values_arrive_as_they_were() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(200).await);
    let param = strange_param();
    let url = receiver.url("/{{ param.n }}/{{ param.id }}?x={{ param.x }}");
    let values = r#"{"n":{{ param.n }},"id":{{ param.id }},"x":{{ param.x }},"note":{{ param.note }},"a":{{ param.a }},"all":{{ param | tojson }}}"#;
    let form =
        json!({ "n": "{{ param.n }}", "id": "{{ param.id }}", "x": "{{ param.x }}", "yes": "{{ param.b == 1 }}" });
    for body in [json!("param"), json!({ "json": values }), json!({ "form": form }), json!({ "text": "{{ param }}" })] {
        let headers = json!({ "x-n": "{{ param.n }} {{ param.id }}" });
        let config = json!({ "url": url, "allow_hosts": ["127.0.0.1"], "headers": headers, "body": body });
        let sent = sender.send(config, &param).await;
        assert_eq!(sent.status, Status::Succeeded, "{body}: {sent:?}");
    }
    let [whole, json, form, text] = &receiver.got.all()[..] else { panic!("four requests expected") };
    assert_eq!((whole.text(), text.text()), (param.get(), param.get()));
    let expected = r#"{"n":19.90,"id":12345678901234567890123,"x":1e400,"note":"cut \ud83d","a":null,"all":PARAM}"#;
    assert_eq!(json.text(), expected.replace("PARAM", param.get()));
    assert_eq!(form.text(), "id=12345678901234567890123&n=19.90&x=1e400&yes=true");
    for got in [whole, json, form, text] {
        assert_eq!(got.uri.to_string(), "/19.90/12345678901234567890123?x=1e400");
        assert_eq!(got.header("x-n"), "19.90 12345678901234567890123");
    }
    sender.close().await;
}

#[tokio::test]
async fn value_without_a_text_is_an_error_that_says_why() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(200).await);
    for (value, problem) in
        [("a", "a value is null"), ("note", "half a surrogate pair"), ("missing", "undefined value")]
    {
        for config in [
            json!({ "url": receiver.url(&format!("/{{{{ param.{value} }}}}")), "allow_hosts": ["127.0.0.1"] }),
            json!({ "url": receiver.url("/"), "body": { "form": { "a": format!("{{{{ param.{value} }}}}") } } }),
            json!({ "url": receiver.url("/"), "headers": { "x-a": format!("{{{{ param.{value} ~ '' }}}}") } }),
        ] {
            let failed = sender.send(config.clone(), &strange_param()).await;
            let (class, message) = failure(&failed);
            assert_eq!((class, failed.status), ("invalid", Status::DeadLetter), "{config} {message}");
            assert!(message.contains(problem), "{config} {message}");
        }
    }
    assert_eq!(receiver.got.count(), 0);
    sender.close().await;
}

#[tokio::test]
async fn value_stays_in_its_segment_of_the_path() {
    let (sender, receiver) = (Sender::local().await, Receiver::answering(200).await);
    for filter in ["", " | urlencode"] {
        let url =
            receiver.url(&format!("/shops/{{{{ param.shop{filter} }}}}/orders/{{{{ param.id }}}}?x={{{{ param.x }}}}"));
        let config = json!({ "url": url, "allow_hosts": ["127.0.0.1"] });
        let sent = sender.send(config.clone(), &json!({ "shop": "a/b\t?c", "id": 1, "x": "#" })).await;
        assert_eq!(sent.status, Status::Succeeded, "{sent:?}");
        let uri = receiver.got.all().last().unwrap().uri.to_string();
        assert_eq!(uri, "/shops/a%2Fb%09%3Fc/orders/1?x=%23");
        for shop in ["..", "a/../admin", "..\\x", "a/.\t./admin", ".\n."] {
            let failed = sender.send(config.clone(), &json!({ "shop": shop, "id": 1, "x": 1 })).await;
            let (class, message) = failure(&failed);
            let is_named = message.contains("a segment `.` or `..`");
            assert_eq!((class, failed.status, is_named), ("invalid", Status::DeadLetter, true), "{shop}: {message}");
        }
    }
    sender.close().await;
}
