//! A program without the feature `full` says nothing to systemd. `service_manager.rs` has the same functions for one with it.

use std::sync::Arc;

use super::databases::Databases;

pub(super) fn started(_databases: &Arc<Databases>) {}

pub(super) fn stops() {}
