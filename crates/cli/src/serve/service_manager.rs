//! What systemd hears: that the program has started, stops, and still runs (`Type=notify`, `WatchdogSec=`). Without systemd nothing happens.

use std::sync::Arc;

use sd_notify::NotifyState;

use super::databases::Databases;

/// Says that the program accepts connections. From now on it says so again and again, as long as this runtime runs and that of at least
/// one database: a single one that is stuck is reported, and ends no other.
pub(super) fn started(databases: &Arc<Databases>) {
    say(NotifyState::Ready);
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let databases = Arc::clone(databases);
    tokio::spawn(async move {
        loop {
            if databases.any_runs() {
                say(NotifyState::Watchdog);
            }
            tokio::time::sleep(limit / 4).await;
        }
    });
}

/// Says that the program stops.
pub(super) fn stops() {
    say(NotifyState::Stopping);
}

fn say(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "systemd does not listen");
    }
}
