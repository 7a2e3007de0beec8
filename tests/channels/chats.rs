//! The posts to each chat service, and the treatment of its responses.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use solid_notify::Status;
use solid_notify::channels::{AlertChannels, ChatService, DingTalk, Feishu, Slack, WeCom};

use crate::desk::{Desk, alert, error, log};
use crate::receiver::{Headers, Receiver};

const OK: &str = r#"{"errcode":0,"errmsg":"ok"}"#;
const FEISHU_OK: &str = r#"{"code":0,"msg":"success","data":{}}"#;

/// A desk with one chat, `ops`.
async fn desk(service: impl ChatService) -> Desk {
    Desk::with(AlertChannels::builder().chat("ops", service).build().unwrap()).await
}

/// A second implementation of the signatures that the services compute.
fn hmac(key: &str, message: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(message.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

fn is_about_now(time: Duration) -> bool {
    (Utc::now() - DateTime::UNIX_EPOCH).to_std().unwrap().abs_diff(time) < Duration::from_secs(30)
}

#[tokio::test]
async fn ding_talk_gets_a_text_with_a_signature_that_it_can_verify() {
    let receiver = Receiver::accepting(OK).await;
    let desk = desk(DingTalk::new(receiver.url("/robot/send?access_token=t0ken-of-ops")).secret("SECofmine")).await;
    desk.send(&alert("订单同步", &[], &["ops"]), Status::Succeeded).await;
    let [posted] = &receiver.posted.all()[..] else { panic!("one message expected") };
    assert_eq!((posted.path.as_str(), posted.query["access_token"].as_str()), ("/robot/send", "t0ken-of-ops"));
    let time = &posted.query["timestamp"];
    assert!(is_about_now(Duration::from_millis(time.parse().unwrap())), "{time}");
    assert_eq!(posted.query["sign"], hmac("SECofmine", &format!("{time}\nSECofmine")));
    assert_eq!(posted.body["msgtype"], "text");
    let text = posted.body["text"]["content"].as_str().unwrap();
    assert!(text.starts_with("订单同步: finally failed (notice 7)\n") && text.contains("node: node-1"), "{text}");
    assert!(posted.content_type.starts_with("application/json"), "{}", posted.content_type);
    desk.close().await;
}

#[tokio::test]
async fn feishu_gets_a_text_with_a_signature_that_it_can_verify() {
    let receiver = Receiver::accepting(FEISHU_OK).await;
    let desk = desk(Feishu::new(receiver.url("/open-apis/bot/v2/hook/t0ken")).secret("mine").keyword("告警")).await;
    desk.send(&alert("sync", &[], &["ops"]), Status::Succeeded).await;
    let [posted] = &receiver.posted.all()[..] else { panic!("one message expected") };
    let time = posted.body["timestamp"].as_str().unwrap();
    assert!(is_about_now(Duration::from_secs(time.parse().unwrap())), "{time}");
    assert_eq!(posted.body["sign"], hmac(&format!("{time}\nmine"), ""));
    assert_eq!(posted.body["msg_type"], "text");
    assert!(posted.body["content"]["text"].as_str().unwrap().starts_with("告警\nsync: finally failed"));
    desk.close().await;
}

#[tokio::test]
async fn we_com_and_slack_get_a_text_in_their_own_form() {
    let (we_com, slack) = (Receiver::accepting(OK).await, Receiver::accepting("ok").await);
    let alerts = AlertChannels::builder()
        .chat("wecom", WeCom::new(we_com.url("/cgi-bin/webhook/send?key=k")))
        .chat("slack", Slack::new(slack.url("/services/T/B/x")));
    let desk = Desk::with(alerts.build().unwrap()).await;
    let record = desk.send(&alert("sync", &[], &["wecom", "slack"]), Status::Succeeded).await;
    let posted = &we_com.posted.all()[0];
    assert_eq!((&posted.body["msgtype"], posted.query["key"].as_str()), (&"text".into(), "k"));
    assert!(posted.body["text"]["content"].as_str().unwrap().contains("connection refused <b>"));
    let text = slack.posted.all()[0].body["text"].as_str().unwrap().to_owned();
    assert!(text.contains("connection refused &lt;b&gt;"), "{text}");
    let description = record.description.unwrap();
    assert!(description.starts_with("delivered to: ") && description.contains("slack"), "{description}");
    desk.close().await;
}

#[tokio::test]
async fn a_refusal_in_an_answer_of_http_200_is_a_failure_and_is_retried() {
    let receiver = Receiver::accepting(r#"{"errcode":310000,"errmsg":"sign not match"}"#).await;
    let desk = desk(DingTalk::new(receiver.url("/robot/send?access_token=t0ken"))).await;
    let failed = desk.send(&alert("sync", &[], &["ops"]), Status::Failed).await;
    assert_eq!(error(&failed), "the chat `ops` refused the message: errcode 310000: sign not match");
    receiver.now(200, OK);
    desk.retry(&failed, Status::Succeeded).await;
    assert_eq!(receiver.posted.count(), 2);
    desk.close().await;
}

#[tokio::test]
async fn an_error_status_is_a_failure_with_every_body() {
    let receiver = Receiver::accepting("").await;
    receiver.now(502, OK);
    let desk = desk(WeCom::new(receiver.url("/send?key=the-key-of-mine"))).await;
    let failed = desk.send(&alert("sync", &[], &["ops"]), Status::Failed).await;
    assert!(error(&failed).contains("502"), "{}", error(&failed));
    assert_eq!(desk.causes.all(), [["status"]], "a classifier finds its status");
    desk.close().await;
}

#[tokio::test]
async fn a_service_that_takes_no_more_is_left_alone_for_as_long_as_it_shuts_out() {
    let receiver = Receiver::accepting(OK).await;
    let cases: [(u16, Headers, &str, u64); 4] = [
        (200, vec![], r#"{"errcode":130101,"errmsg":"send too fast, exceed 20 times per minute"}"#, 600),
        (429, vec![("retry-after", "77")], "slow down", 77),
        (429, vec![("x-ogw-ratelimit-reset", "52")], r#"{"code":99991400}"#, 52),
        (429, vec![], "", 60),
    ];
    for (status, headers, body, seconds) in cases {
        receiver.now(200, OK);
        receiver.then_with(status, headers, body);
        receiver.then(200, OK);
        let desk = desk(DingTalk::new(receiver.url("/robot/send?access_token=t0ken"))).await;
        desk.send(&alert("first", &[], &["ops"]), Status::Succeeded).await;
        let limited = desk.send(&alert("sync", &[], &["ops"]), Status::Failed).await;
        assert_eq!(desk.wait(&limited), Duration::from_secs(seconds), "{}", error(&limited));
        assert!(error(&limited).contains(&format!("for {seconds} s")), "{}", error(&limited));
        desk.retry(&limited, Status::Succeeded).await;
        desk.close().await;
    }
}

#[tokio::test]
async fn an_unreachable_chat_reports_its_cause_and_not_its_url() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let desk = desk(Slack::new(format!("http://{free}/services/t0ken-of-slack"))).await;
    let failed = desk.send(&alert("sync", &[], &["ops"]), Status::Failed).await;
    assert!(error(&failed).starts_with("the chat `ops` did not answer: "), "{}", error(&failed));
    assert!(!error(&failed).contains("t0ken-of-slack"), "{}", error(&failed));
    assert_eq!(desk.causes.all().remove(0).first(), Some(&"io"));
    desk.close().await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_secret() {
    let (receiver, stranger) = (Receiver::accepting(OK).await, Receiver::accepting(OK).await);
    receiver.now(200, OK);
    let elsewhere: &'static str = stranger.url("/robot/send").leak();
    receiver.then_with(302, vec![("location", elsewhere)], "");
    receiver.then(302, "");
    let desk = desk(DingTalk::new(receiver.url("/robot/send?access_token=t0ken"))).await;
    desk.send(&alert("first", &[], &["ops"]), Status::Succeeded).await;
    desk.send(&alert("sync", &[], &["ops"]), Status::Failed).await;
    assert_eq!(stranger.posted.count(), 0);
    desk.close().await;
}

#[tokio::test]
async fn secrets_are_in_no_error_and_in_no_line_of_the_log() {
    let secrets = ["t0ken-of-mine", "SEC-of-mine"];
    let receiver =
        Receiver::accepting(r#"{"errcode":300001,"errmsg":"token t0ken-of-mine SEC-of-mine is not exist"}"#).await;
    let robot = DingTalk::new(receiver.url("/robot/send?access_token=t0ken-of-mine")).secret("SEC-of-mine");
    let alerts = AlertChannels::builder().chat("ops", robot).build().unwrap();
    let mut texts = vec![format!("{alerts:?}")];
    let desk = Desk::with(alerts).await;
    for (status, body) in [(200, ""), (403, "no t0ken-of-mine here"), (429, "t0ken-of-mine again")] {
        let failed = desk.send(&alert("sync", &[], &["ops"]), Status::Failed).await;
        texts.push(format!("{failed:?}"));
        receiver.now(status, body);
    }
    desk.close().await;
    texts.extend(log().all());
    for secret in secrets {
        let leaks: Vec<_> = texts.iter().filter(|text| text.contains(secret)).collect();
        assert!(leaks.is_empty(), "{leaks:?}");
    }
}
