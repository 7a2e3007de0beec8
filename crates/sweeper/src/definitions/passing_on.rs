//! What a definition that has targets is to this node: its notices are passed on instead of sent.
//!
//! Which targets get a notice is left to `running/targets.rs`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use solid_notify_core::Policy;
use solid_notify_core::definition::RetryRules;

use crate::handlers::erased::AnyHandler;
use crate::handlers::handler::{Facts, HandlerResult};

/// Returns the policy of a definition whose notices are passed on. That is no delivery: it has no limits and needs no ack, and it is
/// repeated until it is done.
pub(super) fn passing_on(policy: Policy) -> Policy {
    let mut policy = policy;
    (policy.quota, policy.window, policy.need_confirm) = (None, None, false);
    (policy.max_retries, policy.rules) = (None, RetryRules::default());
    policy
}

/// The handler of such a definition, which is never called.
pub(super) struct PassesOn;

impl AnyHandler for PassesOn {
    fn call(self: Arc<Self>, _facts: Arc<Facts>) -> BoxFuture<'static, Result<HandlerResult, String>> {
        Box::pin(std::future::ready(Ok(Ok(()))))
    }

    fn check(&self, _handler_config: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    fn check_recipients(&self, _email: &[String], _alert_to: &[String]) -> Result<(), String> {
        Ok(())
    }
}
