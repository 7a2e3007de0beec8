//! The sender of alerts in these tests: an outbox in memory with a hand-turned clock, and a sweeper with the handler.

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use solid_notify::alert::{AlertKind, AlertReason};
use solid_notify::channels::AlertChannels;
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::{Alert, Handler, HandlerResult, Notice, NoticeRecord, NotifyDef, OutboxExt, Status, Sweeper};
use solid_notify_conformance::Backend;
use solid_notify_core::alert::built_in;
use test_support::log::Log;
use test_support::memory::MemoryBackend;
use test_support::sending::{Calls, add_alert, eventually, reaches, record, update};

/// The retry interval of the alerts' definition here.
const INTERVAL: Duration = Duration::from_secs(3600);

/// Sends alerts.
pub struct Desk {
    backend: MemoryBackend,
    sweeper: Sweeper,
    /// The types in the chain of each failure that the classifier recognises.
    pub causes: Calls<Vec<&'static str>>,
}

impl Desk {
    /// Starts with this handler.
    pub async fn with(alerts: AlertChannels) -> Self {
        log();
        let backend = MemoryBackend::default();
        let definition = built_in().retry_interval("[1h]").max_retry_times(5);
        backend.outbox().define_if_missing(definition).await.unwrap();
        let causes = Calls::default();
        let spy = Spy { alerts, causes: causes.clone() };
        let sweeper = backend.outbox().sweeper().handler_type(ALERT_DEFINITION, spy).start().await.unwrap();
        Self { backend, sweeper, causes }
    }

    /// Creates a definition and waits until the sweeper has read it.
    pub async fn define(&self, definition: NotifyDef) {
        self.backend.outbox().define_if_missing(definition).await.unwrap();
        self.sweeper.idle().await;
    }

    /// Edits the row of alerts and waits until the sweeper has read it.
    pub async fn edit_row_of_alerts(&self, change: impl FnOnce(NotifyDef) -> NotifyDef) {
        update(&self.backend, ALERT_DEFINITION, change).await;
        self.sweeper.idle().await;
    }

    /// Adds an alert, as the library does.
    pub async fn add(&self, alert: &Alert) -> i64 {
        add_alert(self.backend.outbox(), alert).await
    }

    /// Adds an alert and waits until its first attempt has ended with this status.
    pub async fn send(&self, alert: &Alert, becomes: Status) -> NoticeRecord {
        let id = self.add(alert).await;
        reaches(&self.backend, id, becomes).await
    }

    /// Turns the clock to the next attempt and waits until it has ended with this status.
    pub async fn retry(&self, before: &NoticeRecord, becomes: Status) -> NoticeRecord {
        self.backend.clock().advance(INTERVAL + Duration::from_secs(60));
        let b: &dyn Backend = &self.backend;
        let ended = async || {
            let now = record(b, before.id).await;
            now.fence > before.fence && now.status == becomes
        };
        eventually(&format!("the retry ends as {becomes:?}"), ended).await;
        record(b, before.id).await
    }

    /// How long the next attempt is to wait.
    pub fn wait(&self, record: &NoticeRecord) -> Duration {
        (record.next_call_time.unwrap() - self.backend.clock().now()).to_std().unwrap()
    }

    /// Ends it.
    pub async fn close(self) {
        self.sweeper.shutdown().await;
    }
}

/// The last error of a notice, as it is stored.
pub fn error(record: &NoticeRecord) -> &str {
    &record.errors.last().expect("an error").message
}

/// The log of this test program.
pub fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(Log::start)
}

/// An alert about `definition` that goes to these.
pub fn alert(definition: &str, email: &[&str], chats: &[&str]) -> Alert {
    let mut alert = Alert::new(AlertKind::Raised, AlertReason::FinalFailure, definition, "connection refused <b>");
    alert.notice_id = Some(7);
    alert.node = "node-1".to_owned();
    alert.email = email.iter().map(ToString::to_string).collect();
    alert.alert_to = chats.iter().map(ToString::to_string).collect();
    alert
}

/// The handler, watched.
struct Spy {
    alerts: AlertChannels,
    causes: Calls<Vec<&'static str>>,
}

impl Handler for Spy {
    type Param = Alert;

    async fn handle(&self, notice: Notice<Alert>) -> HandlerResult {
        let outcome = self.alerts.handle(notice).await;
        if let Err(failure) = &outcome {
            self.causes.note(known_types(failure.error().as_ref()));
        }
        outcome
    }

    fn check_recipients(&self, email: &[String], alert_to: &[String]) -> Result<(), String> {
        self.alerts.check_recipients(email, alert_to)
    }
}

/// Walks the chain as the classifier does.
pub fn known_types(error: &(dyn Error + 'static)) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<solid_notify::HttpStatus>() {
            found.push("status");
        } else if error.is::<lettre::transport::smtp::Error>() {
            found.push("lettre");
        } else if error.is::<std::io::Error>() {
            found.push("io");
        }
        cause = error.source();
    }
    found
}
