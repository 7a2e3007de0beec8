//! What is never logged, whatever an operator's filter says by a level alone.

use solid_notify::spi::store::PURGED;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// The client of NATS. It logs what its server says, and a server may repeat a password or a value of a parameter. What an operator needs of it,
/// `solid-notify-channels` logs.
const NATS: &str = "async_nats";

/// Returns a filter without the lines of clients that log what their server says. A filter that names the client has them.
pub(crate) fn without_texts_of_servers(filter: Targets) -> Targets {
    let is_named = filter.iter().any(|(target, _)| target.starts_with(NATS));
    if is_named { filter } else { filter.with_target(NATS, LevelFilter::OFF) }
}

/// Returns a filter without a line for each notice that an operator purges: a person has just confirmed their number, the audit has their ids, and
/// there may be thousands. A filter that names the target has them.
pub(crate) fn without_purged(filter: Targets) -> Targets {
    let is_named = filter.iter().any(|(target, _)| target.starts_with(PURGED));
    if is_named { filter } else { filter.with_target(PURGED, LevelFilter::OFF) }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn purged_notices_are_logged_only_on_demand() {
        let logs = |filter: &str| without_purged(filter.parse().unwrap()).would_enable(PURGED, &Level::WARN);
        assert!(!logs("warn") && !logs("trace"));
        assert!(logs("warn,solid_notify::purged=warn"));
    }

    #[test]
    fn texts_of_nats_servers_are_logged_only_on_demand() {
        let logs = |filter: &str, target: &str| {
            without_texts_of_servers(filter.parse().unwrap()).would_enable(target, &Level::ERROR)
        };
        assert!(!logs("info", "async_nats") && !logs("trace", "async_nats::connector"));
        assert!(logs("info", "solid_notify_channels::nats") && logs("warn,async_nats=info", "async_nats"));
    }
}
