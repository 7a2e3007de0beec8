//! Faults of processes: killed at any moment; sweepers whose clock is wrong.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Strikes;
use crate::faults::bench::Bench;
use crate::faults::nodes::Role;
use crate::faults::run::Run;

pub async fn kills<B: Bench>(run: &Run<B>, until: Instant) -> Strikes {
    let (mut sweepers, mut producers) = (0, 0);
    run.cut_off.store(0, Ordering::Relaxed);
    while Instant::now() < until || producers == 0 {
        run.flows().await;
        let role = if sweepers % 3 == 2 && producers <= sweepers / 3 { Role::Producer } else { Role::Sweeper };
        *if role == Role::Producer { &mut producers } else { &mut sweepers } += 1;
        let mut nodes = run.nodes.lock().await;
        nodes.kill(role).await;
        nodes.start(role);
    }
    run.until("leases of the dead end", async || run.cut_off.load(Ordering::Relaxed) > 0).await;
    let cut_off = run.cut_off.load(Ordering::Relaxed);
    vec![("sweepers".into(), sweepers), ("producers".into(), producers), ("attempts cut off".into(), cut_off)]
}

/// An hour ahead, then an hour behind. The clock of the database is right, so nothing is sent too early or an hour late, and no lease
/// ends before its time: a crash would be counted that no kill explains.
pub async fn wrong_clocks<B: Bench>(run: &Run<B>, until: Instant) -> Strikes {
    let half = until.saturating_duration_since(Instant::now()) / 2;
    let mut strikes = Vec::new();
    for shift in [3600, -3600] {
        let role = Role::WithWrongClock(shift);
        let name = run.nodes.lock().await.start(role);
        let began = Instant::now();
        let delayed = add_delayed(run, &name).await;
        let knows = format!(
            "SELECT CAST(count(*) AS char(20)) FROM notify_node WHERE id LIKE '{name}-%'
             AND clock_offset_ms BETWEEN {shift}000 - 600000 AND {shift}000 + 600000"
        );
        run.until("it tells that its clock is wrong", async || run.number(&knows).await == 1).await;
        for delayed in delayed {
            let is_sent = async || run.calls(|token, _| token == delayed.token).await > 0;
            while began.elapsed() < DELAY - Duration::from_millis(200) {
                // The time is read before and after: an observed event happened before the second reading.
                let sent = is_sent().await;
                assert!(
                    !sent || delayed.committed.elapsed() > DELAY - Duration::from_millis(100),
                    "{} is early",
                    delayed.token
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            // The deadline is far below the hour that the clock is wrong.
            run.until("what was delayed is sent", is_sent).await;
        }
        let calls = async || run.calls(|_, node| node == name).await;
        while began.elapsed() < half || calls().await == 0 {
            run.flows().await;
        }
        run.nodes.lock().await.kill(role).await;
        strikes.push((format!("calls at {shift:+} s"), calls().await));
    }
    strikes
}

const DELAY: Duration = Duration::from_secs(2);

/// A notice with a later send time.
struct Delayed {
    token: String,
    committed: Instant,
}

/// Adds notices that are to be sent later, when the sweeper with the wrong clock looks for work, too.
async fn add_delayed<B: Bench>(run: &Run<B>, name: &str) -> Vec<Delayed> {
    let mut all = Vec::new();
    for _ in 0..10 {
        let committed = Instant::now();
        // Another fault may be in force, too.
        if let Some(token) = run.add(name, DELAY).await {
            all.push(Delayed { token, committed });
        }
    }
    all
}
