//! A program without the feature `full` has no channels but those over HTTP: it refuses a file that names a mail server. `more.rs` has the same
//! items with these channels.

use std::path::Path;

use solid_notify::channels::{AlertChannelsBuilder, AllowedNetworks, ChannelError};
use solid_notify::{AnyOutbox, SweeperBuilder};

use crate::secret::Secret;

/// Replies of consumers arrive through brokers, and there are none.
pub(crate) struct Replies;

impl Replies {
    pub(crate) fn stop(self) {}
}

/// No channels.
pub(super) struct More;

impl More {
    pub(super) fn new(_: &AllowedNetworks) -> Self {
        Self
    }

    pub(super) fn replies(&self, _: &AnyOutbox) -> Replies {
        Replies
    }

    pub(super) fn register(self, sweeper: SweeperBuilder, _: Option<&Path>) -> SweeperBuilder {
        sweeper
    }
}

/// A channel that the program was built without.
#[derive(Debug, thiserror::Error)]
#[error("this program was built without mail: build it with the cargo feature `full`")]
pub(crate) struct WithoutMail;

/// Refuses the URL of a mail server.
pub(crate) fn check_mail_server(_: &Secret) -> Result<(), WithoutMail> {
    Err(WithoutMail)
}

/// Changes nothing: [`check_mail_server`] has refused each server.
pub(super) fn with_mail(
    alerts: AlertChannelsBuilder,
    _: &Secret,
    _: &str,
) -> Result<AlertChannelsBuilder, ChannelError> {
    Ok(alerts)
}
