//! The handler of alerts and the channels as the book sets them up; its chapters show the regions.

use std::error::Error;
use std::time::Duration;

use chrono::DateTime;
use solid_notify::alert::{AlertKind, AlertReason};
// [slack_imports]
use solid_notify::alert::ALERT_DEFINITION;
use solid_notify::channels::{AlertChannels, Slack};
// [end]
use solid_notify::channels::{ChannelExt, Chat, DingTalk, Mail, Mailer};
use solid_notify::testkit::{HandClock, MemoryOutbox, TestSweeper};
use solid_notify::{Alert, AnyOutbox, Failure, Notice, NotifyDef, OutboxExt, SweeperBuilder, add_notice};

use test_support::sending::add_alert;

use self::only_dead_letters::OnlyDeadLetters;
use crate::receiver::Receiver;

#[tokio::test]
async fn channels_of_rows_are_set_up_as_the_book_says() {
    let outbox = MemoryOutbox::new();
    // [mail_and_chat]
    let sweeper = outbox
        .sweeper()
        .channel(Mail::new().attachments_from("/srv/payslips")) // solid_notify::channels::{ChannelExt, Chat, Mail}
        .channel(Chat::new());
    // [end]
    sweeper.start().await.unwrap().shutdown().await;
}

/// The addresses and secrets, which a configuration has.
struct Config<'a> {
    smtp_url: &'a str,
    slack_url: &'a str,
    ding_talk_url: &'a str,
    ding_talk_secret: &'a str,
}

fn alerting(outbox: &AnyOutbox, config: &Config<'_>) -> Result<SweeperBuilder, Box<dyn Error>> {
    // [channels]
    let alerts = AlertChannels::builder()
        .mail(Mailer::from_url(config.smtp_url)?.from("alerts@example.org").build()?) // STARTTLS or TLS, unless the URL says otherwise
        .chat("ops", Slack::new(config.slack_url)) // `alert_to = 'ops'` names it
        .chat("duty", DingTalk::new(config.ding_talk_url).secret(config.ding_talk_secret)) // `alert_to = 'ops,duty'` names both
        .build()?;
    let builder = outbox.sweeper().handler_type(ALERT_DEFINITION, alerts);
    // [end]
    Ok(builder)
}

#[tokio::test]
async fn mail_and_chats_are_set_up_as_the_book_says() {
    let outbox = MemoryOutbox::new();
    let config = Config {
        smtp_url: "smtps://user:password@mail.example.org",
        slack_url: "https://slack.example.org/services/T/B/x",
        ding_talk_url: "https://chat.example.org/hook",
        ding_talk_secret: "secret",
    };
    alerting(&outbox, &config).unwrap().start().await.unwrap().shutdown().await;
}

/// The web service of the book, with alerts.
mod service {
    use solid_notify::HandlerResult;

    use super::*;

    const SHIP_ORDER: &str = "ship_order";

    #[derive(Clone)]
    struct Warehouse;

    async fn ship(_: Warehouse, _: Notice<i64>) -> HandlerResult {
        Ok(())
    }

    // [service]
    /// The handlers of the service, and that of alerts.
    fn handlers(outbox: &AnyOutbox, warehouse: Warehouse, alerts: AlertChannels) -> SweeperBuilder {
        outbox.sweeper().handler_with(SHIP_ORDER, warehouse, ship).handler_type(ALERT_DEFINITION, alerts)
    }
    // [end]

    #[tokio::test]
    async fn service_with_alerts_starts() {
        let outbox = MemoryOutbox::new();
        let alerts = by_default("https://slack.example.org/services/T/B/x").unwrap();
        handlers(&outbox, Warehouse, alerts).start().await.unwrap().shutdown().await;
    }
}

fn by_default(slack_url: &str) -> Result<AlertChannels, Box<dyn Error>> {
    // [by_default]
    let alerts = AlertChannels::builder().chat("ops", Slack::new(slack_url)).default_chat("ops").build()?;
    // [end]
    Ok(alerts)
}

async fn by_row(outbox: &AnyOutbox, slack_url: &str) -> Result<AlertChannels, Box<dyn Error>> {
    // [by_row]
    outbox.define_if_missing(NotifyDef::new(ALERT_DEFINITION).alert_to("ops")).await?; // before the first sweeper starts
    let alerts = AlertChannels::builder().chat("ops", Slack::new(slack_url)).build()?;
    // [end]
    Ok(alerts)
}

/// Makes a dead letter of each of two definitions, which name no recipient.
async fn fail_twice(outbox: &MemoryOutbox, alerts: AlertChannels) {
    let mut builder = outbox.sweeper().handler_type(ALERT_DEFINITION, alerts);
    for name in ["sync", "bill"] {
        outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
        builder = builder.handler(name, |_: Notice<i64>| async { Err(Failure::give_up("refused")) });
    }
    let sweeper = builder.start().await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    for name in ["sync", "bill"] {
        add_notice(&mut tx, name, 7).await.unwrap();
    }
    tx.commit().await.unwrap();
    sweeper.idle().await;
    sweeper.shutdown().await;
}

#[tokio::test]
async fn one_place_gets_the_alerts_of_all_definitions() {
    for in_the_row in [false, true] {
        let (outbox, slack) = (MemoryOutbox::new(), Receiver::accepting("ok").await);
        let url = slack.url("/services/T/B/x");
        let alerts = match in_the_row {
            true => by_row(&outbox, &url).await,
            false => by_default(&url),
        };
        fail_twice(&outbox, alerts.unwrap()).await;
        let posted = slack.posted.all();
        let of = |name| posted.iter().any(|post| post.body["text"].as_str().is_some_and(|text| text.starts_with(name)));
        assert!(posted.len() == 2 && of("sync") && of("bill"), "in the row: {in_the_row}; {posted:?}");
    }
}

/// The test calls `run` instead of `main`, because it has its own URL.
#[allow(dead_code)]
mod slack_alone {
    // [slack]
    use solid_notify::alert::ALERT_DEFINITION;
    use solid_notify::channels::{AlertChannels, Slack};
    use solid_notify::{Definition, Failure, Notice, NotifyDef, Outbox, OutboxExt, add_notice};
    use sqlx::sqlite::SqlitePoolOptions;

    type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

    const REPORT_SALE: Definition<i64> = Definition::new("report_sale");

    #[tokio::main]
    async fn main() -> Result<()> {
        run(&std::env::var("SLACK_URL")?).await // https://hooks.slack.com/services/…
    }

    pub async fn run(slack_url: &str) -> Result<()> {
        let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
        let outbox = Outbox::new(pool);
        outbox.migrate().await?;
        // No retry, so that the example is short: the first failure makes a dead letter, and that raises an alert.
        outbox.define_if_missing(NotifyDef::new(REPORT_SALE).max_retry_times(0).alert_to("ops")).await?;

        let alerts = AlertChannels::builder().chat("ops", Slack::new(slack_url)).build()?;
        let sweeper = outbox
            .sweeper()
            .handler(REPORT_SALE, |_: Notice<i64>| async { Err(Failure::retry("the office is closed")) })
            .handler_type(ALERT_DEFINITION, alerts) // in the sweeper of each process that may send alerts
            .start()
            .await?;

        let mut tx = outbox.begin().await?;
        add_notice(&mut tx, REPORT_SALE, 7).await?;
        tx.commit().await?;
        sweeper.idle().await; // the sale has failed, and the alert is posted; a service serves requests here
        sweeper.shutdown().await;
        Ok(())
    }
    // [end]
}

#[tokio::test]
async fn slack_alone_is_set_up_as_the_book_says() {
    let slack = Receiver::accepting("ok").await;
    slack_alone::run(&slack.url("/services/T/B/x")).await.unwrap();
    let [posted] = &slack.posted.all()[..] else { panic!("one message expected") };
    let text = posted.body["text"].as_str().unwrap();
    assert!(text.starts_with("report_sale: finally failed") && text.contains("the office is closed"), "{text}");
}

mod only_dead_letters {
    // [only_dead_letters]
    use solid_notify::alert::AlertReason;
    use solid_notify::channels::AlertChannels;
    use solid_notify::{Alert, Failure, Handler, HandlerResult, Notice};

    /// Sends the alerts about one dead letter and about many of them, and skips the others.
    pub struct OnlyDeadLetters(pub AlertChannels);

    impl Handler for OnlyDeadLetters {
        type Param = Alert;

        async fn handle(&self, notice: Notice<Alert>) -> HandlerResult {
            match notice.param().reason {
                AlertReason::FinalFailure | AlertReason::DeadLetters => self.0.handle(notice).await,
                _ => Err(Failure::skip("it is not about a dead letter")), // the alert ends as cancelled
            }
        }

        fn check_recipients(&self, email: &[String], alert_to: &[String]) -> std::result::Result<(), String> {
            self.0.check_recipients(email, alert_to) // so that unknown recipients are logged at the start
        }
    }
    // [end]
}

#[tokio::test]
async fn a_wrapper_lets_only_dead_letters_through() {
    let slack = Receiver::accepting("ok").await;
    let outbox = MemoryOutbox::builder().clock(HandClock::new(DateTime::UNIX_EPOCH)).build();
    let each = NotifyDef::new("sync").alert_trigger_type("each_failure").retry_interval("1s").max_retry_times(1);
    outbox.define_if_missing(each).await.unwrap();
    let builder = outbox
        .sweeper()
        .handler("sync", |_: Notice<i64>| async { Err(Failure::retry("refused")) })
        .handler_type(ALERT_DEFINITION, OnlyDeadLetters(by_default(&slack.url("/")).unwrap()));
    let sweeper = TestSweeper::start(builder).await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    add_notice(&mut tx, "sync", 7).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(sweeper.drain().await.failed, 1);
    assert_eq!(sweeper.advance(Duration::from_secs(1)).await.dead_letters, 1);
    for reason in [AlertReason::Backlog, AlertReason::DeadLetters] {
        add_alert(&outbox, &Alert::new(AlertKind::Raised, reason, "sync", "found by a check")).await;
    }
    sweeper.drain().await;
    let texts: Vec<String> = slack.posted.all().iter().map(|post| post.body["text"].to_string()).collect();
    assert!(texts.len() == 2 && texts[0].contains("finally failed") && texts[1].contains("many dead"), "{texts:?}");
    sweeper.shutdown().await;
}

mod alert_in_a_test {
    // [alert_test]
    use std::time::Duration;

    use anyhow::{Context, Result};
    use axum::{Router, routing::post};
    use serde_json::Value;
    use solid_notify::alert::ALERT_DEFINITION;
    use solid_notify::channels::{AlertChannels, Slack};
    use solid_notify::testkit::{HandClock, MemoryOutbox, TestSweeper};
    use solid_notify::{Failure, HttpStatus, Notice, NotifyDef, OutboxExt, add_notice};
    use tokio::{net::TcpListener, sync::mpsc};

    #[tokio::test]
    async fn refused_order_alerts_the_chat() -> Result<()> {
        // The chat: a server of the test.
        let (posts, mut posted) = mpsc::unbounded_channel();
        let chat = Router::new().route("/chat", post(async move |body: String| drop(posts.send(body))));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/chat", listener.local_addr()?);
        tokio::spawn(axum::serve(listener, chat).into_future());

        let outbox = MemoryOutbox::builder().clock(HandClock::new("2026-11-21T12:00:00Z".parse()?)).build();
        outbox.define_if_missing(NotifyDef::new("ship_order")).await?;
        let alerts = AlertChannels::builder().chat("ops", Slack::new(url)).default_chat("ops").build()?;
        let handlers = outbox
            .sweeper()
            .handler("ship_order", |_: Notice<i64>| async { Err(HttpStatus(422).into()) }) // as the receiver answers
            .handler_type(ALERT_DEFINITION, alerts);
        let sweeper = TestSweeper::start(handlers).await?;

        let mut tx = outbox.begin().await?;
        add_notice(&mut tx, "ship_order", 7).await?;
        tx.commit().await?;
        assert_eq!(sweeper.drain().await.dead_letters, 1); // 422 is not retried. `drain` sends the alert, too
        let body: Value = serde_json::from_str(&posted.try_recv().context("no alert was posted")?)?;
        let text = body["text"].as_str().context("a text")?;
        assert!(text.starts_with("ship_order: finally failed (notice 1)\n"), "{text}");
        Ok(())
    }
    // [end]
    #[tokio::test]
    async fn recovery_is_posted_after_the_cool_down() -> Result<()> {
        let (posts, mut posted) = mpsc::unbounded_channel();
        let chat = Router::new().route("/chat", post(async move |body: String| drop(posts.send(body))));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/chat", listener.local_addr()?);
        tokio::spawn(axum::serve(listener, chat).into_future());
        // [recovery_test]
        let outbox = MemoryOutbox::builder().clock(HandClock::new("2026-11-21T12:00:00Z".parse()?)).build();
        let definition =
            NotifyDef::new("ship_order").retry_interval("[1s,3s]").max_retry_times(2).alert_cooldown("10s");
        outbox.define_if_missing(definition.need_confirm(true)).await?;
        let alerts = AlertChannels::builder().chat("ops", Slack::new(url)).default_chat("ops").build()?;
        let handlers = outbox.sweeper().handler("ship_order", |_: Notice<i64>| async { Ok(()) });
        let sweeper = TestSweeper::start(handlers.handler_type(ALERT_DEFINITION, alerts)).await?;
        sweeper.fail_next("ship_order", 3, || Failure::retry("the receiver is down"));

        let mut tx = outbox.begin().await?;
        let id = add_notice(&mut tx, "ship_order", 7).await?.id();
        tx.commit().await?;
        assert_eq!(sweeper.drain().await.failed, 1);
        assert_eq!(sweeper.advance(Duration::from_secs(4)).await.dead_letters, 1);
        assert!(posted.try_recv()?.contains("finally failed"));

        // A person retries the dead letter. It succeeds with its ack, and nothing fails for the length of the cool-down.
        outbox.operator("alice").retry(id).await?;
        assert_eq!(sweeper.drain().await.awaiting_ack, 1);
        outbox.ack(id).await?;
        sweeper.advance(Duration::from_secs(10)).await;
        assert!(posted.try_recv()?.contains("recovered after"));
        // [end]
        Ok(())
    }
}
