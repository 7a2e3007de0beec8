//! The recipients of an alert: those of its columns, defaults, unknown names, and those left for a retry.

use solid_notify::channels::{AlertChannels, Mailer, Slack};
use solid_notify::testkit::MemoryOutbox;
use solid_notify::{NotifyDef, Status};

use crate::desk::{Desk, alert, error, log};
use crate::receiver::Receiver;

#[tokio::test]
async fn a_retry_reaches_only_those_who_have_not_got_it() {
    let (first, second, third) =
        (Receiver::accepting("ok").await, Receiver::accepting("no").await, Receiver::accepting("ok").await);
    second.now(500, "down");
    let alerts = AlertChannels::builder()
        .chat("first", Slack::new(first.url("/1")))
        .chat("second", Slack::new(second.url("/2")))
        .chat("third", Slack::new(third.url("/3")));
    let desk = Desk::with(alerts.build().unwrap()).await;
    let failed = desk.send(&alert("sync", &[], &["first", "second", "third"]), Status::Failed).await;
    assert_eq!(error(&failed).split(':').next(), Some("the chat `second` refused the message"));
    let description = failed.description.clone().unwrap();
    assert!(!description.contains("second"), "{description}");
    let again = desk.retry(&failed, Status::Failed).await;
    second.now(200, "ok");
    let done = desk.retry(&again, Status::Succeeded).await;
    assert_eq!([&first, &second, &third].map(|receiver| receiver.posted.count()), [1, 3, 1]);
    assert!(done.description.unwrap().ends_with(", second"));
    desk.close().await;
}

#[tokio::test]
async fn an_unknown_chat_is_reported_and_the_known_ones_get_the_alert() {
    let receiver = Receiver::accepting("ok").await;
    let alerts = AlertChannels::builder()
        .chat("ops", Slack::new(receiver.url("/ops")))
        .chat("dev", Slack::new(receiver.url("/dev")));
    let desk = Desk::with(alerts.build().unwrap()).await;
    let failed = desk.send(&alert("sync", &[], &["opps", " ops ", "ops"]), Status::Failed).await;
    let told = "the column `alert_to` names the chat `opps`, which is not known here: known are ops, dev";
    assert_eq!(error(&failed), told);
    assert_eq!(failed.description.as_deref(), Some("delivered to: ops"));
    assert_eq!(receiver.posted.count(), 1, "once, though it is named twice");
    desk.close().await;
}

#[tokio::test]
async fn an_alert_goes_to_the_defaults_only_when_it_names_no_receiver() {
    let receiver = Receiver::accepting("ok").await;
    let alerts = AlertChannels::builder()
        .chat("ops", Slack::new(receiver.url("/ops")))
        .chat("dev", Slack::new(receiver.url("/dev")))
        .default_chat("ops");
    let desk = Desk::with(alerts.build().unwrap()).await;
    desk.send(&alert("sync", &[], &[" "]), Status::Succeeded).await;
    desk.send(&alert("sync", &[], &["dev"]), Status::Succeeded).await;
    let paths: Vec<String> = receiver.posted.all().into_iter().map(|posted| posted.path).collect();
    assert_eq!(paths, ["/ops", "/dev"]);
    desk.close().await;
}

#[tokio::test]
async fn an_alert_without_recipients_is_a_dead_letter_that_says_so() {
    let desk = Desk::with(AlertChannels::builder().build().unwrap()).await;
    let dead = desk.send(&alert("without-recipients", &[], &[]), Status::DeadLetter).await;
    let message = error(&dead);
    assert!(message.contains("the definition `without-recipients` names no recipient"), "{message}");
    desk.close().await;
}

#[tokio::test]
async fn recipients_that_cannot_be_reached_are_logged_when_the_row_is_read() {
    let alerts = AlertChannels::builder().chat("ops", Slack::new("http://127.0.0.1:9/")).build().unwrap();
    let desk = Desk::with(alerts).await;
    for (name, row) in [
        ("misspelt-chat", NotifyDef::new("misspelt-chat").alert_to("opps")),
        ("without-mailer", NotifyDef::new("without-mailer").email("a@example.com")),
        ("misspelt-reason", NotifyDef::new("misspelt-reason").alert_to("final_failur=ops")),
        ("none-named", NotifyDef::new("none-named")),
        ("no-alerts", NotifyDef::new("no-alerts").alert_trigger_type("never")),
    ] {
        desk.define(row).await;
        let told = log().errors_with(name);
        match name {
            "misspelt-chat" => assert!(told.len() == 1 && told[0].contains("known are ops"), "{told:?}"),
            "misspelt-reason" => assert!(told.len() == 1 && told[0].contains("known are: final_failure"), "{told:?}"),
            "without-mailer" => assert!(told.len() == 1 && told[0].contains("there is no mailer"), "{told:?}"),
            "none-named" => assert!(told.len() == 1 && told[0].contains("names no recipient"), "{told:?}"),
            _ => assert!(told.is_empty(), "{told:?}"),
        }
    }
    desk.close().await;
}

#[tokio::test]
async fn row_with_a_wrong_address_of_alerts_is_not_stored() {
    let outbox = MemoryOutbox::new();
    let row = |email: &str| NotifyDef::new("sync").email(email);
    let right = "\"Doe, Jane\" <jane@example.org>; backlog=\"night, shift\"@example.org, a@b.c";
    outbox.define_if_missing(row(right)).await.unwrap();
    let seen = outbox.operator("alice").definition("sync").await.unwrap();
    for (email, named) in [
        ("a@b.c, ops", "email = \"ops\": expected mail addresses, separated by commas: it has no `@`"),
        ("final_failure=ops at b.c", "email = \"ops at b.c\": expected"),
        ("Doe\", Jane <jane@example.org>", "a quote in its name is not closed"),
    ] {
        let new = outbox.define_if_missing(NotifyDef::new("other").email(email)).await.unwrap_err();
        let edited = outbox.operator("alice").edit_definition(&seen, row(email)).await.unwrap_err();
        let previewed = outbox.operator("alice").preview_edit(&seen, &row(email)).await.unwrap_err();
        for error in [new.to_string(), edited.to_string(), previewed.to_string()] {
            assert!(error.contains(named), "{email}: {error}");
        }
    }
}

#[tokio::test]
async fn misspelt_entries_of_the_row_of_alerts_are_logged_when_it_is_read() {
    let alerts = AlertChannels::builder().chat("ops", Slack::new("http://127.0.0.1:9/")).build().unwrap();
    let desk = Desk::with(alerts).await;
    for (list, expected) in [("dead_leters=ops", "known are: final_failure"), ("desk-of-alerts", "known are ops")] {
        desk.edit_row_of_alerts(|row| row.alert_to(list)).await;
        let told = log().errors_with(list);
        assert!(told.len() == 1 && told[0].contains(expected), "{told:?}");
    }
    desk.close().await;
}

#[tokio::test]
async fn addresses_without_a_mailer_are_an_error_and_chats_get_it_nevertheless() {
    let receiver = Receiver::accepting("ok").await;
    let alerts = AlertChannels::builder().chat("ops", Slack::new(receiver.url("/ops"))).build().unwrap();
    let desk = Desk::with(alerts).await;
    let failed = desk.send(&alert("sync", &["ops@example.com"], &["ops"]), Status::Failed).await;
    assert!(error(&failed).contains("`email` names ops@example.com, and there is no mailer"), "{}", error(&failed));
    assert_eq!(receiver.posted.count(), 1);
    desk.close().await;
}

#[tokio::test]
async fn a_wrong_address_is_given_up_at_once_when_no_other_is_left() {
    let mailer = Mailer::plaintext("127.0.0.1").from("alerts@example.com").build().unwrap();
    let desk = Desk::with(AlertChannels::builder().mail(mailer).build().unwrap()).await;
    let dead = desk.send(&alert("sync", &["ops at example.com"], &[]), Status::DeadLetter).await;
    assert!(error(&dead).contains(r#"`email` has "ops at example.com", which is no mail address"#), "{}", error(&dead));
    desk.close().await;
}

#[test]
fn wrong_settings_are_refused_before_the_first_alert() {
    let hook = || Slack::new("https://hooks.example.com/t0ken-of-slack");
    let cases = [
        (AlertChannels::builder().chat("a,b", hook()), "`a,b` cannot be the name"),
        (AlertChannels::builder().chat("ops@home", hook()), "`ops@home` cannot be the name"),
        (AlertChannels::builder().chat("", hook()), "`` cannot be the name"),
        (AlertChannels::builder().chat("ops", hook()).chat("ops", hook()), "two chats have the name `ops`"),
        (AlertChannels::builder().chat("ops", hook()).default_chat("opps"), "`opps` is not known; known are: ops"),
        (AlertChannels::builder().chat("ops", Slack::new("t0ken-of-slack")), "the URL of the chat `ops`"),
        (AlertChannels::builder().chat("ops", Slack::new("ftp://x/t0ken-of-slack")), "the URL of the chat `ops`"),
        (AlertChannels::builder().default_email("ops@example.com"), "no mailer"),
        (AlertChannels::builder().default_email("ops"), "`ops`"),
    ];
    for (builder, words) in cases {
        let error = builder.build().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(words) && !format!("{error:?}").contains("t0ken-of-slack"), "{error:?}");
    }
}
