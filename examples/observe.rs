//! Metrics for an operator, as Prometheus reads them, and the snapshot of counts.
//!
//! ```text
//! cargo run --example observe
//! ```
//!
//! Twenty orders are sent to a receiver that refuses every third one at first, and one of them permanently. Then the
//! example prints the lines that Prometheus would get; `docs/src/metrics.md` lists all of them, `docs/src/grafana.json` draws them.
//! A program that serves them uses the exporter's HTTP listener, or renders them in an endpoint of its own.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
// [imports]
use chrono::Utc;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use solid_notify::metrics::SECONDS_BUCKETS;
use solid_notify::operate::SeriesPoint;
use solid_notify::{ErrorClass, Failure, NewNotice, Notice, NotifyDef, Outbox, OutboxExt, add_notices};
// [end]
use sqlx::sqlite::SqlitePoolOptions;

#[tokio::main]
async fn main() -> Result<()> {
    // [log]
    tracing_subscriber::fmt().init();
    // [end]
    // [recorder]
    // Before anything else, because a metric that is made before the recorder records nothing.
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let shown = PrometheusBuilder::new().set_buckets_for_metric(seconds, SECONDS_BUCKETS)?.install_recorder()?;
    // [end]

    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let outbox = Outbox::new(pool);
    outbox.migrate().await?;
    outbox.define_if_missing(NotifyDef::new("sync_order").retry_interval("50ms").max_retry_times(2)).await?;
    let sweeper = outbox
        .sweeper()
        .handler("sync_order", |order: Notice<i64>| async move {
            match (*order.param(), order.attempt()) {
                (13, _) => Err(Failure::give_up("no such customer")),
                (number, 1) if number % 3 == 0 => Err(Failure::retry("connection refused").class(ErrorClass::Network)),
                _ => Ok(()),
            }
        })
        .count_interval(Duration::from_secs(1))
        .start()
        .await?;

    let mut tx = outbox.begin().await?;
    let orders = (1..=20).map(|order| NewNotice::new("sync_order", order)).collect::<solid_notify::Result<Vec<_>>>()?;
    add_notices(&mut tx, orders).await?;
    tx.commit().await?;
    let operator = outbox.operator("observer");
    let taken = loop {
        // A node counts about once a second here.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let snapshot = operator.snapshot().await?;
        let row = snapshot.into_iter().find(|row| row.definition == "sync_order").context("its row")?;
        match row.taken {
            Some((counts, _)) if counts.recently_succeeded == 19 => break counts,
            _ => {}
        }
    };
    sweeper.shutdown().await;
    println!(
        "the snapshot: {} delivered, {} dead letters, {} live",
        taken.recently_succeeded,
        taken.dead_letters,
        taken.live()
    );
    ensure!((taken.dead_letters, taken.live()) == (1, 0), "{taken:?}");

    // [snapshot]
    for row in outbox.operator("alice").snapshot().await? {
        if let Some((counts, _taken_at)) = row.taken {
            println!("{}: {} live, {} dead letters", row.definition, counts.live(), counts.dead_letters);
            println!("counted {:?} ago", row.age);
        }
    }
    // [end]

    // [series]
    let (minute, now) = (Duration::from_secs(60), Utc::now());
    let points = outbox.operator("alice").series(Some("sync_order"), now - 60 * minute, now + minute, minute).await?;
    for SeriesPoint { time, counts, .. } in points.iter().filter(|point| point.counts.timed > 0) {
        let mean = counts.duration_ms / counts.timed;
        println!("{time}: {} delivered, {} failed, {mean} ms on average", counts.succeeded, counts.failed);
    }
    // [end]
    let delivered: u64 = points.iter().map(|point| point.counts.succeeded).sum();
    ensure!(delivered == 19, "{points:?}");

    println!("\nfor Prometheus, among others:");
    let text = shown.render();
    let wanted = |line: &&str| {
        let counts = line.starts_with("solid_notify_a") && line.contains("total") || line.contains("dead_letters{");
        counts && line.contains("sync_order") || line.starts_with("solid_notify_delivery_seconds_count")
    };
    let mut lines: Vec<&str> = text.lines().filter(wanted).collect();
    lines.sort_unstable();
    println!("{}", lines.join("\n"));
    ensure!(lines.iter().any(|line| line.ends_with("outcome=\"failed\",class=\"network\"} 6")), "{text}");
    Ok(())
}
