//! Operator calls in the database: lists, counts, and the verbs, each in one transaction with its audit entry.

pub(crate) mod audit;
pub(crate) mod counts;
pub(crate) mod list;
mod pieces;
pub(crate) mod purge;
pub(crate) mod retries;
pub(crate) mod verbs;

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::error::StoreError;
use solid_notify_core::notice::NoticeRecord;
use solid_notify_core::operate::{
    AuditEntry, DefinitionCounts, Listed, QueueSlice, RetryGroup, SeenNode, Switch, Verb, VerbResult, Window,
    WindowDone,
};
use solid_notify_core::store::{BrowseStore, OperateStore};

use crate::connections::Purpose;
use crate::definitions::is_unique_violation;
use crate::dialect::Dialect;
use crate::store::{SqlStore, int};

/// Maximum number of tries of a change that conflicts with a dedupe key inserted at the same moment.
const TRIES: u32 = 4;

#[async_trait]
impl<DB: Dialect> BrowseStore for SqlStore<DB> {
    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError> {
        self.call("looking for a notice", Purpose::Operate, |on| self.try_find(on, id)).await
    }

    async fn list(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.call("listing notices", Purpose::Operate, |on| self.try_list(on, slice, limit)).await
    }

    async fn count(&self, slice: &QueueSlice, most: usize) -> Result<usize, StoreError> {
        self.call("counting notices", Purpose::Operate, |on| self.try_count(on, slice, most)).await
    }

    async fn classes(&self, def_ids: &[i64]) -> Result<Vec<(i64, String)>, StoreError> {
        self.call("reading the classes of dead letters", Purpose::Operate, |on| self.try_classes(on, def_ids)).await
    }

    async fn ahead(&self, notice: &NoticeRecord) -> Result<Option<i64>, StoreError> {
        let Some(key) = notice.ordering_key.as_deref() else { return Ok(None) };
        let doing = "looking for the notice in front of a blocked one";
        self.call(doing, Purpose::Operate, |on| self.try_ahead(on, notice, key)).await
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
        self.call("counting retries", Purpose::Operate, |on| self.try_retries(on, def_id, most)).await
    }

    async fn nodes(&self, seen_within: Duration) -> Result<Vec<SeenNode>, StoreError> {
        self.call("looking for living nodes", Purpose::Work, |on| self.try_nodes(on, seen_within)).await
    }

    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.call("reading the audit", Purpose::Operate, |on| async move {
            let rows = self.rows(on, &DB::statements().audit.audit, &[self.now(), int(limit).into()]).await?;
            rows.iter().map(audit::read::<DB>).collect()
        })
        .await
    }

    async fn audit_of(&self, notice_id: i64, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.call("reading the audit", Purpose::Operate, |on| async move {
            let args = [self.now(), notice_id.into(), int(limit).into()];
            let rows = self.rows(on, &DB::statements().audit.audit_of, &args).await?;
            rows.iter().map(audit::read::<DB>).collect()
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
