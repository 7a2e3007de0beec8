//! What systemd hears: that the program has started, stops, and still runs (`Type=notify`, `WatchdogSec=`). Without systemd nothing happens.

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;

use super::databases::Databases;

/// Says that the program accepts connections. From now on it says so again and again, as long as this runtime runs and that of at least
/// one database: a single one that is stuck is reported, and ends no other.
pub(super) fn started(databases: &Arc<Databases>) {
    say(NotifyState::Ready);
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let databases = Arc::clone(databases);
    tokio::spawn(async move { ping(limit / 4, || databases.any_runs(), || say(NotifyState::Watchdog)).await });
}

/// Says that the program runs, after each pause, if anything does.
async fn ping(pause: Duration, runs: impl Fn() -> bool, say: impl Fn()) {
    loop {
        if runs() {
            say();
        }
        tokio::time::sleep(pause).await;
    }
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watchdog_hears_nothing_while_nothing_runs() {
        let (runs, pings) = (Cell::new(true), Cell::new(0));
        let pinging = ping(Duration::from_secs(5), || runs.get(), || pings.set(pings.get() + 1));
        let script = async {
            for (running, expected) in [(true, 6), (false, 6), (true, 12)] {
                runs.set(running);
                tokio::time::sleep(Duration::from_secs(30)).await;
                assert_eq!(pings.get(), expected);
            }
        };
        tokio::select! {
            biased;
            () = script => {}
            () = pinging => {}
        }
    }
}
