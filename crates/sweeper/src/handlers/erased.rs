//! Handlers with their types erased, so that a sweeper keeps all of them together: [`AnyHandler`], made from a [`Handler`] type or from
//! a closure.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use solid_notify_core::AnyOutbox;
use solid_notify_core::definition::SecretRef;
use solid_notify_core::store::LARGE_PARAM;

use super::handler::{Facts, Handler, HandlerResult, Notice};
use super::under_way::Call;

/// A handler whose parameter type is erased.
pub(crate) trait AnyHandler: Send + Sync {
    /// Deserialises the parameter and calls the handler. The outer error says why the parameter cannot be deserialised.
    fn call(self: Arc<Self>, facts: Arc<Facts>) -> BoxFuture<'static, Result<HandlerResult, String>>;

    /// Returns the calls that run in tasks of their own, beside the attempts that wait for them.
    fn own_calls(&self) -> Vec<Call> {
        Vec::new()
    }

    /// As [`Handler::check`].
    fn check(&self, handler_config: Option<&str>) -> Result<(), String>;

    /// As [`Handler::secrets`].
    fn secrets(&self, _handler_config: Option<&str>) -> Vec<SecretRef> {
        Vec::new()
    }

    /// As [`Handler::check_recipients`].
    fn check_recipients(&self, email: &[String], alert_to: &[String]) -> Result<(), String>;
}

/// A [`Handler`] as an [`AnyHandler`].
pub(crate) struct Typed<H>(pub(crate) H);

impl<H: Handler> AnyHandler for Typed<H> {
    fn call(self: Arc<Self>, facts: Arc<Facts>) -> BoxFuture<'static, Result<HandlerResult, String>> {
        Box::pin(async move {
            let param = read::<H::Param>(&facts).await?;
            Ok(self.0.handle(Notice { param, facts }).await)
        })
    }

    fn check(&self, handler_config: Option<&str>) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| self.0.check(handler_config)))
            .unwrap_or_else(|_| Err("the handler's check panicked".to_owned()))
    }

    fn secrets(&self, handler_config: Option<&str>) -> Vec<SecretRef> {
        // One that panics is refused by the check, or each attempt asks the rules again.
        catch_unwind(AssertUnwindSafe(|| self.0.secrets(handler_config))).unwrap_or_default()
    }

    fn check_recipients(&self, email: &[String], alert_to: &[String]) -> Result<(), String> {
        self.0.check_recipients(email, alert_to)
    }
}

/// Has the definitions of this handler checked before this process stores them, as long as a builder or a sweeper has the handler.
pub(crate) fn check_by(outbox: &AnyOutbox, name: &str, handler: &Arc<dyn AnyHandler>) {
    // The outbox must not keep the handler, because a handler may keep the outbox: neither would ever end, nor their connections.
    let handler = Arc::downgrade(handler);
    let check = move |config: Option<&str>| handler.upgrade().map_or(Ok(()), |handler| handler.check(config));
    outbox.engine().check_config_by(name.to_owned(), Arc::new(check));
}

/// A closure as a [`Handler`].
pub(crate) struct Closure<T, F> {
    call: F,
    param: PhantomData<fn(T)>,
}

impl<T, F> Closure<T, F> {
    pub(crate) fn new(call: F) -> Self {
        Self { call, param: PhantomData }
    }
}

impl<T, F, Fut> Handler for Closure<T, F>
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(Notice<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send,
{
    type Param = T;

    fn handle(&self, notice: Notice<T>) -> impl Future<Output = HandlerResult> + Send {
        (self.call)(notice)
    }
}

/// Reads the parameter of a notice: a large one on a thread that may block.
pub(super) async fn read<T: DeserializeOwned + Send + 'static>(facts: &Arc<Facts>) -> Result<T, String> {
    if facts.param().len() <= LARGE_PARAM {
        return parsed(facts.param());
    }
    let shared = Arc::clone(facts);
    let parsing = facts.outbox.engine().computing().run(&facts.row.name, move || Ok(parsed(shared.param())));
    // Boxed, because each attempt would have a place for its state.
    Box::pin(parsing).await.unwrap_or_else(|error| Err(format!("the parameter cannot be read: {error}")))
}

fn parsed<T: DeserializeOwned>(param: &str) -> Result<T, String> {
    // Only the position and the kind of the error: serde's own message quotes the value, and this text goes to logs and
    // tables.
    serde_json::from_str(param).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => "another type or shape is expected",
            _ => "it is not JSON",
        };
        let (target, line, column) = (std::any::type_name::<T>(), error.line(), error.column());
        format!("the parameter cannot be read into {target}: {what} (line {line}, column {column})")
    })
}
