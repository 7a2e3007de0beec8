//! `demo`: two minutes with the real program. A shop writes orders by plain SQL; `serve`, in a process of its own, delivers them to receivers
//! that fail at times; the commands that are shown are run.
//!
//! The demo checks what it tells: a step that does not happen ends it with an error and the log of `serve`.

mod processes;
mod receivers;
mod screen;
mod shop;

use std::path::Path;

use self::processes::{LIMIT, Programs};
use self::receivers::{Receivers, Seen, UNKNOWN_ITEM};
use self::screen::{Party, step};
use self::shop::{End, Shop};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::line;
use crate::signals::asked_to_stop;

/// What most orders are of.
const ITEMS: [&str; 6] = ["7 wheels", "a lamp", "12 screws", "a saddle", "a bell", "2 brakes"];

/// Tells the story.
pub(crate) async fn run() -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| Failure::cannot("make a folder", error))?;
    // Its processes end and its folder is removed however it ends.
    let told = tokio::select! {
        told = tell(folder.path()) => told,
        () = asked_to_stop() => return Err(Failure::new(Exit::Failed, "interrupted: the demo has ended, and its folder is removed")),
    };
    if told.is_err()
        && let Ok(log) = std::fs::read_to_string(folder.path().join(processes::LOG))
    {
        line(&format!("\nThe log of serve:\n{log}"))?;
    }
    told
}

async fn tell(folder: &Path) -> Outcome {
    let address = processes::free_address().map_err(|error| Failure::cannot("find a free port", error))?;
    let (receivers, receiving) = Receivers::start(&format!("http://{address}/ack"))
        .await
        .map_err(|error| Failure::cannot("start the receivers", error))?;
    let programs = Programs::new(folder, address, receiving)?;

    step(1, "Definitions are rows. A file has them, and a command writes them into an embedded database.").await?;
    programs.run(&["migrate"]).await?;
    line(&programs.definitions()?)?;
    programs.run(&["def", "apply", "shop.toml"]).await?;

    step(2, "One process sends what all applications add.").await?;
    let serve = programs.serve().await?;

    step(
        3,
        "The shop commits orders, each with its notice. The warehouse has no time for the first request of orders 3 and 6.",
    ).await?;
    let mut shop =
        Shop::open(&folder.join(processes::DATABASE)).await.map_err(|error| Failure::cannot("open the shop", error))?;
    Party::Shop.does("BEGIN; INSERT INTO orders …; INSERT INTO notify_add …; COMMIT")?;
    for (order, item) in (1..).zip(ITEMS) {
        book(&mut shop, order, item, "order_placed", End::Commit).await?;
    }
    book(&mut shop, 7, "a mistake", "order_placed", End::Rollback).await?;
    wait(&receivers, "each committed order arrives", |seen| seen.taken.len() == ITEMS.len()).await?;
    Party::Shop.does("order 7 was rolled back, so its notice does not exist")?;

    step(4, "A delivery that must be confirmed: the carrier acks over HTTP when the parcel is on its way.").await?;
    book(&mut shop, 8, "a parcel", "parcel", End::Commit).await?;
    wait(&receivers, "the carrier confirms", |seen| seen.confirmed.contains(&8)).await?;

    step(5, "kill -9. What the shop commits meanwhile is sent when the process is back.").await?;
    serve.kill().await?;
    Party::Serve.does("is dead")?;
    for order in [10, 11] {
        book(&mut shop, order, "a bell", "order_placed", End::Commit).await?;
    }
    let serve = programs.serve().await?;
    wait(&receivers, "both orders arrive", |seen| seen.taken.contains(&10) && seen.taken.contains(&11)).await?;

    step(6, "A failure for good raises an alert, and the notice stays: a dead letter.").await?;
    book(&mut shop, 13, UNKNOWN_ITEM, "order_placed", End::Commit).await?;
    wait(&receivers, "the alert arrives", |seen| !seen.alerts.is_empty()).await?;
    programs.run(&["dead", "list"]).await?;
    programs.run(&["dead", "groups"]).await?;

    step(7, "The warehouse learns the item. One command sends every dead letter of the definition again.").await?;
    receivers.mend();
    programs.run(&["dead", "retry", "--def", "order_placed", "--yes", "--wait"]).await?;
    wait(&receivers, "the order arrives", |seen| seen.taken.contains(&13)).await?;

    step(8, "The end.").await?;
    programs.run(&["msg", "show", "3"]).await?;
    let orders = shop.orders().await.map_err(|error| Failure::cannot("count the orders", error))?;
    shop.close().await.map_err(|error| Failure::cannot("close the shop", error))?;
    serve.stop().await?;
    Party::Serve.does("has ended by SIGTERM, without an attempt cut off")?;
    let seen = receivers.seen();
    let delivered = seen.taken.len() + seen.confirmed.len();
    if usize::try_from(orders) != Ok(delivered) {
        return Err(Failure::new(Exit::Failed, format!("{orders} orders were committed, and {delivered} delivered")));
    }
    line(&format!("\n{orders} orders were committed, {delivered} were delivered, none was lost.\n{NEXT}"))?;
    Ok(Exit::Done)
}

const NEXT: &str =
    "Next: `solid-notify --help`, the book in docs/src, or `cargo run --example orders` for the library in Rust.";

async fn book(shop: &mut Shop, order: i64, item: &str, definition: &str, end: End) -> Outcome<()> {
    shop.book(order, item, definition, end).await.map_err(|error| Failure::cannot("write an order", error))?;
    let ending = if end == End::Commit { "committed" } else { "rolled back" };
    Party::Shop.does(&format!("order {order}, {item}: {ending}"))
}

async fn wait(receivers: &Receivers, what: &str, happened: impl FnMut(&Seen) -> bool) -> Outcome<()> {
    match receivers.wait_for(LIMIT, happened).await {
        true => Ok(()),
        false => Err(Failure::new(Exit::Failed, format!("within {} s it did not happen that {what}", LIMIT.as_secs()))),
    }
}
