//! Ends notices that are added as skipped, in the transaction that adds them.

use solid_notify_core::add::NewNotice;
use solid_notify_core::error::{Error, Result};
use solid_notify_core::notice::Status;
use solid_notify_core::store::Settle;
use solid_notify_core::transition::{Next, Transition};
use sqlx::Connection;

use crate::add::statements::AddStatements;
use crate::caller::{DOING, Inserted};
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
        response: None,
        error_group: None,
        alarm: None,
        for_breaker: None,
        pass_to: Vec::new(),
        decided_by: None,
    };
    let ended = async {
        end_one::<DB>(conn, now, &settle).await?;
        // Its row had no dedupe key while it was live, so it took none from another notice.
        if let Some(key) = notice.dedupe_key_text() {
            let until_ended = Arg::Int(notice.is_unique_until_ended().then_some(1));
            let statement = &AddStatements::of(DB::KIND).keep_skipped_key;
            DB::execute(conn, statement, &[now, id.into(), key.into(), until_ended]).await?;
        }
        Ok(())
    };
    ended.await.map_err(|error| failed::<DB>(DOING, error))
}
