//! Faults of connections: stalled, half open, cut before the answer, and none left in the application's pool.

use std::time::{Duration, Instant};

use test_support::proxy::Weather;

use super::Strikes;
use crate::faults::bench::Bench;
use crate::faults::run::Run;

/// Longer than the processes wait for one call.
pub async fn stalls<B: Bench>(run: &Run<B>, until: Instant) -> Strikes {
    let proxy = &run.bench.far().expect("a server").proxy;
    let (mut stalls, mut chunks) = (0, 0);
    while Instant::now() < until || chunks == 0 {
        {
            let _mine = run.weather.lock().await;
            proxy.struck();
            proxy.set(Weather::Stall);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(2200..3500))).await;
            proxy.set(Weather::Fair);
            (stalls, chunks) = (stalls + 1, chunks + proxy.struck());
        }
        run.flows().await;
    }
    vec![("stalls".into(), stalls), ("chunks held back".into(), chunks)]
}

/// The processes go on over new connections before they see the end of the old ones.
pub async fn half_open<B: Bench>(run: &Run<B>, until: Instant) -> Strikes {
    let proxy = &run.bench.far().expect("a server").proxy;
    let mut connections = 0;
    while Instant::now() < until || connections == 0 {
        {
            let _mine = run.weather.lock().await;
            proxy.struck();
            proxy.set(Weather::HalfOpen);
            // Until their calls have waited long enough.
            tokio::time::sleep(Duration::from_millis(2500)).await;
            // All connections of the producer's pool may hang, so this one is ours.
            let ours = std::cell::OnceCell::new();
            let is_added = async || run.add("ours", Duration::ZERO).await.is_some_and(|token| ours.set(token).is_ok());
            run.until("a notice is added", is_added).await;
            let is_sent = async || run.calls(|token, _| Some(token) == ours.get().map(String::as_str)).await > 0;
            run.until("notices are sent over new connections", is_sent).await;
            proxy.set(Weather::Fair);
            connections += proxy.struck();
        }
        run.flows().await;
    }
    vec![("connections".into(), connections)]
}

pub async fn lost_answers<B: Bench>(run: &Run<B>, until: Instant) -> Strikes {
    let proxy = &run.bench.far().expect("a server").proxy;
    let mut answers = 0;
    while Instant::now() < until || answers == 0 {
        {
            let _mine = run.weather.lock().await;
            proxy.struck();
            proxy.set(Weather::Lossy(0.03));
            tokio::time::sleep(Duration::from_millis(2500)).await;
            proxy.set(Weather::Fair);
            answers += proxy.struck();
        }
        run.flows().await;
    }
    vec![("answers".into(), answers)]
}

/// Empties the pools of all processes at once, for longer than a producer waits for a connection. Committed notices are sent
/// meanwhile, because the store has connections of its own.
pub async fn exhaustion<B: Bench>(run: &Run<B>, until: Instant) -> Strikes {
    let (before, mut after) = (run.counts().await, run.counts().await);
    while Instant::now() < until || after.exhausted == before.exhausted || after.refused == before.refused {
        run.flows().await;
        run.nodes.lock().await.tell("exhaust 1500").await;
        tokio::time::sleep(Duration::from_millis(1800)).await;
        after = run.counts().await;
    }
    vec![
        ("pools".into(), after.exhausted - before.exhausted),
        ("transactions refused".into(), after.refused - before.refused),
    ]
}
