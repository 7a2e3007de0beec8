//! [`Setup`]: what a sweeper is made of.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::AnyOutbox;

use crate::running::classify::Classifier;
use crate::running::handler::AnyHandler;

/// A named retry strategy: the delay before retry number `n`, from 1.
pub(crate) type StrategyFn = Arc<dyn Fn(u32) -> Duration + Send + Sync>;

/// What a [`crate::SweeperBuilder`] collects for a sweeper.
pub(crate) struct Setup {
    pub(crate) outbox: AnyOutbox,
    pub(crate) handlers: HashMap<String, Arc<dyn AnyHandler>>,
    pub(crate) strategies: HashMap<String, StrategyFn>,
    pub(crate) classifier: Classifier,
    pub(crate) settings: Settings,
}

impl Setup {
    pub(crate) fn new(outbox: AnyOutbox) -> Self {
        Self {
            outbox,
            handlers: HashMap::new(),
            strategies: HashMap::new(),
            classifier: Classifier::default(),
            settings: Settings::default(),
        }
    }
}

/// The settings of a sweeper.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) node_name: Option<String>,
    pub(crate) poll_interval: Duration,
    pub(crate) max_running: usize,
    pub(crate) first_send: bool,
    pub(crate) outage_grace: Duration,
    pub(crate) shutdown_grace: Duration,
    pub(crate) maintenance_interval: Duration,
    pub(crate) housekeeping: bool,
    pub(crate) count_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node_name: None,
            poll_interval: Duration::from_secs(1),
            max_running: 2000,
            first_send: true,
            outage_grace: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(15),
            maintenance_interval: Duration::from_secs(60),
            housekeeping: true,
            count_interval: Duration::from_secs(30),
        }
    }
}
