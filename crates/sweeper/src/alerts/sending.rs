//! The handler of the definition `notify.alert`: it adds the recipients to an alert, and then calls the handler that the
//! application has registered.
//!
//! The recipients are those of the moment of sending, so an edit of a row also applies to alerts that already wait.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use metrics::Counter;
use solid_notify_core::Alert;
use solid_notify_core::metrics::ALERTS_SENT;

use super::recipients::Recipients;
use crate::definitions::KnownDefinitions;
use crate::running::handler::{AnyHandler, Closure, Facts, Failure, HandlerResult, Notice, Typed};

/// The handler of alerts around the one of the application.
pub(crate) struct AlertHandler {
    inner: Arc<dyn AnyHandler>,
    /// Weak, because the definitions hold this handler.
    known: Weak<KnownDefinitions>,
    sent: Counter,
}

impl AlertHandler {
    pub(crate) fn new(inner: Arc<dyn AnyHandler>, known: &Arc<KnownDefinitions>) -> Self {
        Self { inner, known: Arc::downgrade(known), sent: metrics::counter!(ALERTS_SENT) }
    }

    /// Returns the parameter with the recipients. An alert that an application has inserted with recipients of its own keeps
    /// them; a parameter that is no alert stays as it is.
    fn with_recipients(&self, param: &str) -> Option<String> {
        let mut alert: Alert = serde_json::from_str(param).ok()?;
        if !alert.email.is_empty() || !alert.alert_to.is_empty() {
            return None;
        }
        let view = self.known.upgrade()?.view();
        let alerts = view.alerts().and_then(|id| view.get(id));
        let recipients = Recipients::of(view.named(&alert.definition).map(|of| &**of), alerts.map(|of| &**of));
        (alert.email, alert.alert_to) = (recipients.email, recipients.alert_to);
        Some(alert.to_json())
    }
}

impl AnyHandler for AlertHandler {
    fn call(self: Arc<Self>, facts: Arc<Facts>) -> BoxFuture<'static, Result<HandlerResult, String>> {
        if let Some(param) = self.with_recipients(facts.param()) {
            facts.complete(param);
        }
        let result = Arc::clone(&self.inner).call(facts);
        Box::pin(async move {
            let result = result.await;
            if matches!(result, Ok(Ok(()))) {
                self.sent.increment(1);
            }
            result
        })
    }

    fn check_recipients(&self, email: &[String], alert_to: &[String]) -> Result<(), String> {
        self.inner.check_recipients(email, alert_to)
    }
}

/// Returns the handler that logs alerts, used if no node has a handler for them.
pub(crate) fn log_alerts() -> Arc<dyn AnyHandler> {
    let log = |notice: Notice<Alert>| async move {
        let alert = notice.param();
        tracing::error!(definition = %alert.definition, reason = alert.reason.as_str(), "{}", alert.text());
        Ok::<_, Failure>(())
    };
    Arc::new(Typed(Closure::new(log)))
}
