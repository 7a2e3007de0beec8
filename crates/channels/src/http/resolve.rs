//! [`Resolve`]: finds the addresses of names of hosts, in place of the operating system.

use std::net::IpAddr;
use std::pin::Pin;

use solid_notify_core::error::BoxError;

/// The addresses of a name, once they are found.
pub type Resolving = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, BoxError>> + Send>>;

/// A resolver of names, for [`crate::WebhookBuilder::resolver`].
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of a host.
    fn resolve(&self, host: &str) -> Resolving;
}
