//! The handler of alerts as the book sets it up; the chapter "Alerts" shows the region. It sends nothing.

use std::error::Error;

use solid_notify::channels::{AlertChannels, DingTalk, Mailer};
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::testkit::MemoryOutbox;
use solid_notify::{AnyOutbox, OutboxExt, SweeperBuilder};

fn alerting(outbox: &AnyOutbox, smtp_url: &str, ops_url: &str, secret: &str) -> Result<SweeperBuilder, Box<dyn Error>> {
    // [channels]
    let alerts = AlertChannels::builder()
        .mail(Mailer::from_url(smtp_url)?.from("alerts@example.org").build()?) // STARTTLS or TLS, unless the URL says otherwise
        .chat("ops", DingTalk::new(ops_url).secret(secret)) // or Feishu, WeCom, Slack; `alert_to = 'ops'` names it
        .build()?;
    let builder = outbox.sweeper().handler_type(ALERT_DEFINITION, alerts);
    // [end]
    Ok(builder)
}

#[tokio::test]
async fn mail_and_chat_are_set_up_as_the_book_says() {
    let outbox = MemoryOutbox::new();
    let builder =
        alerting(&outbox, "smtps://user:password@mail.example.org", "https://chat.example.org/hook", "secret");
    builder.unwrap().start().await.unwrap().shutdown().await;
}
