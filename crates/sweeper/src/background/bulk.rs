//! The handler of the built-in definition `notify.bulk`: it executes the bulk acts of operators, step by step. What a step does is in
//! [`solid_notify_core::operate::BulkAct`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use solid_notify_core::built_in::BULK_DEFINITION;
use solid_notify_core::operate::{ActClaim, AfterStep, BulkAct};
use solid_notify_core::{AnyOutbox, Error, ErrorClass};
use tokio::time::Instant;

use crate::handlers::erased::{AnyHandler, Typed};
use crate::handlers::handler::{Failure, Handler, HandlerResult, Notice};

/// How long one attempt begins steps. Between attempts an edit of the row and a pause take effect.
const WORK: Duration = Duration::from_secs(5);

/// Registers the handler, unless the application has its own.
pub(crate) fn register(handlers: &mut HashMap<String, Arc<dyn AnyHandler>>, outbox: &AnyOutbox) {
    handlers.entry(BULK_DEFINITION.to_owned()).or_insert_with(|| Arc::new(Typed(Acts(outbox.clone()))));
}

struct Acts(AnyOutbox);

impl Handler for Acts {
    type Param = Value;

    async fn handle(&self, notice: Notice<Value>) -> HandlerResult {
        let (created, lease_end) = (notice.created(), notice.facts.lease_end);
        let claim = ActClaim { id: notice.id(), fence: notice.fence(), created, lease_end };
        let began = Instant::now();
        let authority = notice.facts.authority.as_ref();
        let authority = authority.ok_or_else(|| Failure::give_up("it has no authority").class(ErrorClass::Invalid))?;
        let act = BulkAct::read(authority, notice.raw_param()).map_err(failure)?;
        let mut run = act.begin(&self.0, claim).await.map_err(failure)?;
        while began.elapsed() < WORK {
            match run.step().await.map_err(failure)? {
                AfterStep::Next => {}
                AfterStep::Wait(delay) => return Err(Failure::hand_back(delay)),
                AfterStep::Ended => return Ok(()),
                // Its outcome is not stored.
                AfterStep::Lost => break,
            }
        }
        Err(Failure::hand_back(Duration::ZERO))
    }
}

/// Retries faults of the store. An act that cannot be executed as it is written becomes a dead letter.
fn failure(error: Error) -> Failure {
    match error {
        Error::Store(error) => Failure::retry(error),
        error => Failure::give_up(error).class(ErrorClass::Invalid),
    }
}
