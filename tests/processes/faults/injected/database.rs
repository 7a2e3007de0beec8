//! Faults of the database: it restarts, ends sessions, refuses statements as after a deadlock, or another session holds
//! the lock that all writers need.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use test_servers::servers::Ending;

use super::Strikes;
use crate::faults::bench::Bench;
use crate::faults::run::Run;

pub async fn restarts<B: Bench>(run: &Run<B>, until: Instant) -> Strikes {
    let far = run.bench.far().expect("a server");
    let mut restarts = [0, 0];
    while Instant::now() < until || restarts.contains(&0) {
        run.flows().await;
        let nth = (restarts[0] + restarts[1]) % 2;
        let ending = [Ending::Kill, Ending::Graceful][nth];
        far.server(move |server| server.restart(ending).unwrap()).await;
        restarts[nth] += 1;
        run.flows().await;
    }
    vec![("crashes".into(), restarts[0]), ("orderly restarts".into(), restarts[1])]
}

pub async fn ended_sessions<B: Bench>(run: &Run<B>, until: Instant) -> Strikes {
    let mut ended = 0;
    while Instant::now() < until || ended == 0 {
        run.flows().await;
        ended += run.bench.end_sessions().await;
    }
    vec![("sessions".into(), ended)]
}

/// The triggers are made and dropped while everything runs, as an operator's changes of the schema are.
pub async fn conflicts<B: Bench>(run: &Run<B>, until: Instant) -> Strikes {
    let (begin, end) = B::CONFLICTS.expect("a database with conflicts");
    let before = counted(run).await;
    run.sql(begin).await;
    let struck = loop {
        run.flows().await;
        let earlier = |statement: &str| before.get(statement).copied().unwrap_or(0);
        let now = counted(run).await.into_iter();
        // A crash of MySQL may lose the last steps of the counters of ids, which count here.
        let struck = now.map(|(statement, count)| (count.saturating_sub(earlier(&statement)), statement));
        // Nodes are made where processes start, which is another fault.
        let struck: Vec<_> =
            struck.filter(|(count, statement)| *count > 0 || statement != "insert_notify_node").collect();
        if Instant::now() >= until && !struck.is_empty() && struck.iter().all(|(count, _)| *count > 0) {
            break struck;
        }
    };
    run.sql(end).await;
    struck.into_iter().map(|(count, statement)| (statement, count)).collect()
}

async fn counted<B: Bench>(run: &Run<B>) -> BTreeMap<String, usize> {
    // Before the first time there is nothing that counts.
    let rows = B::rows(run.outbox.pool(), B::COUNT_CONFLICTS).await.unwrap_or_default();
    let count = |row: &Vec<Option<String>>| (row[0].clone().unwrap(), row[1].as_deref().unwrap().parse().unwrap());
    rows.iter().map(count).collect()
}

/// Longer than the busy time-out of the processes, and than all tries of one of their calls.
pub async fn writer_lock<B: Bench>(run: &Run<B>, until: Instant) -> Strikes {
    let (mut locks, before) = (0, run.counts().await.refused);
    while Instant::now() < until || run.counts().await.refused == before {
        run.flows().await;
        let tx = loop {
            match run.outbox.begin().await {
                Ok(tx) => break tx,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        tokio::time::sleep(Duration::from_millis(fastrand::u64(800..3000))).await;
        tx.rollback().await.unwrap();
        locks += 1;
    }
    vec![("locks".into(), locks), ("transactions refused".into(), run.counts().await.refused - before)]
}
