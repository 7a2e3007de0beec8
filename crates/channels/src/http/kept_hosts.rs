//! [`KeptHosts`]: the hosts made by templates to which connections are kept.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::client::IDLE_TIMEOUT;

/// How many of these hosts keep connections at a time. The process has 1,024 files and connections as a rule, and this is an eighth of them.
const HOSTS: usize = 32;

/// The hosts made by templates to which connections are kept, with the clients that keep them. A parameter can name any number of hosts, and
/// descriptors are of the whole process. So further hosts get a connection for each request, until another host has had none for so long that its
/// connections are closed.
#[derive(Debug, Default)]
pub(crate) struct KeptHosts(Mutex<HashMap<String, HostUse>>);

#[derive(Debug)]
struct HostUse {
    requests: usize,
    /// The end of the latest one.
    ended: Instant,
}

/// A request to a host to which connections are kept.
pub(crate) struct RequestToKept<'a> {
    hosts: &'a KeptHosts,
    host: String,
}

impl KeptHosts {
    /// Begins a request. `None`: no connection to this host is kept.
    pub(crate) fn begin(&self, host: String) -> Option<RequestToKept<'_>> {
        let mut hosts = self.0.lock();
        if !hosts.contains_key(&host) && hosts.len() >= HOSTS {
            // The client looks for old connections in this interval.
            hosts.retain(|_, host| host.requests > 0 || host.ended.elapsed() < 2 * IDLE_TIMEOUT);
            if hosts.len() >= HOSTS {
                return None;
            }
        }
        hosts.entry(host.clone()).or_insert_with(|| HostUse { requests: 0, ended: Instant::now() }).requests += 1;
        Some(RequestToKept { hosts: self, host })
    }
}

impl Drop for RequestToKept<'_> {
    fn drop(&mut self) {
        if let Some(host) = self.hosts.0.lock().get_mut(&self.host) {
            host.requests -= 1;
            host.ended = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_hosts_of_templates_keep_connections_and_an_old_one_makes_room() {
        let hosts = KeptHosts::default();
        let name = |number: usize| format!("http://{number}.example.com");
        let requests: Vec<_> = (0..HOSTS).map(|number| hosts.begin(name(number)).unwrap()).collect();
        assert!(hosts.begin(name(HOSTS)).is_none(), "all are in use");
        assert!(hosts.begin(name(0)).is_some(), "one of them again");
        drop(requests);
        assert!(hosts.begin(name(HOSTS)).is_none(), "their connections may be open");
        tokio::time::advance(IDLE_TIMEOUT).await;
        let again = hosts.begin(name(0)).unwrap();
        tokio::time::advance(IDLE_TIMEOUT).await;
        assert!(hosts.begin(name(HOSTS)).is_some());
        assert_eq!(hosts.0.lock().len(), 2, "of the others no connection is open");
        drop(again);
    }
}
