//! The handler of the definition `notify.alert`: it adds the recipients, the owner, the runbook and the link to an alert, and then
//! calls the handler that the application has registered.
//!
//! They are those of the moment of sending, so an edit of a row also applies to alerts that already wait.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use metrics::Counter;
use solid_notify_core::definition::SecretRef;
use solid_notify_core::metrics::ALERTS_SENT;
use solid_notify_core::{ALERT_DEFINITION, Alert};

use super::recipients::Recipients;
use crate::definitions::KnownDefinitions;
use crate::handlers::erased::AnyHandler;
use crate::handlers::handler::{Facts, HandlerResult};
use crate::handlers::under_way::Call;

/// The handler of alerts around the one of the application.
struct AlertHandler {
    inner: Arc<dyn AnyHandler>,
    /// Weak, because the definitions hold this handler.
    known: Weak<KnownDefinitions>,
    base_url: Option<Arc<str>>,
    sent: Counter,
}

impl AlertHandler {
    fn new(inner: Arc<dyn AnyHandler>, known: &Weak<KnownDefinitions>, base_url: Option<&Arc<str>>) -> Self {
        Self { inner, known: Weak::clone(known), base_url: base_url.cloned(), sent: metrics::counter!(ALERTS_SENT) }
    }

    /// Returns the parameter with the recipients, the owner, the runbook and the link. An alert that an application has inserted
    /// with some of its own keeps them; a parameter that is no alert stays as it is.
    fn completed(&self, param: &str) -> Option<String> {
        let mut alert: Alert = serde_json::from_str(param).ok()?;
        if let (None, Some(base), Some(id)) = (&alert.link, &self.base_url, alert.notice_id) {
            alert.link = Some(format!("{base}/notices/{id}"));
        }
        let view = self.known.upgrade()?.view();
        let definition = view.named(&alert.definition).map(|of| &*of.row);
        alert.owner = alert.owner.or_else(|| definition?.owner.clone());
        alert.runbook = alert.runbook.or_else(|| definition?.runbook.clone());
        if alert.email.is_empty() && alert.alert_to.is_empty() {
            let alerts = view.alerts().and_then(|id| view.get(id));
            let recipients = Recipients::of(definition, alerts.map(|of| &*of.row), Some(alert.reason));
            (alert.email, alert.alert_to) = (recipients.email, recipients.alert_to);
        }
        Some(alert.to_json())
    }
}

impl AnyHandler for AlertHandler {
    fn call(self: Arc<Self>, facts: Arc<Facts>) -> BoxFuture<'static, Result<HandlerResult, String>> {
        if let Some(param) = self.completed(facts.param()) {
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

    fn own_calls(&self) -> Vec<Call> {
        self.inner.own_calls()
    }

    fn check(&self, handler_config: Option<&str>) -> Result<(), String> {
        self.inner.check(handler_config)
    }

    fn secrets(&self, handler_config: Option<&str>) -> Vec<SecretRef> {
        self.inner.secrets(handler_config)
    }

    fn check_recipients(&self, email: &[String], alert_to: &[String]) -> Result<(), String> {
        self.inner.check_recipients(email, alert_to)
    }
}

/// Wraps the handler of alerts that the application has registered, if there is one.
pub(crate) fn complete_alerts(
    handlers: &mut HashMap<String, Arc<dyn AnyHandler>>,
    known: &Weak<KnownDefinitions>,
    base_url: Option<&Arc<str>>,
) {
    if let Some(handler) = handlers.get_mut(ALERT_DEFINITION) {
        *handler = Arc::new(AlertHandler::new(Arc::clone(handler), known, base_url));
    }
}
