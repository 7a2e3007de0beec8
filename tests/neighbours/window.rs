//! Notices of the healthy definitions at a known rate, and what became of each.

use std::time::Duration;

use chrono::Utc;
use futures_util::future::join_all;
use solid_notify::{NewNotice, Status};
use tokio::time::Instant;

use crate::healthy;
use crate::judge::Sent;
use crate::site::Site;
use crate::store::Store;

/// How many notices are added, and the time from one to the next.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub count: usize,
    pub gap: Duration,
}

impl Rate {
    /// How long the window is.
    pub fn window(self) -> Duration {
        self.gap * u32::try_from(self.count).unwrap()
    }
}

/// After this time from the last add a notice counts as not ended. It is beyond what the judge allows.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Adds the notices, each at its time, whether or not those before it are committed, and waits until they have ended.
pub async fn send<S: Store>(site: &Site<S>, rate: Rate) -> Vec<Sent> {
    let (began, start) = (Utc::now(), Instant::now());
    let add = async |number: usize| {
        let after = rate.gap * u32::try_from(number).unwrap();
        tokio::time::sleep_until(start + after).await;
        let notice = NewNotice::new(healthy::name(number % healthy::COUNT), healthy::param(number)).unwrap();
        (site.store.add_new(notice).await.id(), after)
    };
    let added = join_all((0..rate.count).map(add)).await;
    let deadline = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    for (number, (id, after)) in added.into_iter().enumerate() {
        let record = loop {
            let record = site.find(id).await;
            if record.status.is_final() || Instant::now() > deadline {
                break record;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let ended = record.finish_time.map(|end| (end - began).as_seconds_f64());
        let last = record.errors.last();
        all.push(Sent {
            definition: healthy::name(number % healthy::COUNT),
            planned: after.as_secs_f64(),
            ended,
            clean: record.status == Status::Succeeded && (record.failures, record.crashes, record.fence) == (0, 0, 1),
            state: format!(
                "{:?}, {} failures, {} crashes, {} attempts, {}",
                record.status,
                record.failures,
                record.crashes,
                record.fence,
                last.map_or("no error", |error| &error.message)
            ),
        });
    }
    all
}
