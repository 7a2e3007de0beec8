//! Draining while another connection holds an old snapshot, on Postgres: dead rows cannot be removed then, and a careless
//! queue walks over all of them with each claim.

use anyhow::Result;
use sqlx::Connection;

use super::drain;
use crate::databases::{Arena, DEFINITION};
use crate::raw::Measured;
use crate::run::{Compared, Plan, Side, pairs};

const COUNT: usize = 300_000;

/// The other side is ours, too: without the snapshot.
pub async fn measure<DB: Measured>(arena: &Arena<DB>, plan: Plan) -> Result<Compared> {
    let count = plan.scaled(COUNT);
    pairs(plan, "ours without the held snapshot", async |side| {
        arena.reset().await?;
        let mut holder = arena.connect().await?;
        if side == Side::Ours {
            DB::plain(&mut holder, "BEGIN ISOLATION LEVEL REPEATABLE READ".to_owned()).await?;
            // The first statement takes the snapshot.
            DB::number(&mut holder, "SELECT count(*) FROM pg_class").await?;
        }
        drain::fill(arena, Side::Ours, DEFINITION, count).await?;
        let rate = drain::once(arena, Side::Ours, DEFINITION, count).await?;
        holder.close().await?;
        Ok(rate)
    })
    .await
}
