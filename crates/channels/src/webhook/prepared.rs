//! [`Prepared`]: a configuration that is ready for use.

use std::sync::Arc;

use reqwest::Url;

use super::auth::TokenCache;
use super::client::TlsClient;
use super::config::WebhookConfig;

/// A checked configuration, with what is shared with other definitions.
pub struct Prepared {
    pub(super) config: WebhookConfig,
    /// The URL, if it is constant.
    pub(super) url: Option<Url>,
    pub(super) tls: Option<Arc<TlsClient>>,
    pub(super) token: Option<Arc<TokenCache>>,
}
