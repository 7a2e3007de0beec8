//! Prints the time that Postgres spends in each statement, after one repetition of a workload.

use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::{Table, presets::UTF8_BORDERS_ONLY};
use sqlx::Postgres;

use crate::databases::{Arena, DEFINITION, Site};
use crate::processor_time;
use crate::run::{Plan, Side};
use crate::statistics::as_f64;
use crate::workloads::{drain, enqueue_tx, steady};

/// The profiled work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profiled {
    /// Adding.
    EnqueueTx,
    /// Adding and sending at once.
    Steady,
    /// Sending what is queued.
    Drain,
}

const STATEMENTS: &str = "SELECT calls, rows, total_exec_time, wal_bytes::bigint, shared_blks_hit,
         regexp_replace(query, '\\s+', ' ', 'g')
     FROM public.pg_stat_statements WHERE query !~ 'pg_stat|^SELECT count\\(' ORDER BY total_exec_time DESC LIMIT 20";

const DATABASE: &str = "SELECT xact_commit, xact_rollback, tup_returned, tup_fetched, tup_inserted, tup_updated,
         tup_deleted FROM pg_stat_database WHERE datname = current_database()";

/// Prints a table for each workload and side.
///
/// # Errors
/// Errors of the database.
pub async fn profile(site: &Site, plan: Plan) -> Result<()> {
    let arena = Arena::<Postgres>::create(site, false).await?;
    for profiled in Profiled::value_variants() {
        for side in [Side::Ours, Side::Raw] {
            profile_one(&arena, site, plan, *profiled, side).await?;
        }
    }
    arena.drop().await
}

async fn profile_one(arena: &Arena<Postgres>, site: &Site, plan: Plan, profiled: Profiled, side: Side) -> Result<()> {
    let count = plan.scaled(match profiled {
        Profiled::EnqueueTx | Profiled::Steady => 20_000,
        Profiled::Drain => 200_000,
    });
    // The first one warms up.
    for counts in [false, true] {
        arena.reset().await?;
        if profiled == Profiled::Drain {
            drain::fill(arena, side, DEFINITION, count).await?;
        }
        let before = Counters::read(arena).await?;
        let used = [processor_time::own(), site.processor_time()];
        let rate = match profiled {
            Profiled::EnqueueTx => enqueue_tx::once(arena, side, count).await?,
            Profiled::Steady => steady::once(arena, side, count).await?,
            Profiled::Drain => drain::once(arena, side, DEFINITION, count).await?,
        };
        if counts {
            let used_now = [processor_time::own(), site.processor_time()];
            let [client, server] = [0, 1].map(|at| {
                let seconds = used_now[at].zip(used[at]).map(|(now, before)| now - before);
                seconds.map_or_else(|| "?".to_owned(), |seconds| format!("{:.0}", seconds * 1e6 / as_f64(count)))
            });
            println!("\n{profiled:?}, {side:?}: {rate:.0}/s, {:.1} µs a notice", 1e6 / rate);
            println!("processor time: {client} µs a notice in this process, {server} in the server");
            before.print_since(arena, count).await?;
        }
    }
    Ok(())
}

/// The server's counters at the start.
enum Counters {
    /// `pg_stat_statements` is there, and was reset.
    Statements,
    /// Only the sums of the database.
    Database([i64; 7]),
}

type DatabaseRow = (i64, i64, i64, i64, i64, i64, i64);

impl Counters {
    async fn read(arena: &Arena<Postgres>) -> Result<Self> {
        let extension = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public";
        let reset = "SELECT count(public.pg_stat_statements_reset()::text)";
        let usable = sqlx::query(extension).execute(&arena.pool).await.is_ok() && arena.number(reset).await.is_ok();
        if usable {
            return Ok(Self::Statements);
        }
        Ok(Self::Database(Self::sums(arena).await?))
    }

    async fn sums(arena: &Arena<Postgres>) -> Result<[i64; 7]> {
        // Sessions report their counts with a delay.
        tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
        let row: DatabaseRow = sqlx::query_as(DATABASE).fetch_one(&arena.pool).await.context("pg_stat_database")?;
        Ok(row.into())
    }

    async fn print_since(&self, arena: &Arena<Postgres>, count: usize) -> Result<()> {
        match self {
            Self::Statements => print_statements(arena, count).await,
            Self::Database(before) => {
                println!("pg_stat_statements cannot be used on this server; the sums of pg_stat_database instead:");
                let after = Self::sums(arena).await?;
                let names = ["commits", "rollbacks", "returned", "fetched", "inserted", "updated", "deleted"];
                for ((name, before), after) in names.iter().zip(before).zip(after) {
                    let difference = as_f64(usize::try_from(after - before).unwrap_or(0));
                    println!("  {name:>10}: {:.3} a notice", difference / as_f64(count));
                }
                Ok(())
            }
        }
    }
}

async fn print_statements(arena: &Arena<Postgres>, count: usize) -> Result<()> {
    let rows: Vec<(i64, i64, f64, i64, i64, String)> = sqlx::query_as(STATEMENTS).fetch_all(&arena.pool).await?;
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header([
        "calls",
        "rows",
        "total ms",
        "mean ms",
        "µs a notice",
        "WAL a notice",
        "blocks a notice",
        "statement",
    ]);
    let mut sum = 0.0;
    for (calls, rows, total, wal, blocks, statement) in rows {
        let calls = usize::try_from(calls)?;
        let each = |value: i64| as_f64(usize::try_from(value).unwrap_or(0)) / as_f64(count);
        sum += total;
        table.add_row([
            calls.to_string(),
            rows.to_string(),
            format!("{total:.0}"),
            format!("{:.4}", total / as_f64(calls)),
            format!("{:.2}", total * 1000.0 / as_f64(count)),
            format!("{:.0}", each(wal)),
            format!("{:.1}", each(blocks)),
            statement.chars().take(90).collect(),
        ]);
    }
    println!("{table}");
    println!("the server's execution in all: {:.1} µs a notice", sum * 1000.0 / as_f64(count));
    Ok(())
}
