//! The roles of a store ([`solid_notify_core::store`]): each call, the connections that it uses, and the topic that carries it out.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::alert::AlertReason;
use solid_notify_core::alert::cooldown::{AlertFacts, AlertRow};
use solid_notify_core::alert::silence::AlertChange;
use solid_notify_core::definition::{NotifyDef, StoredVersion};
use solid_notify_core::error::StoreError;
use solid_notify_core::finding::Finding;
use solid_notify_core::notice::{ClaimedNotice, NoticeRecord};
use solid_notify_core::store::verb::{Verb, VerbResult};
use solid_notify_core::store::{
    Advanced, AlertStep, AlertStore, AuditEntry, AuditQuery, Authority, BrowseStore, BulkStep, BulkStepDone, Claim,
    Claims, ClusterView, DefinitionCounts, DefinitionStore, DueTimes, Edit, Edited, Lease, Listed, Look, Node,
    OperateStore, PassOn, PassedOn, Position, Purge, Purged, QueueSlice, RetryGroup, SeenNode, SendLimits, SendStore,
    SeriesCounts, SeriesQuery, SeriesRow, Settle, Settled, StoredGroup, Switch, Tick,
};

use crate::audit;
use crate::claim::{self, due, leases};
use crate::connections::Purpose;
use crate::definitions::{self, tick, versions};
use crate::dialect::Dialect;
use crate::operate::{acts, counts, groups, list, purge, retries, switch, verbs};
use crate::store::{SqlStore, past_collisions};
use crate::{ack, alerts, examine, large, limits, nodes, ordering, own, record, series, settle};

/// How many leases one transaction extends.
const LEASES_AT_ONCE: usize = 1000;

/// How long an ack, and the pause of a definition by its receiver, look for a row that another session has locked.
const ACK_WAITS: Duration = Duration::from_secs(1);

#[async_trait]
impl<DB: Dialect> SendStore for SqlStore<DB> {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.call("reading the database's time", Purpose::Work, |on, now| nodes::read_time(on, now)).await
    }

    async fn due(&self, thorough: bool) -> Result<DueTimes, StoreError> {
        self.call("looking for due notices", Purpose::Work, |on, now| due::due(on, now, &self.hints, thorough)).await
    }

    async fn tick(&self, tick: &Tick) -> Result<Advanced, StoreError> {
        self.call("storing the ticks of a timetable", Purpose::Work, |on, now| tick::tick(on, now, tick)).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError> {
        self.call("claiming notices", Purpose::Work, |on, now| {
            past_collisions(move || claim::claim(on, now, &self.hints, claim))
        })
        .await
    }

    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
        self.call("looking for expired leases and missing acks", Purpose::Work, |on, now| {
            leases::look(on, now, &self.hints, look, limit)
        })
        .await
    }

    async fn param_bytes(&self, claimed: &ClaimedNotice) -> Result<Option<usize>, StoreError> {
        self.call("reading the size of a parameter", Purpose::Work, |on, _| large::bytes(on, claimed)).await
    }

    async fn param(&self, claimed: &ClaimedNotice) -> Result<Option<String>, StoreError> {
        self.call("reading a large parameter", Purpose::Work, |on, _| large::text(on, claimed)).await
    }

    async fn authority(&self, id: i64) -> Result<Option<Authority>, StoreError> {
        self.call("reading the authority of a notice", Purpose::Work, |on, now| own::authority(on, now, id)).await
    }

    async fn use_authority(&self, claimed: &ClaimedNotice) -> Result<Option<Authority>, StoreError> {
        self.call("using the authority of a notice", Purpose::Work, |on, now| own::use_authority(on, now, claimed))
            .await
    }

    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call("settling notices", Purpose::Work, |on, now| settle::settle(on, now, &self.hints.met_lock, batch))
            .await
    }

    async fn pass_on(&self, part: &PassOn) -> Result<PassedOn, StoreError> {
        self.call("passing a notice on in parts", Purpose::Work, |on, now| settle::pass_on::pass_on_part(on, now, part))
            .await
    }

    async fn extend(&self, leases: &[Lease]) -> Result<Vec<i64>, StoreError> {
        let mut extended = Vec::with_capacity(leases.len());
        for chunk in leases.chunks(LEASES_AT_ONCE) {
            extended
                .extend(self.call("extending leases", Purpose::Lease, |on, now| leases::extend(on, now, chunk)).await?);
        }
        Ok(extended)
    }

    async fn purge(&self, purge: &Purge) -> Result<Vec<Purged>, StoreError> {
        self.call("purging", Purpose::Operate, |on, now| purge::purge(on, now, &self.purge_ends, purge)).await
    }

    async fn write_series(&self, node: &str, rows: &[SeriesRow]) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.call("storing the series", Purpose::Operate, |on, now| series::write(on, now, node, rows)).await
    }

    async fn beat(&self, node: &Node) -> Result<ClusterView, StoreError> {
        self.call("storing the heartbeat of this node", Purpose::Work, |on, now| nodes::beat(on, now, node)).await
    }
}

#[async_trait]
impl<DB: Dialect> AlertStore for SqlStore<DB> {
    async fn due_alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason)>, StoreError> {
        self.call("looking for due alerts", Purpose::Work, |on, now| alerts::due_alerts(on, now, limit)).await
    }

    async fn alert(&self, def_id: i64, reason: AlertReason) -> Result<Option<(AlertRow, AlertFacts)>, StoreError> {
        self.call("reading an alert", Purpose::Work, |on, now| alerts::alert(on, now, def_id, reason)).await
    }

    async fn advance_alert(&self, step: &AlertStep) -> Result<Advanced, StoreError> {
        self.call("storing what becomes of an alert", Purpose::Work, |on, now| alerts::advance_alert(on, now, step))
            .await
    }

    async fn alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason, AlertRow)>, StoreError> {
        self.call("listing alerts", Purpose::Operate, |on, now| alerts::alerts(on, now, limit)).await
    }

    async fn change_alerts(&self, change: &AlertChange, who: &str) -> Result<bool, StoreError> {
        self.call("changing alerts for an operator", Purpose::Operate, |on, now| {
            alerts::change_alerts(on, now, change, who)
        })
        .await
    }
}

#[async_trait]
impl<DB: Dialect> DefinitionStore for SqlStore<DB> {
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError> {
        self.call("reading the definitions", Purpose::Work, |on, now| definitions::definitions(on, now, &self.known))
            .await
    }

    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError> {
        // A person waits for another editor; an attempt that pauses its definition has other work.
        let limit = if matches!(edit, Edit::Pause { .. }) { ACK_WAITS } else { self.call_timeout };
        self.call_when_free("editing a definition", Purpose::Operate, limit, |on, now| {
            definitions::edit(on, now, &self.known, edit, who)
        })
        .await
    }

    async fn versions(&self, def_id: i64, up_to: i64, limit: usize) -> Result<Vec<StoredVersion>, StoreError> {
        self.call("reading the versions of a definition", Purpose::Operate, |on, now| {
            versions::versions(on, now, def_id, up_to, limit)
        })
        .await
    }

    async fn last_versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        self.call("reading the last versions of the definitions", Purpose::Work, |on, now| {
            versions::last_versions(on, now)
        })
        .await
    }

    async fn remember(&self, rows: &[NotifyDef], seen_by: &str) -> Result<bool, StoreError> {
        self.call("storing versions of definitions edited by SQL", Purpose::Operate, |on, now| {
            past_collisions(move || versions::remember(on, now, rows, seen_by))
        })
        .await
    }

    async fn send_limits(&self) -> Result<SendLimits, StoreError> {
        self.call("reading the limits and the pause switch", Purpose::Work, |on, now| limits::send_limits(on, now))
            .await
    }

    async fn store_id(&self) -> Result<Option<i64>, StoreError> {
        self.call("reading the number of the store", Purpose::Work, |on, _| ack::read_store_id(on)).await
    }
}

#[async_trait]
impl<DB: Dialect> BrowseStore for SqlStore<DB> {
    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError> {
        self.call("looking for a notice", Purpose::Operate, |on, now| record::find(on, now, id)).await
    }

    async fn list(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.call("listing notices", Purpose::Operate, |on, now| list::list(on, now, slice, limit)).await
    }

    async fn count(&self, slice: &QueueSlice, most: usize) -> Result<usize, StoreError> {
        self.call("counting notices", Purpose::Operate, |on, now| list::count(on, now, slice, most)).await
    }

    async fn classes(&self, def_ids: &[i64]) -> Result<Vec<(i64, String)>, StoreError> {
        self.call("reading the classes of dead letters", Purpose::Operate, |on, now| list::classes(on, now, def_ids))
            .await
    }

    async fn groups(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<StoredGroup>, StoreError> {
        self.call("grouping dead letters", Purpose::Operate, |on, now| groups::groups(on, now, slice, limit)).await
    }

    async fn ahead(&self, notice: &NoticeRecord) -> Result<Option<i64>, StoreError> {
        let Some(key) = notice.ordering_key.as_deref() else { return Ok(None) };
        let doing = "looking for the notice in front of a blocked one";
        self.call(doing, Purpose::Operate, |on, now| list::ahead(on, now, notice, key)).await
    }

    async fn oldest_blocked(&self, def_id: i64) -> Result<Option<DateTime<Utc>>, StoreError> {
        self.call("looking for blocked notices", Purpose::Work, |on, _| ordering::oldest_blocked(on, def_id)).await
    }

    async fn counts(&self) -> Result<Vec<DefinitionCounts>, StoreError> {
        self.call("reading the counts", Purpose::Operate, |on, now| counts::counts(on, now)).await
    }

    async fn refresh_counts(&self, def_id: i64, every: Duration) -> Result<bool, StoreError> {
        self.call("counting notices", Purpose::Operate, |on, now| counts::refresh_counts(on, now, def_id, every)).await
    }

    async fn retries(&self, def_id: i64, most: usize) -> Result<Vec<RetryGroup>, StoreError> {
        self.call("counting retries", Purpose::Operate, |on, now| retries::retries(on, now, def_id, most)).await
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Vec<(i64, SeriesCounts)>, StoreError> {
        self.call("reading the series", Purpose::Operate, |on, now| series::series(on, now, query)).await
    }

    async fn nodes(&self, seen_within: Duration) -> Result<Vec<SeenNode>, StoreError> {
        self.call("looking for living nodes", Purpose::Work, |on, now| nodes::living(on, now, seen_within)).await
    }

    async fn audit(&self, query: &AuditQuery, limit: usize) -> Result<Vec<(Position, AuditEntry)>, StoreError> {
        self.call("reading the audit", Purpose::Operate, |on, now| audit::audit(on, now, query, limit)).await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.call("examining the server", Purpose::Operate, |on, _| examine::examine(on)).await
    }
}

#[async_trait]
impl<DB: Dialect> OperateStore for SqlStore<DB> {
    async fn apply_ack(&self, answer: &Reply) -> Result<AckResult, StoreError> {
        let doing = "storing the ack or nack of a receiver";
        self.call_when_free(doing, Purpose::Ack, ACK_WAITS, |on, now| ack::ack(on, now, answer)).await
    }

    async fn can_ack(&self) -> Result<(), StoreError> {
        self.call("checking the rights for acks", Purpose::Ack, |on, now| ack::can_ack(on, now)).await
    }

    async fn change(&self, id: i64, verb: &Verb, who: &str) -> Result<VerbResult, StoreError> {
        self.call_when_free("changing a notice for an operator", Purpose::Operate, self.call_timeout, |on, now| {
            past_collisions(move || verbs::change(on, now, id, verb, who))
        })
        .await
    }

    async fn change_step(&self, step: &BulkStep) -> Result<BulkStepDone, StoreError> {
        self.call("changing notices for an operator", Purpose::Operate, |on, now| {
            past_collisions(move || verbs::change_step(on, now, step))
        })
        .await
    }

    async fn add(&self, def_id: i64, param: &str, authority: &Authority) -> Result<i64, StoreError> {
        self.call("adding a bulk act", Purpose::Operate, |on, now| acts::add(on, now, def_id, param, authority)).await
    }

    async fn add_test(&self, def_id: i64, param: &str, who: &str) -> Result<i64, StoreError> {
        self.call("adding a test", Purpose::Operate, |on, now| acts::add_test(on, now, def_id, param, who)).await
    }

    async fn note_progress(&self, id: i64, fence: i64, param: &str) -> Result<bool, StoreError> {
        self.call("storing the progress of a bulk act", Purpose::Operate, |on, now| {
            acts::note_progress(on, now, (id, fence), param)
        })
        .await
    }

    async fn switch(&self, switch: &Switch, who: &str) -> Result<bool, StoreError> {
        self.call("turning the pause switch", Purpose::Operate, |on, now| switch::switch(on, now, switch, who)).await
    }

    async fn close_circuit(&self, def_id: i64, who: &str) -> Result<bool, StoreError> {
        self.call("closing the circuit of a definition", Purpose::Operate, |on, now| {
            past_collisions(move || limits::close_circuit(on, now, def_id, who))
        })
        .await
    }
}
