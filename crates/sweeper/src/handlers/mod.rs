//! What an application registers: handlers ([`handler`]), which the sweeper calls without knowing their types ([`erased`]), also for
//! several notices at once ([`batch`]), and whose calls it sees ([`under_way`]); retry strategies; and functions that classify errors ([`classify`]).

pub(crate) mod batch;
pub(crate) mod classify;
pub(crate) mod erased;
mod facts;
mod failure;
pub(crate) mod handler;
mod receiver;
pub(crate) mod under_way;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use self::classify::Classifier;
use self::erased::AnyHandler;

/// A named retry strategy: the delay before retry number `n`, from 1.
pub(crate) type StrategyFn = Arc<dyn Fn(u32) -> Duration + Send + Sync>;

/// Everything that is registered on this node.
#[derive(Default)]
pub(crate) struct Registered {
    pub(crate) handlers: HashMap<String, Arc<dyn AnyHandler>>,
    pub(crate) strategies: HashMap<String, StrategyFn>,
    pub(crate) classifier: Classifier,
}
