//! [`Values`]: what templates can insert, and the budget of the templates of a notice.

use std::collections::BTreeMap;

use minijinja::value::{Serde, Value};
use serde::Serialize;
use solid_notify_core::ErrorClass;
use solid_notify_core::definition::{ExposeSecret, SecretRef};
use solid_notify_sweeper::Failure;

use super::depth;
use super::fuel::{FUEL, Fuel, QUICK};
use crate::channel::AnyNotice;
use crate::secrets::Secrets;

/// The longest parameter that the runtime reads itself, in bytes. It takes less than 5 ms; a megabyte of small objects takes 130 ms in a release build.
const LARGE: usize = 32 * 1024;

/// What templates can insert: `param` (the parameter), `notice` (see below), and `secrets` (the secrets that the configuration names).
///
/// `notice.id`, `notice.idempotency_key`, `notice.definition`, `notice.target`, `notice.attempt`, `notice.created` (RFC 3339),
/// `notice.test` (true for a test of an operator), and `notice.ack_token` where the definition has `need_confirm`.
pub struct Values<'n> {
    pub(super) all: Value,
    /// What the templates of the notice may take.
    pub(super) fuel: Fuel,
    /// What they may take of it on a thread of the runtime.
    pub(super) quick: Fuel,
    is_large: bool,
    /// For which notice a rendering elsewhere counts; `None`: all is rendered here.
    notice: Option<&'n AnyNotice>,
}

#[derive(Serialize)]
struct NoticeValues<'a> {
    id: i64,
    idempotency_key: String,
    definition: &'a str,
    target: Option<&'a str>,
    attempt: i64,
    created: String,
    test: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_token: Option<String>,
}

impl<'n> Values<'n> {
    /// Reads the values of a notice. `ack_token`: the token for the receiver, where it is to ack. `names`: what templates call the secrets.
    ///
    /// # Errors
    /// A parameter that is not JSON.
    pub async fn new(
        notice: &'n AnyNotice,
        ack_token: Option<String>,
        (names, secrets): (&BTreeMap<String, SecretRef>, &Secrets<'_>),
    ) -> Result<Self, Failure> {
        let mut shown = BTreeMap::new();
        for (name, reference) in names {
            shown.insert(name, secrets.get(reference)?.expose_secret().to_owned());
        }
        let about = NoticeValues {
            id: notice.id(),
            idempotency_key: notice.idempotency_key(),
            definition: notice.definition(),
            target: notice.target(),
            attempt: notice.attempt(),
            created: notice.created().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            test: notice.is_test(),
            ack_token,
        };
        let (notice_values, secret_values) = (Value::from(Serde(&about)), Value::from(Serde(&shown)));
        let text = notice.raw_param();
        let is_large = text.len() > LARGE;
        let param = if is_large {
            let text = text.to_owned();
            elsewhere(Some(notice), move || read(&text)).await?
        } else {
            read(text)
        };
        let param = param.map_err(|_| Failure::retry("the parameter is not JSON").class(ErrorClass::Invalid))?;
        let all = minijinja::context! { param => param, notice => notice_values, secrets => secret_values };
        let quick = if is_large { 0 } else { QUICK };
        Ok(Self { all, fuel: Fuel::of(FUEL), quick: Fuel::of(quick), is_large, notice: Some(notice) })
    }

    /// Returns the same values with other secrets in place of the right ones, to see whether a text depends on them.
    #[cfg(feature = "plain-webhook")]
    #[must_use]
    pub fn with_other_secrets(&self, names: &BTreeMap<String, SecretRef>) -> Self {
        let others: BTreeMap<&String, &str> = names.keys().map(|name| (name, "other")).collect();
        let all = minijinja::context! { secrets => Value::from(Serde(&others)), ..self.all.clone() };
        let (fuel, quick) = (Fuel::of(self.fuel.left()), Fuel::of(self.quick.left()));
        Self { all, fuel, quick, is_large: self.is_large, notice: self.notice }
    }

    /// Makes values of something else than a notice.
    #[cfg(any(feature = "mail", test))]
    pub(crate) fn of(values: impl Serialize) -> Self {
        let all = Value::from(Serde(&values));
        Self { all, fuel: Fuel::of(FUEL), quick: Fuel::of(QUICK), is_large: false, notice: None }
    }

    /// Does work that takes long on a thread that may block.
    pub(super) async fn elsewhere<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        elsewhere(self.notice, work).await
    }
}

impl Drop for Values<'_> {
    fn drop(&mut self) {
        if self.is_large
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // To free half a million values takes as long as to read them.
            let all = std::mem::take(&mut self.all);
            runtime.spawn_blocking(move || drop(all));
        }
    }
}

fn read(param: &str) -> serde_json::Result<Value> {
    let param: serde_json::Value = serde_json::from_str(param)?;
    Ok(Value::from(Serde(&param)))
}

/// Does work for a notice in turn with that of other definitions. An error means that it panicked, or that the runtime ends.
async fn elsewhere<T: Send + 'static>(
    notice: Option<&AnyNotice>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let work = move || depth::on_large_stack(work);
    let Some(notice) = notice else { return work().map_err(Failure::retry) };
    let computing = notice.outbox().engine().computing().run(notice.definition(), work);
    // Boxed, because each rendering would have a place for its state.
    Box::pin(computing).await.map_err(|error| Failure::retry(error).free_of_values())
}
