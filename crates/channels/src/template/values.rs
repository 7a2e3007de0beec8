//! [`Values`]: what templates can insert, and the budget of the templates of a notice.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::value::{Object, Serde, Value};
use serde::Serialize;
use solid_notify_core::definition::{ExposeSecret, SecretRef};
use solid_notify_sweeper::Failure;

use super::depth;
use super::fuel::{FUEL, Fuel, QUICK};
use super::param::{self, note_problem};
use crate::channel::AnyNotice;
use crate::secrets::Secrets;

/// The longest parameter that the runtime reads itself, in bytes. It takes less than 5 ms; a megabyte of small objects takes 130 ms in a release build.
const LARGE: usize = 32 * 1024;

/// What templates can insert: `param` (the parameter), `notice` (see below), and `secrets` (the secrets that the configuration names).
///
/// `notice.id`, `notice.idempotency_key`, `notice.definition`, `notice.target`, `notice.attempt`, `notice.created` (RFC 3339),
/// `notice.test` (true for a test of an operator), and `notice.ack_token` where the definition has `need_confirm`.
///
/// The parameter is read by the first template that names it, so that one that cannot be read is sent where no template needs it.
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

/// The variables of a template.
struct Variables {
    param: Arc<Param>,
    notice: Value,
    secrets: Value,
}

/// A parameter, and its value once a template has asked for it. `None`: it cannot be read.
struct Param {
    text: String,
    value: OnceLock<Option<Value>>,
}

impl Param {
    fn new(text: &str) -> Arc<Self> {
        Arc::new(Self { text: text.to_owned(), value: OnceLock::new() })
    }

    fn value(&self) -> Option<Value> {
        let read = || param::read(&self.text);
        let mut problem = None;
        let value = self.value.get_or_init(|| read().map_err(|error| problem = Some(error)).ok());
        if value.is_none() {
            note_problem(problem.or_else(|| read().err()).map(|problem| problem.to_string()).unwrap_or_default());
        }
        value.clone()
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variables").finish_non_exhaustive()
    }
}

impl Object for Variables {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "param" => self.param.value(),
            "notice" => Some(self.notice.clone()),
            "secrets" => Some(self.secrets.clone()),
            _ => None,
        }
    }
}

impl<'n> Values<'n> {
    /// Returns the values of a notice. `ack_token`: the token for the receiver, where it is to ack. `names`: what templates call the secrets.
    ///
    /// # Errors
    /// A secret that was not read.
    pub fn new(
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
        let param = notice.raw_param();
        let is_large = param.len() > LARGE;
        let variables = Variables {
            param: Param::new(param),
            notice: Value::from(Serde(&about)),
            secrets: Value::from(Serde(&shown)),
        };
        let quick = if is_large { 0 } else { QUICK };
        let all = Value::from_object(variables);
        Ok(Self { all, fuel: Fuel::of(FUEL), quick: Fuel::of(quick), is_large, notice: Some(notice) })
    }

    /// Returns the same values with other secrets in place of the right ones, to see whether a text depends on them.
    #[cfg(feature = "plain-webhook")]
    #[must_use]
    pub fn with_other_secrets(&self, names: &BTreeMap<String, SecretRef>) -> Self {
        let others: BTreeMap<&String, &str> = names.keys().map(|name| (name, "other")).collect();
        let secrets = Value::from(Serde(&others));
        let all = match self.all.downcast_object_ref::<Variables>() {
            Some(Variables { param, notice, .. }) => {
                Value::from_object(Variables { param: param.clone(), notice: notice.clone(), secrets })
            }
            None => minijinja::context! { secrets, ..self.all.clone() },
        };
        let (fuel, quick) = (Fuel::of(self.fuel.left()), Fuel::of(self.quick.left()));
        Self { all, fuel, quick, is_large: self.is_large, notice: self.notice }
    }

    /// Makes values of something else than a notice.
    #[cfg(any(feature = "mail", test))]
    pub(crate) fn of(values: impl Serialize) -> Self {
        Self::of_value(Value::from(Serde(&values)))
    }

    /// Makes values of a parameter alone.
    #[cfg(test)]
    pub(crate) fn of_param(param: &str) -> Self {
        let empty = Value::from(Serde(BTreeMap::<&str, &str>::new()));
        let variables = Variables { param: Param::new(param), notice: empty.clone(), secrets: empty };
        Self::of_value(Value::from_object(variables))
    }

    #[cfg(any(feature = "mail", test))]
    fn of_value(all: Value) -> Self {
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
