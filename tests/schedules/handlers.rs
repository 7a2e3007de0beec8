//! The handlers of a schedule. The outcome of an attempt depends only on the seed, the notice and the attempt.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use fastrand::Rng;
use solid_notify::{Alert, AnyOutbox, ErrorClass, Failure, Notice, OutboxExt, SweeperBuilder};

use crate::ledger::{Fate, Run};
use crate::plan::{BROKEN, FRAGILE, RULED, TICKING, TIMEOUT, UNHANDLED, definitions};
use crate::world::{Node, World};

/// The text of a handler's panic.
pub const PANIC: &str = "panics as planned";

/// The parameter of a tick.
#[derive(serde::Deserialize)]
struct Ticked {
    tick: String,
}

/// A sweeper's handlers, as they run on one node.
pub fn builder(outbox: &AnyOutbox, world: &Arc<World>, node: &Arc<Node>) -> SweeperBuilder {
    let mut builder = outbox.sweeper().node_name(format!("node{}", node.number));
    for def in definitions() {
        // The broken one is mended at the end; then it needs a handler.
        if def.name == UNHANDLED || def.name == TICKING {
            continue;
        }
        let (world, node) = (Arc::clone(world), Arc::clone(node));
        builder = builder.handler(def.name, move |notice: Notice<i64>| {
            let (world, node) = (Arc::clone(&world), Arc::clone(&node));
            async move { handle(&world, &node, &notice).await }
        });
    }
    let (of, on) = (Arc::clone(world), Arc::clone(node));
    builder = builder.handler(TICKING, move |notice: Notice<Ticked>| {
        let (world, node) = (Arc::clone(&of), Arc::clone(&on));
        async move {
            node.lives().await;
            let tick = DateTime::<chrono::Utc>::from(humantime::parse_rfc3339(&notice.param().tick)?);
            world.tell(format_args!("node {} sends {} of {}", node.number, notice.id(), notice.param().tick));
            world.ledger().ticks.entry(tick.timestamp().unsigned_abs()).or_default().insert(notice.id());
            Ok(())
        }
    });
    let (world, node) = (Arc::clone(world), Arc::clone(node));
    builder.handler(solid_notify::alert::ALERT_DEFINITION, move |notice: Notice<Alert>| {
        let (world, node) = (Arc::clone(&world), Arc::clone(&node));
        async move {
            node.lives().await;
            world.tell(format_args!(
                "told by node {}: {} ({} more)",
                node.number,
                notice.param().title(),
                notice.param().more
            ));
            let mut ledger = world.ledger();
            ledger.told.insert(notice.id(), notice.param().clone());
            Ok(())
        }
    })
}

async fn handle(world: &World, node: &Node, notice: &Notice<i64>) -> Result<(), Failure> {
    let (id, fence) = (notice.id(), notice.fence());
    node.lives().await;
    let mut rng = Rng::with_seed(world.seed ^ (id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (fence as u64) << 48);
    // At the end all receivers work, so that every notice ends.
    let fate = if world.is_over() { Fate::Delivered } else { fate(notice.definition(), &mut rng) };
    let number = {
        let mut ledger = world.ledger();
        if notice.definition() == BROKEN && !world.is_over() {
            ledger.broken.push(format!("G7: notice {id} of a broken definition was sent"));
        }
        ledger.runs.push(Run { id, fence, node: node.number, began: world.now(), ended: None });
        ledger.runs.len() - 1
    };
    world.tell(format_args!("node {} sends {id} (attempt {fence}): {fate:?}", node.number));
    let takes = match fate {
        Fate::Hangs => TIMEOUT,
        _ if rng.u8(..) < 40 => Duration::from_millis(rng.u64(1000..19_000)),
        _ => Duration::from_millis(rng.u64(0..200)),
    };
    tokio::time::sleep(takes.saturating_sub(Duration::from_millis(1))).await;
    node.lives().await;
    world.ledger().runs[number].ended = Some((world.now(), fate));
    match fate {
        Fate::Delivered => {
            world.delivered(id, &mut rng);
            Ok(())
        }
        Fate::Failed => Err(Failure::retry(std::io::Error::other("as planned"))),
        Fate::Postponed => Err(Failure::retry_in(Duration::from_secs(rng.u64(5..40)), "busy as planned")),
        Fate::Refused => Err(Failure::retry("no entry as planned").class(ErrorClass::Auth)),
        Fate::Busy => Err(Failure::retry("full as planned").class(ErrorClass::Busy)),
        Fate::GaveUp => Err(Failure::give_up("no use")),
        Fate::Skipped => Err(Failure::skip("as planned".to_owned())),
        Fate::Panicked => panic!("{PANIC}"),
        Fate::Hangs => {
            world.ledger().note_end_by_either(number);
            std::future::pending().await
        }
    }
}

fn fate(definition: &str, rng: &mut Rng) -> Fate {
    match rng.u8(0..100) {
        0..30 if definition == FRAGILE => Fate::Failed,
        0..50 => Fate::Delivered,
        50..75 if definition == RULED => Fate::Busy,
        50..75 => Fate::Failed,
        75..82 => Fate::Postponed,
        82..84 => Fate::GaveUp,
        84..85 => Fate::Refused,
        85..88 => Fate::Skipped,
        88..94 => Fate::Panicked,
        _ => Fate::Hangs,
    }
}
