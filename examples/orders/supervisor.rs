//! The run: a first shop that is killed, a time without any sweeper, a second shop that sends the rest.
//!
//! **Why the first shop is killed at a chosen moment.** A notice that is being sent has a lease: its definition's timeout
//! and 30 seconds. If its process is killed meanwhile, every other sweeper waits for the lease to expire, because it cannot
//! tell a dead process from a slow one. So that this example ends within seconds, the shop is killed between attempts,
//! while notices wait for their retry. With `--kill-while-sending` it is killed during attempts, and the run takes half a
//! minute longer: until the leases have expired and the second shop has sent those notices again. The warehouse may get
//! them twice then, and recognises them by their `Idempotency-Key`.

use std::env;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sqlx::sqlite::SqlitePool;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use crate::arguments::{ShopArguments, SupervisorArguments};
use crate::receiver::Receiver;
use crate::{book_lines, open, order, report};

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(2);

pub async fn run(arguments: SupervisorArguments) -> Result<ExitCode> {
    let (input, name) = arguments.read_input()?;
    let lines: Vec<usize> = order::lines(&input).map(|(line, _)| line).collect();
    let Some(&last) = lines.last() else {
        println!("{name} is empty: nothing to book, nothing to send");
        return Ok(ExitCode::SUCCESS);
    };
    // The first shop books half of the lines; a third of the others is booked while no shop runs.
    let middle = (lines.len() - 1) / 2;
    let (half, meanwhile) = (lines[middle], lines[middle + (lines.len() - 1 - middle) / 3]);

    let began = Instant::now();
    let folder = tempfile::tempdir()?;
    let (database, copy) = (folder.path().join("shop.db"), folder.path().join("orders.jsonl"));
    std::fs::write(&copy, &input)?;
    let outbox = open(&database).await?;
    let (receiver, warehouse) = Receiver::start().await?;
    println!("the warehouse listens at {warehouse}; the shop gets its orders from {name}, lines: {}", lines.len());
    let shop = |name: &str, last_line| {
        let (name, database, input) = (name.to_owned(), database.clone(), copy.clone());
        ShopArguments { name, database, warehouse: warehouse.clone(), input, last_line }
    };

    let mut first = start(&shop("shop-1", half), Stdio::piped())?;
    while order::lines_done(outbox.pool()).await? < half {
        ensure!(first.try_wait()?.is_none(), "shop-1 ended before it had booked its lines");
        tokio::time::sleep(LOOK).await;
    }
    kill(first, outbox.pool(), arguments.kill_while_sending).await?;

    // Adding needs no sweeper: the notices that this process adds now are due, and wait.
    println!("no sweeper lives, but the till books on, up to line {meanwhile}");
    book_lines(&outbox, &input, meanwhile, "till").await?;

    // Without a standard input the shop closes when it has booked the rest and no notice is left.
    let ended = start(&shop("shop-2", last), Stdio::null())?.wait().await?;
    ensure!(ended.success(), "shop-2 failed ({ended})");
    println!("shop-2 closes, nothing is left to send; all of it took {:.1} s\n", began.elapsed().as_secs_f64());

    let right = report::print(outbox.pool(), &input, &receiver).await?;
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts this program again, as a shop.
fn start(shop: &ShopArguments, stdin: Stdio) -> Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    // If this process ends early, the shops end too: by the drop, or by the end of their standard input.
    let child = command.args(shop.write()).stdin(stdin).kill_on_drop(true).spawn().context("starting a shop")?;
    println!("{} opens (process {})", shop.name, child.id().unwrap_or_default());
    Ok(child)
}

/// Kills the shop at the right moment: between two attempts, or during some.
async fn kill(mut shop: Child, pool: &SqlitePool, while_sending: bool) -> Result<()> {
    let look = "SELECT count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 5),
                       count(*) FILTER (WHERE status = 2)
                FROM notify_msg JOIN orders ON notice_id = notify_msg.id";
    loop {
        ensure!(shop.try_wait()?.is_none(), "shop-1 ended by itself");
        // While this process holds the write lock, no sweeper claims or settles, so nothing changes between the look and
        // the kill.
        let mut lock = pool.begin_with("BEGIN IMMEDIATE").await?;
        let (unsent, sending, failed): (i64, i64, i64) = sqlx::query_as(look).fetch_one(&mut *lock).await?;
        let now = if while_sending { sending > 0 } else { unsent + sending == 0 && failed > 0 };
        // If every order was accepted at once, no better moment comes.
        let never = unsent + sending + failed == 0;
        if now || never {
            shop.start_kill()?;
            let ended = shop.wait().await?;
            println!("shop-1 is killed ({ended}); notices being sent: {sending}, waiting for their retry: {failed}");
            lock.rollback().await?;
            return Ok(());
        }
        lock.rollback().await?;
        tokio::time::sleep(LOOK).await;
    }
}

/// Runs in a shop: waits until its supervisor closes (or loses) the other end of standard input.
pub async fn closing_time() {
    let mut rest = Vec::new();
    // The result does not matter: after an error no supervisor can send anything either.
    let _ = tokio::io::stdin().read_to_end(&mut rest).await;
}
