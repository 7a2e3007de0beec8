//! How many files and connections the process may have open at the same time. Databases, receivers and clients share them.

/// As many as the process asks for. More cost nothing, and fewer are enough for databases, receivers and clients.
#[cfg(unix)]
const WANTED: u64 = 65_536;

/// What a process has as a rule.
#[cfg(any(not(unix), test))]
const USUAL: u64 = 1024;

/// Raises the limit of the process as far as the system lets it. Returns the limit.
#[cfg(unix)]
pub(super) fn raised() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit of open files and connections");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(WANTED)
}

/// Returns the usual limit: the system does not count them in this way.
#[cfg(not(unix))]
pub(super) fn raised() -> u64 {
    USUAL
}

/// Returns how many connections of clients the process keeps with this limit: half, so that databases and receivers have the other half.
pub(super) fn of_clients(limit: u64, most: usize) -> usize {
    usize::try_from(limit / 2).unwrap_or(most).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_half_of_few_descriptors_and_never_more_than_the_most() {
        assert_eq!(of_clients(100, 512), 50);
        assert_eq!(of_clients(USUAL, 512), 512);
        assert_eq!(of_clients(u64::MAX, 512), 512);
        assert_eq!(of_clients(0, 512), 1);
    }
}
