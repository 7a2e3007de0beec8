//! An operator's work on alerts: list, acknowledge, silence.
//!
//! [`crate::alert::silence`] decides what a verb does to the row of an alert.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::definitions::DefRef;
use super::operator::{Operator, REASON_LIMIT};
use crate::alert::AlertReason;
use crate::alert::cooldown::AlertRow;
use crate::alert::silence::{AlertChange, AlertVerb};
use crate::error::{Error, Result};
use crate::notice::{LATEST_TIME, clean_text, millis_from_time, time_from_millis};

/// An alert that is not over, or a silence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OpenAlert {
    /// The definition.
    pub def_id: i64,
    /// Its name; empty if its row is gone.
    pub definition: String,
    /// The kind of problem.
    pub reason: AlertReason,
    /// When the problem began; `None`: an operator silences alerts of this reason, and none was raised.
    pub since: Option<DateTime<Utc>>,
    /// How many alarms were suppressed since the last alert.
    pub suppressed: i64,
    /// The notice of the last alarm.
    pub notice_id: Option<i64>,
    /// The message of the last alarm.
    pub message: Option<String>,
    /// Until when an operator silences it.
    pub silenced_until: Option<DateTime<Utc>>,
    /// The operator who acknowledged it.
    pub acknowledged_by: Option<String>,
    /// When that operator did.
    pub acknowledged_at: Option<DateTime<Utc>>,
}

impl OpenAlert {
    fn new(def_id: i64, definition: String, reason: AlertReason, row: AlertRow, now: i64) -> Self {
        Self {
            def_id,
            definition,
            reason,
            since: row.is_open().then(|| time_from_millis(row.opened)),
            suppressed: row.suppressed,
            silenced_until: row.silenced_until.filter(|_| row.is_silenced(now)).map(time_from_millis),
            acknowledged_at: row.acknowledged_at.map(time_from_millis),
            acknowledged_by: row.acknowledged_by,
            notice_id: row.notice_id,
            message: row.message,
        }
    }
}

impl Operator {
    /// Returns the alerts that are not over, and the silences, by definition.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn open_alerts(&self, limit: usize) -> Result<Vec<OpenAlert>> {
        let stores = self.stores();
        let definitions = stores.definitions.definitions().await?;
        let rows = stores.alerts.alerts(limit).await?;
        let now = millis_from_time(stores.send.now().await?);
        let shown = rows.into_iter().filter(|(_, _, row)| row.is_open() || row.is_silenced(now));
        let alert = |(def_id, reason, row)| {
            let definition = definitions.iter().find(|definition| definition.id == def_id);
            let name = definition.map(|definition| definition.name.clone()).unwrap_or_default();
            OpenAlert::new(def_id, name, reason, row, now)
        };
        Ok(shown.map(alert).collect())
    }

    /// Sends no alert of the definition and reason (`None`: of all reasons) until then, on any node. Alarms are counted meanwhile.
    /// At the end of the silence a digest reports them if the problem persists, and a recovery if it is over. An earlier silence is
    /// replaced. Returns false if `until` has passed.
    ///
    /// ```
    /// # async fn example(outbox: solid_notify_core::AnyOutbox) -> Result<(), Box<dyn std::error::Error>> {
    /// use chrono::{TimeDelta, Utc};
    ///
    /// let alice = outbox.operator("alice");
    /// alice.silence("sync_to_omp", None, Utc::now() + TimeDelta::hours(2), "OMP is in maintenance").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownDefinition`]; [`Error::Invalid`] if `why` or the name of this operator is blank; those of the store.
    pub async fn silence(
        &self,
        definition: impl Into<DefRef>,
        reason: impl Into<Option<AlertReason>>,
        until: DateTime<Utc>,
        why: &str,
    ) -> Result<bool> {
        if why.trim().is_empty() {
            let problem = "its reason is blank: say why no alert is sent, for those who miss it".to_owned();
            return Err(Error::Invalid { what: "silence", problem });
        }
        let until = until.min(time_from_millis(LATEST_TIME));
        let verb = AlertVerb::Silence { until, reason: clean_text(why, REASON_LIMIT) };
        self.change_alerts(definition.into(), reason.into(), verb).await
    }

    /// Ends silences of the definition and reason (`None`: of all reasons) now. Returns false if there was none.
    ///
    /// # Errors
    /// [`Error::UnknownDefinition`]; [`Error::Invalid`] if the name of this operator is blank; those of the store.
    pub async fn unsilence(
        &self,
        definition: impl Into<DefRef>,
        reason: impl Into<Option<AlertReason>>,
    ) -> Result<bool> {
        self.change_alerts(definition.into(), reason.into(), AlertVerb::Unsilence).await
    }

    /// Records that this operator takes care of an alert (`None`: of all open ones of the definition): no further alert or digest of
    /// it is sent until the problem is over. Its recovery is sent. Returns false if there is no open alert that is not
    /// acknowledged already.
    ///
    /// # Errors
    /// As [`Self::unsilence`].
    pub async fn acknowledge(
        &self,
        definition: impl Into<DefRef>,
        reason: impl Into<Option<AlertReason>>,
    ) -> Result<bool> {
        self.change_alerts(definition.into(), reason.into(), AlertVerb::Acknowledge).await
    }

    async fn change_alerts(&self, definition: DefRef, reason: Option<AlertReason>, verb: AlertVerb) -> Result<bool> {
        let def_id = self.definition(definition).await?.id;
        let change = AlertChange { def_id, reason, verb };
        if self.who.trim().is_empty() {
            let problem = "the name of the operator is blank: others must know whom to ask".to_owned();
            return Err(Error::Invalid { what: change.act(), problem });
        }
        let changed = self.stores().alerts.change_alerts(&change, &self.who).await?;
        if changed {
            self.outbox.wake();
        }
        Ok(changed)
    }
}
