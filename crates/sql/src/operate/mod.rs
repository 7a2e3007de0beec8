//! Operator calls in the database: lists, counts, and the verbs, each in one transaction with its audit entry.

pub(crate) mod counts;
mod pieces;
pub(crate) mod purge;
pub(crate) mod statements;
mod verbs;

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::error::StoreError;
use solid_notify_core::notice::{NoticeRecord, Status, duration_millis, time_from_millis};
use solid_notify_core::operate::{
    AuditEntry, DefinitionCounts, Listed, Position, QueueSlice, RetryGroup, SeenNode, Switch, Verb, VerbResult, Window,
    WindowDone,
};
use solid_notify_core::store::{BrowseStore, OperateStore};

use crate::connections::{Purpose, Share};
use crate::definitions::is_unique_violation;
use crate::dialect::Dialect;
use crate::dialect::row::{read_record, readable, required, required_text};
use crate::dialect::statement::Arg;
use crate::store::{SqlStore, int};

/// Maximum number of tries of a change that conflicts with a dedupe key inserted at the same moment.
const TRIES: u32 = 4;

#[async_trait]
impl<DB: Dialect> BrowseStore for SqlStore<DB> {
    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError> {
        self.call("looking for a notice", Purpose::Operate, |on| async move {
            let mut conn = on.get().await?;
            let rows = DB::fetch(&mut conn, &DB::statements().find, &[self.now(), id.into()]).await?;
            conn.done();
            rows.first().map(read_record::<DB>).transpose()
        })
        .await
    }

    async fn list(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let statements = &DB::statements().operate;
        let statement = match (slice.status.is_final(), &slice.class, slice.newest_first) {
            (true, None, true) => &statements.list_ended_newest,
            (true, None, false) => &statements.list_ended_oldest,
            (true, Some(_), true) => &statements.list_dead_newest,
            (true, Some(_), false) => &statements.list_dead_oldest,
            (false, _, true) => &statements.list_live_newest,
            (false, _, false) => &statements.list_live_oldest,
        };
        self.call("listing notices", Purpose::Operate, |on| async move {
            let bounds = Bounds::of::<DB>(slice);
            let [from, until] = bounds.args();
            let args =
                [self.now(), slice.def_id.into(), which(slice), from, until, bounds.id.into(), int(limit).into()];
            let rows = self.rows(on, statement, &args).await?;
            Ok(readable::<DB, _>(&rows, "notice", read_listed::<DB>))
        })
        .await
    }

    async fn count(&self, slice: &QueueSlice, most: usize) -> Result<usize, StoreError> {
        let statements = &DB::statements().operate;
        let statement = match (slice.status.is_final(), &slice.class) {
            (true, None) => &statements.count_ended,
            (true, Some(_)) => &statements.count_dead,
            (false, _) => &statements.count_live,
        };
        self.call("counting notices", Purpose::Operate, |on| async move {
            let bounds = Bounds::of::<DB>(slice);
            let [from, until] = bounds.args();
            let args = [self.now(), slice.def_id.into(), which(slice), from, until, int(most).into()];
            let rows = self.rows(on, statement, &args).await?;
            let count = rows.first().map(|row| required::<DB>(row, 0)).transpose()?;
            Ok(count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0))
        })
        .await
    }

    async fn classes(&self, def_ids: &[i64]) -> Result<Vec<(i64, String)>, StoreError> {
        self.call("reading the classes of dead letters", Purpose::Operate, |on| self.try_classes(on, def_ids)).await
    }

    async fn ahead(&self, notice: &NoticeRecord) -> Result<Option<i64>, StoreError> {
        let Some(key) = notice.ordering_key.as_deref() else { return Ok(None) };
        self.call("looking for the notice in front of a blocked one", Purpose::Operate, |on| async move {
            let args = [self.now(), notice.def_id.into(), key.into(), notice.id.into()];
            let rows = self.rows(on, &DB::statements().operate.ahead, &args).await?;
            rows.first().map(|row| required::<DB>(row, 0)).transpose()
        })
        .await
    }

    async fn oldest_blocked(&self, def_id: i64) -> Result<Option<DateTime<Utc>>, StoreError> {
        self.call("looking for blocked notices", Purpose::Work, |on| self.try_oldest_blocked(on, def_id)).await
    }

    async fn counts(&self) -> Result<Vec<DefinitionCounts>, StoreError> {
        self.call("reading the counts", Purpose::Operate, |on| self.try_counts(on)).await
    }

    async fn refresh_counts(&self, def_id: i64, every: Duration) -> Result<bool, StoreError> {
        self.call("counting notices", Purpose::Operate, |on| self.try_refresh_counts(on, def_id, every)).await
    }

    async fn retries(&self, def_id: i64, most: usize) -> Result<Vec<RetryGroup>, StoreError> {
        self.call("counting retries", Purpose::Operate, |on| async move {
            let args = [self.now(), def_id.into(), int(most).into()];
            let rows = self.rows(on, &DB::statements().operate.retry_groups, &args).await?;
            rows.iter().map(read_group::<DB>).collect()
        })
        .await
    }

    async fn nodes(&self, seen_within: Duration) -> Result<Vec<SeenNode>, StoreError> {
        self.call("looking for living nodes", Purpose::Work, |on| async move {
            let args = [self.now(), duration_millis(seen_within).into()];
            let rows = self.rows(on, &DB::statements().operate.living_nodes, &args).await?;
            rows.iter().map(read_node::<DB>).collect()
        })
        .await
    }

    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.call("reading the audit", Purpose::Operate, |on| async move {
            let rows = self.rows(on, &DB::statements().operate.audit, &[self.now(), int(limit).into()]).await?;
            rows.iter().map(read_entry::<DB>).collect()
        })
        .await
    }

    async fn audit_of(&self, notice_id: i64, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.call("reading the audit", Purpose::Operate, |on| async move {
            let args = [self.now(), notice_id.into(), int(limit).into()];
            let rows = self.rows(on, &DB::statements().operate.audit_of, &args).await?;
            rows.iter().map(read_entry::<DB>).collect()
        })
        .await
    }
}

#[async_trait]
impl<DB: Dialect> OperateStore for SqlStore<DB> {
    async fn apply_ack(&self, answer: &Reply) -> Result<AckResult, StoreError> {
        self.call("storing the ack or nack of a receiver", Purpose::Operate, |on| self.try_ack(on, answer)).await
    }

    async fn change(&self, id: i64, verb: &Verb, who: &str) -> Result<VerbResult, StoreError> {
        self.call("changing a notice for an operator", Purpose::Operate, |on| async move {
            let mut done = self.try_change(on, id, verb, who).await;
            for _ in 1..TRIES {
                // The dedupe key was inserted at the same moment; the next try sees it.
                if !done.as_ref().is_err_and(is_unique_violation) {
                    break;
                }
                done = self.try_change(on, id, verb, who).await;
            }
            done
        })
        .await
    }

    async fn change_window(&self, window: &Window) -> Result<WindowDone, StoreError> {
        self.call("changing notices for an operator", Purpose::Operate, |on| async move {
            let mut done = self.try_change_window(on, window).await;
            for _ in 1..TRIES {
                if !done.as_ref().is_err_and(is_unique_violation) {
                    break;
                }
                done = self.try_change_window(on, window).await;
            }
            done
        })
        .await
    }

    async fn switch(&self, switch: &Switch, who: &str) -> Result<bool, StoreError> {
        self.call("turning the pause switch", Purpose::Operate, |on| self.try_switch(on, switch, who)).await
    }
}

impl<DB: Dialect> SqlStore<DB> {
    /// Runs one statement that reads.
    async fn rows(
        &self,
        on: &Share<DB>,
        statement: &crate::dialect::statement::Statement,
        args: &[Arg<'_>],
    ) -> sqlx::Result<Vec<DB::Row>> {
        let mut conn = on.get().await?;
        let rows = DB::fetch(&mut conn, statement, args).await?;
        conn.done();
        Ok(rows)
    }

    /// Reads class after class: one look for each class of a definition, and one more.
    async fn try_classes(&self, on: &Share<DB>, def_ids: &[i64]) -> sqlx::Result<Vec<(i64, String)>> {
        let mut found = Vec::new();
        for def_id in def_ids {
            // The empty text sorts before every class.
            let mut last = String::new();
            loop {
                let args = [self.now(), (*def_id).into(), last.as_str().into()];
                let rows = self.rows(on, &DB::statements().operate.next_class, &args).await?;
                let Some(class) = rows.first().map(|row| required_text::<DB>(row, 0)).transpose()? else { break };
                found.push((*def_id, class.clone()));
                last = class;
            }
        }
        Ok(found)
    }
}

/// The times between which a queue slice is read, as text of the database, and the id after which the page begins.
struct Bounds {
    from: String,
    until: String,
    id: i64,
}

impl Bounds {
    fn of<DB: Dialect>(slice: &QueueSlice) -> Self {
        let text = |time: DateTime<Utc>| {
            let text = solid_notify_core::notice::rfc3339(time);
            DB::KIND.padded_time(&text.trim_end_matches('Z').replace('T', " "))
        };
        let from = slice.from.map_or_else(|| "1970-01-01 00:00:00".to_owned(), text);
        let until = slice.until.map_or_else(|| DB::KIND.last_time().to_owned(), text);
        match (&slice.after, slice.newest_first) {
            (Some(after), true) => {
                // The position may be later than the end of the filter.
                let until = if after.time() < until.as_str() { after.time().to_owned() } else { until };
                let id = if after.time() == until { after.id() } else { i64::MAX };
                Self { from, until, id }
            }
            (Some(after), false) => {
                let from = if after.time() > from.as_str() { after.time().to_owned() } else { from };
                let id = if after.time() == from { after.id() } else { i64::MIN };
                Self { from, until, id }
            }
            (None, true) => Self { from, until, id: i64::MAX },
            (None, false) => Self { from, until, id: i64::MIN },
        }
    }

    fn args(&self) -> [Arg<'_>; 2] {
        [self.from.as_str().into(), self.until.as_str().into()]
    }
}

/// The argument that selects a queue slice among those of its definition: the class or the status.
fn which(slice: &QueueSlice) -> Arg<'_> {
    match &slice.class {
        Some(class) => class.as_str().into(),
        None => slice.status.code().into(),
    }
}

fn read_listed<DB: Dialect>(row: &DB::Row) -> sqlx::Result<Listed> {
    let code = required::<DB>(row, 2)?;
    let status = Status::from_code(code).ok_or_else(|| sqlx::Error::Decode(format!("unknown status {code}").into()))?;
    let id = required::<DB>(row, 0)?;
    // An unreadable time counts as 1970; the position keeps its text as the index has it.
    let time = |column| Ok::<_, sqlx::Error>(time_from_millis(DB::int(row, column)?.unwrap_or(0)));
    let position = Position::new(DB::text(row, 10)?.unwrap_or_default(), id);
    let mut listed = Listed::new(id, required::<DB>(row, 1)?, status, time(8)?, time(9)?, position);
    listed.fence = required::<DB>(row, 3)?;
    listed.failures = required::<DB>(row, 4)?;
    listed.crashes = required::<DB>(row, 5)?;
    listed.last_class = DB::text(row, 6)?;
    listed.description = DB::text(row, 7)?;
    listed.end_reason = DB::text(row, 11)?;
    listed.ordering_key = DB::text(row, 12)?;
    listed.dedupe_key = DB::text(row, 13)?;
    listed.last_call_time = DB::int(row, 14)?.map(time_from_millis);
    Ok(listed)
}

fn read_group<DB: Dialect>(row: &DB::Row) -> sqlx::Result<RetryGroup> {
    let number = |value: i64| u64::try_from(value).unwrap_or(0);
    Ok(RetryGroup {
        failures: required::<DB>(row, 0)?,
        crashes: required::<DB>(row, 1)?,
        class: DB::text(row, 2)?,
        wait: DB::int(row, 3)?.map(|seconds| Duration::from_secs(number(seconds))),
        due: required::<DB>(row, 4)? == 1,
        count: number(required::<DB>(row, 5)?),
    })
}

fn read_node<DB: Dialect>(row: &DB::Row) -> sqlx::Result<SeenNode> {
    let handlers = serde_json::from_str(&required_text::<DB>(row, 1)?).unwrap_or_default();
    Ok(SeenNode {
        id: required_text::<DB>(row, 0)?,
        handlers,
        last_seen: time_from_millis(DB::int(row, 2)?.unwrap_or(0)),
    })
}

fn read_entry<DB: Dialect>(row: &DB::Row) -> sqlx::Result<AuditEntry> {
    let time = time_from_millis(required::<DB>(row, 0)?);
    let mut entry = AuditEntry::new(time, required_text::<DB>(row, 1)?, required_text::<DB>(row, 2)?);
    entry.def_id = DB::int(row, 3)?;
    entry.notice_id = DB::int(row, 4)?;
    entry.detail = DB::text(row, 5)?;
    Ok(entry)
}

/// Writes an audit entry, in the transaction of the change that it records.
pub(crate) async fn write_entry<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    entry: &AuditEntry,
) -> sqlx::Result<()> {
    let args = [
        now,
        entry.who.as_str().into(),
        entry.act.as_str().into(),
        Arg::Int(entry.def_id),
        Arg::Int(entry.notice_id),
        Arg::Text(entry.detail.as_deref()),
    ];
    DB::execute(conn, &DB::statements().operate.write_audit, &args).await?;
    Ok(())
}
