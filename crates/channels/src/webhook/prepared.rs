//! [`Prepared`]: a configuration that is ready for use.

use std::io;
use std::sync::Arc;

use solid_notify_sweeper::Failure;
use url::Url;

use super::auth::KeptToken;
use super::client::TlsClient;
use super::config::WebhookConfig;
use super::receive;

/// A checked configuration, with what is shared with other definitions.
pub struct Prepared {
    pub(super) config: WebhookConfig,
    /// The URL, if it is constant.
    pub(super) url: Option<Url>,
    pub(super) tls: Option<Arc<TlsClient>>,
    pub(super) token: Option<KeptToken>,
}

impl Prepared {
    /// Returns the failure of an attempt without a response. The client's text may have the host, which a template may have made.
    pub(super) fn unanswered(&self, error: io::Error) -> Failure {
        let failure = receive::unanswered("the receiver", error);
        if self.url.is_some() { failure.free_of_values() } else { failure }
    }
}
