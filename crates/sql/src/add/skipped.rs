//! Ends notices that are added as skipped, in the transaction that adds them.

use solid_notify_core::add::NewNotice;
use solid_notify_core::error::{Error, Result};
use solid_notify_core::notice::Status;
use solid_notify_core::store::Settle;
use solid_notify_core::transition::{Next, Transition};
use sqlx::Connection;

use crate::add::caller::{DOING, Inserted};
use crate::dialect::Dialect;
use crate::dialect::fault::failed;
use crate::dialect::statement::Arg;
use crate::settle::end_one;

/// Returns an error for a skipped notice without an open transaction: between its insert and its end a sweeper could send it.
pub(crate) fn check_skipped<DB: Dialect>(conn: &DB::Connection, notice: &NewNotice) -> Result<()> {
    if notice.skip_reason().is_none() || conn.is_in_transaction() {
        return Ok(());
    }
    let problem = "it is added as skipped, which takes several statements: begin a transaction".to_owned();
    Err(Error::InvalidNotice { name: notice.name().to_owned(), problem })
}

/// Moves a notice that was inserted as skipped to history.
pub(crate) async fn end_skipped<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    notice: &NewNotice,
    inserted: Inserted,
) -> Result<()> {
    let (Some(reason), Inserted::New { id, def_id }) = (notice.skip_reason(), inserted) else { return Ok(()) };
    let next = Next::Finish { status: Status::Cancelled, reason: Some(reason.to_owned()), keep: true };
    let settle = Settle {
        id,
        def_id,
        // No other notice waits for it, because none was added behind it yet.
        ordering_key: None,
        fence: 0,
        from: Status::NotSent,
        overdue: false,
        transition: Transition { next, failures: 0, crashes: 0 },
        errors: None,
        last_class: None,
        description: notice.description_text().map(str::to_owned),
        alarm: None,
        for_breaker: None,
        pass_to: Vec::new(),
    };
    end_one::<DB>(conn, now, &settle).await.map_err(|error| failed::<DB>(DOING, error))
}
