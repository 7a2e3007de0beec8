//! A definition that is edited by plain SQL while its notices are in flight: other intervals and limits, a text that is
//! no interval, another name.

use std::time::{Duration, Instant};

use super::Strikes;
use crate::faults::bench::Bench;
use crate::faults::run::Run;

pub async fn edits<B: Bench>(run: &Run<B>, until: Instant, alone: bool) -> Strikes {
    let row = run.rows("SELECT CAST(id AS char(20)) FROM notify_def WHERE name = 'edited'").await;
    let id = row[0][0].clone().unwrap();
    let edit = async |assignment: &str| {
        let rows = run.sql(&format!("UPDATE notify_def SET {assignment} WHERE id = {id}")).await;
        usize::try_from(rows).unwrap()
    };
    let (mut edited, mut broken, mut renamed) = (0, 0, 0);
    while Instant::now() < until || broken == 0 {
        for times in [6, 2, 4, 2] {
            let interval = ["50ms", "[10ms,200ms]", "exp(20ms, x2, max 200ms) ~10%"][fastrand::usize(..3)];
            edited += edit(&format!("max_retry_times = {times}, retry_interval = '{interval}'")).await;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(200..1200))).await;
        }
        let before = run.counts().await.refused;
        edit("name = 'edited otherwise'").await;
        run.until("producers meet an unknown name", async || run.counts().await.refused > before).await;
        renamed += 1;
        edit("name = 'edited'").await;

        edit("retry_interval = 'every other day'").await;
        if alone {
            let calls = async || run.counts().await.edited;
            let rest = async || {
                let before = calls().await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                calls().await == before
            };
            run.until("notices of a broken definition are no more sent", rest).await;
            let before = calls().await;
            edit("retry_interval = '[50ms,150ms]', max_retry_times = 3").await;
            run.until("they are sent again", async || calls().await > before + 10).await;
        } else {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1000..4000))).await;
            edit("retry_interval = '[50ms,150ms]', max_retry_times = 3").await;
        }
        broken += 1;
        run.flows().await;
    }
    vec![("limits and intervals".into(), edited), ("broken".into(), broken), ("renamed".into(), renamed)]
}
