//! The run: a first shop that is killed, a time without any sweeper, a second shop that sends what is left.
//!
//! **Why the first shop is not killed just anywhere.** A notice that is being sent has a lease, its definition's timeout
//! and 30 seconds. Who kills the process in between lets every other sweeper wait for the end of the lease: nobody can
//! tell a dead process from a slow one before. So that this example ends within seconds, the shop is killed between
//! attempts, while notices wait for their retry. With `--kill-while-sending` it is killed in the middle of attempts,
//! and the run takes half a minute longer: until the leases have expired, and the second shop has sent those notices
//! again. The warehouse may get them twice then, and recognises them by their `Idempotency-Key`.

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

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(2);

pub async fn run(arguments: SupervisorArguments) -> Result<ExitCode> {
    let (input, name) = arguments.read_input()?;
    let lines: Vec<usize> = order::lines(&input).map(|(line, _)| line).collect();
    let Some(&last) = lines.last() else {
        println!("{name} is empty: nothing to book, nothing to send");
        return Ok(ExitCode::SUCCESS);
    };
    // The first shop books half of the lines, and a third of the others is booked while there is no shop.
    let middle = (lines.len() - 1) / 2;
    let (half, meanwhile) = (lines[middle], lines[middle + (lines.len() - 1 - middle) / 3]);

    let began = Instant::now();
    let folder = tempfile::tempdir()?;
    let (database, copy) = (folder.path().join("shop.db"), folder.path().join("orders.jsonl"));
    std::fs::write(&copy, &input)?;
    let notify = open(&database).await?;
    let (receiver, warehouse) = Receiver::start().await?;
    println!("the warehouse listens at {warehouse}; the shop gets its orders from {name}, lines: {}", lines.len());
    let shop = |name: &str, last_line| {
        let (name, database, input) = (name.to_owned(), database.clone(), copy.clone());
        ShopArguments { name, database, warehouse: warehouse.clone(), input, last_line }
    };

    let mut first = start(&shop("shop-1", half), Stdio::piped())?;
    while order::lines_done(notify.pool()).await? < half {
        ensure!(first.try_wait()?.is_none(), "shop-1 ended before it had booked its lines");
        tokio::time::sleep(LOOK).await;
    }
    kill(first, notify.pool(), arguments.kill_while_sending).await?;

    // Adding needs no sweeper: what this process books now is due, and waits.
    println!("no sweeper lives, but the till books on, up to line {meanwhile}");
    book_lines(&notify, &input, meanwhile, "till").await?;

    // Without a standard input it closes when it has booked the rest and nothing is left to send.
    let ended = start(&shop("shop-2", last), Stdio::null())?.wait().await?;
    ensure!(ended.success(), "shop-2 failed ({ended})");
    println!("shop-2 closes, nothing is left to send; all of it took {:.1} s\n", began.elapsed().as_secs_f64());

    let right = report::print(notify.pool(), &input, &receiver).await?;
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts this program again, as a shop.
fn start(shop: &ShopArguments, stdin: Stdio) -> Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    // Should this process end early, so do the shops: by the drop, or by the end of their standard input.
    let child = command.args(shop.write()).stdin(stdin).kill_on_drop(true).spawn().context("starting a shop")?;
    println!("{} opens (process {})", shop.name, child.id().unwrap_or_default());
    Ok(child)
}

/// Kills the shop when the moment has come: between two attempts, or in the middle of some.
async fn kill(mut shop: Child, pool: &SqlitePool, while_sending: bool) -> Result<()> {
    let look = "SELECT count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 5),
                       count(*) FILTER (WHERE status = 2) FROM notify_msg";
    loop {
        ensure!(shop.try_wait()?.is_none(), "shop-1 ended by itself");
        // While we hold the write lock nobody claims or settles a notice: nothing changes between the look and the kill.
        let mut lock = pool.begin_with("BEGIN IMMEDIATE").await?;
        let (unsent, sending, failed): (i64, i64, i64) = sqlx::query_as(look).fetch_one(&mut *lock).await?;
        let now = if while_sending { sending > 0 } else { unsent + sending == 0 && failed > 0 };
        // Where every order was accepted at once, no better moment will come.
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

/// In a shop: waits until its supervisor closes (or lost) the other end of standard input.
pub async fn closing_time() {
    let mut rest = Vec::new();
    // Whatever goes wrong here, nobody is left to tell us anything.
    let _ = tokio::io::stdin().read_to_end(&mut rest).await;
}
