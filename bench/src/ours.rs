//! Our side: solid-notify through its public API, with its defaults.

use anyhow::{Result, ensure};
use solid_notify::{
    AnyOutbox, NewNotice, Notice, NoticeTx, Outbox, OutboxExt, SweeperBuilder, add_notice, add_notices,
};

use crate::databases::{Arena, DEFINITION, WITHOUT_HISTORY};
use crate::notice::Parameter;
use crate::raw::Measured;

/// One transaction: a business statement and a notice.
///
/// # Errors
/// Errors of the library.
pub async fn enqueue<DB: Measured>(outbox: &Outbox<DB>, order: i64) -> Result<()> {
    let mut tx = outbox.begin().await?;
    DB::business(&mut tx, order).await?;
    add(&mut tx, order).await?;
    tx.commit().await?;
    Ok(())
}

/// Adds a notice; returns its id.
///
/// # Errors
/// Errors of the library.
pub async fn add<DB: Measured>(tx: &mut NoticeTx<'_, DB>, order: i64) -> Result<i64> {
    Ok(add_notice(tx, DEFINITION, Parameter::new(order)).await?.id())
}

/// One transaction: many notices by one call.
///
/// # Errors
/// Errors of the library.
pub async fn add_many<DB: Measured>(outbox: &Outbox<DB>, count: usize) -> Result<()> {
    let orders = 1..=i64::try_from(count)?;
    let mut tx = outbox.begin().await?;
    let notices = orders.map(|order| NewNotice::new(DEFINITION, Parameter::new(order)));
    add_notices(&mut tx, notices.collect::<Result<Vec<_>, _>>()?).await?;
    tx.commit().await?;
    Ok(())
}

/// Builds a sweeper with the no-op handler for both definitions. `called` is called with each notice.
pub fn sweeper(outbox: &AnyOutbox, called: impl Fn(i64) + Clone + Send + Sync + 'static) -> SweeperBuilder {
    let handler = move |notice: Notice<Parameter>| {
        called(notice.id());
        async move {
            std::hint::black_box(notice.into_param());
            Ok(())
        }
    };
    outbox.sweeper().handler(DEFINITION, handler.clone()).handler(WITHOUT_HISTORY, handler)
}

/// After a repetition: nothing is queued, and all of it is in history.
///
/// # Errors
/// Fails when rows are left or missing, with their numbers.
pub async fn check<DB: Measured>(arena: &Arena<DB>, count: usize, keep: bool) -> Result<()> {
    // Not those of the library's own definitions: housekeeping has its times.
    let queued = arena
        .number("SELECT count(*) FROM notify_msg m JOIN notify_def d ON d.id = m.def_id WHERE d.name LIKE 'bench%'")
        .await?;
    let ended = arena
        .number(
            "SELECT count(*) FROM notify_msg_history h JOIN notify_def d ON d.id = h.def_id
             WHERE h.status = 1 AND d.name LIKE 'bench%'",
        )
        .await?;
    let kept = if keep { i64::try_from(count)? } else { 0 };
    ensure!((queued, ended) == (0, kept), "{queued} are left, {ended} of {kept} are in history");
    Ok(())
}
