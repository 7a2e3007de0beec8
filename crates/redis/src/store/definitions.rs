//! Definitions and their versions. Each is a hash that people may edit; an edit compares its fingerprint before overwriting it.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use solid_notify_core::StoreError;
use solid_notify_core::alert::ALERT_DEFINITION;
use solid_notify_core::definition::{
    BY_HAND, NotifyDef, StoredVersion, by_hand, deleted_handler, deleted_name, unseen,
};
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{Alarm, DefinitionStore, Edit, Edited, SendLimits};

use super::given::{self, Text};
use super::row::{definition, fields, lossy};
use super::{AGAIN, LOOK, RedisStore, busy, codec, keys, pause, readable};

const DOING: &str = "editing a definition";

/// The fingerprint of a row that cannot be read.
const DAMAGED: &str = "damaged";

/// A definition as it was read, with what an edit needs to overwrite it.
pub(super) struct SeenRow {
    pub(super) id: i64,
    fingerprint: String,
    /// `None` where the hash was deleted by hand.
    pub(super) row: Option<NotifyDef>,
    versions: i64,
    pub(super) last: Option<StoredVersion>,
}

impl SeenRow {
    fn unborn(id: i64) -> Self {
        Self { id, fingerprint: String::new(), row: None, versions: 0, last: None }
    }

    /// True if a key of it has another type, or its row is too large.
    fn is_damaged(&self) -> bool {
        self.fingerprint == DAMAGED || self.versions < 0
    }
}

/// The versions and audit entries that an edit writes.
struct Kept {
    versions: Vec<StoredVersion>,
    audit: Vec<String>,
}

impl Kept {
    fn nothing() -> Self {
        Self { versions: Vec::new(), audit: Vec::new() }
    }

    /// Keeps a version of the row, unless it equals the last version: what was done, and why, if that is known.
    fn keep(
        &mut self,
        seen: &SeenRow,
        row: &NotifyDef,
        (act, reason): (&str, Option<&str>),
        who: &str,
        now: DateTime<Utc>,
    ) {
        let last = self.versions.last().or(seen.last.as_ref());
        let Some(version) = StoredVersion::after(last, row, act, who, now) else { return };
        self.audit.extend(version.audit(last, reason).as_ref().map(codec::audit_text));
        self.versions.push(version);
    }
}

impl RedisStore {
    /// Reads all definitions by id, and the time.
    pub(super) async fn rows(&self) -> Result<(DateTime<Utc>, Vec<SeenRow>), StoreError> {
        type Raw = (i64, String, HashMap<Vec<u8>, Vec<u8>>, i64, Vec<u8>);
        let (now, raw): (i64, Vec<Raw>) = self.common(&given::Common::Definitions, "reading the definitions").await?;
        let mut rows: Vec<SeenRow> = Vec::with_capacity(raw.len());
        for (id, fingerprint, fields, versions, last) in raw {
            let row = definition(id, &fields);
            if row.is_none() && !fields.is_empty() {
                tracing::error!(id, "skipped a definition whose hash has no name");
            }
            let seen = SeenRow { id, fingerprint, row, versions, last: codec::version(id, &lossy(&last)) };
            if seen.is_damaged() {
                let what = if seen.versions < 0 {
                    "`versions:<id>` is no list"
                } else {
                    "`definition:<id>` is no hash, or is larger than 4 MiB"
                };
                tracing::error!(id, "a key of a definition is damaged: {what}");
            }
            rows.push(seen);
        }
        rows.sort_unstable_by_key(|seen| seen.id);
        Ok((time_from_millis(now), rows))
    }

    pub(super) async fn edit_row(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError> {
        let mut number = None;
        for round in 0..AGAIN {
            pause(round).await;
            let (now, rows) = self.rows().await?;
            let named = |name: &str| rows.iter().filter_map(|seen| seen.row.as_ref()).find(|row| row.name == name);
            let (seen, mut new) = match edit {
                Edit::Create(def) => {
                    if let Some(row) = named(&def.name) {
                        return Ok(Edited::Conflict(row.clone()));
                    }
                    let id = match number {
                        Some(id) => id,
                        None => self.new_definition(&def.name).await?,
                    };
                    number = Some(id);
                    if rows.iter().any(|seen| seen.id == id) {
                        // A definition with this id was made by hand, without the counter.
                        number = None;
                        continue;
                    }
                    let mut row = def.clone();
                    row.id = id;
                    (row.create_time, row.update_time, row.delete_time) = (Some(now), Some(now), None);
                    (SeenRow::unborn(id), row)
                }
                Edit::Replace { seen, new } | Edit::RollBack { seen, new, .. } | Edit::Pause { seen, new, .. } => {
                    let mut new = new.clone();
                    new.delete_time = None;
                    match replaceable(rows, seen, new, now)? {
                        Ok(found) => found,
                        Err(result) => return Ok(result),
                    }
                }
                Edit::Delete { seen } => {
                    let mut new = seen.clone();
                    new.handler = deleted_handler(seen).map(str::to_owned);
                    new.name = deleted_name(seen);
                    new.delete_time = Some(now);
                    match replaceable(rows, seen, new, now)? {
                        Ok(found) => found,
                        Err(result) => return Ok(result),
                    }
                }
            };
            let mut kept = Kept::nothing();
            if let Some(row) = &seen.row {
                kept.keep(&seen, row, (BY_HAND, None), &by_hand(who), now);
            }
            kept.keep(&seen, &new, (&edit.act(), edit.reason()), who, now);
            new.id = seen.id;
            if self.write_row(&seen, &kept, Some(&new), edit.alarm()).await? {
                return Ok(Edited::Stored(new));
            }
        }
        Err(busy(DOING))
    }

    /// Writes a row, and raises the alarm that this causes. Returns false where it has changed since it was read, or its name is
    /// taken.
    async fn write_row(
        &self,
        seen: &SeenRow,
        kept: &Kept,
        row: Option<&NotifyDef>,
        alarm: Option<&Alarm>,
    ) -> Result<bool, StoreError> {
        let edit = given::Edit {
            id: Text(seen.id),
            seen_fingerprint: &seen.fingerprint,
            seen_versions: seen.versions,
            versions: kept.versions.iter().map(codec::version_text).collect(),
            audit: &kept.audit,
            row: row.map(|row| fields(row).into_iter().collect()),
        };
        let reply = match alarm {
            Some(alarm) => self.edit_and_raise(edit, alarm).await?,
            None => self.common(&given::Common::Edit(edit), DOING).await?,
        };
        Ok(reply == "done")
    }

    async fn new_definition(&self, name: &str) -> Result<i64, StoreError> {
        let is_alerts = name == ALERT_DEFINITION;
        let counter = if is_alerts { keys::LAST_ALERT_DEFINITION } else { keys::LAST_DEFINITION };
        keys::def_id(self.common(&given::Common::Number { counter }, DOING).await?, is_alerts)
    }

    pub(super) async fn remember_rows(&self, seen_by: &str) -> Result<bool, StoreError> {
        for round in 0..AGAIN {
            pause(round).await;
            let (now, seen) = self.rows().await?;
            let rows: Vec<NotifyDef> = seen.iter().filter_map(|seen| seen.row.clone()).collect();
            let last: Vec<StoredVersion> = seen.iter().filter_map(|seen| seen.last.clone()).collect();
            let changed = unseen(&rows, &last);
            let mut all = true;
            for seen in seen.iter().filter(|seen| !seen.is_damaged() && changed.contains(&seen.id)) {
                let gone = || seen.last.as_ref().and_then(|version| version.gone(now));
                let Some(row) = seen.row.clone().or_else(gone) else { continue };
                let mut kept = Kept::nothing();
                kept.keep(seen, &row, (BY_HAND, None), &by_hand(seen_by), now);
                all &= kept.versions.is_empty() || self.write_row(seen, &kept, None, None).await?;
            }
            if all {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) async fn versions_of(
        &self,
        def_id: i64,
        up_to: i64,
        limit: usize,
    ) -> Result<Vec<StoredVersion>, StoreError> {
        let texts: Vec<String> = self.common(&given::Common::Versions { id: Text(def_id) }, "reading versions").await?;
        let all = texts.iter().rev().filter_map(|text| codec::version(def_id, text));
        Ok(all.filter(|version| version.version <= up_to).take(limit).collect())
    }
}

/// Returns the row that an edit replaces and the new row, or why the edit is refused.
fn replaceable(
    mut rows: Vec<SeenRow>,
    seen: &NotifyDef,
    mut new: NotifyDef,
    now: DateTime<Utc>,
) -> Result<Result<(SeenRow, NotifyDef), Edited>, StoreError> {
    let other = |row: &NotifyDef| row.id != seen.id && row.name == new.name;
    let other = rows.iter().filter_map(|seen| seen.row.as_ref()).find(|row| other(row)).cloned();
    let Some(at) = rows.iter().position(|row| row.id == seen.id) else { return Ok(Err(Edited::Missing)) };
    let found = rows.swap_remove(at);
    let row = match &found.row {
        None => return Ok(Err(Edited::Missing)),
        Some(row) if row.delete_time.is_some() => return Ok(Err(Edited::Missing)),
        Some(row) if !row.differences(seen).is_empty() => return Ok(Err(Edited::Conflict(row.clone()))),
        Some(row) => row,
    };
    if let Some(other) = other {
        return Ok(Err(Edited::Conflict(other)));
    }
    if new.name == ALERT_DEFINITION && !keys::is_alerts(row.id) {
        let problem =
            format!("only a new definition can be called {ALERT_DEFINITION:?}: its notices are in the alerts' slot");
        return Err(StoreError::new(DOING, FaultKind::Permanent, problem));
    }
    (new.id, new.create_time, new.update_time) = (row.id, row.create_time, Some(now));
    Ok(Ok((found, new)))
}

#[async_trait]
impl DefinitionStore for RedisStore {
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError> {
        let (_, rows) = self.rows().await?;
        Ok(rows.into_iter().filter_map(|seen| seen.row).collect())
    }

    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError> {
        self.edit_row(edit, who).await
    }

    async fn versions(&self, def_id: i64, up_to: i64, limit: usize) -> Result<Vec<StoredVersion>, StoreError> {
        self.versions_of(def_id, up_to, limit).await
    }

    async fn last_versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        Ok(self.rows().await?.1.into_iter().filter_map(|seen| seen.last).collect())
    }

    async fn remember(&self, _rows: &[NotifyDef], seen_by: &str) -> Result<bool, StoreError> {
        self.remember_rows(seen_by).await
    }

    async fn send_limits(&self) -> Result<SendLimits, StoreError> {
        let paused: String = self.common(&given::Common::Paused, "reading the pause switch").await?;
        let ids = self.ids().await?;
        let looks = ids.iter().map(|id| self.run::<String>(&LOOK, *id, &given::Look::Limits, "reading limits"));
        let limits = readable(ids.iter().copied().zip(join_all(looks).await))?.read;
        let limits = limits.into_iter().filter_map(|(def_id, text)| Some((def_id, codec::limit_row(&text)?)));
        Ok(SendLimits { paused: codec::paused(&paused), limits: limits.collect() })
    }

    async fn store_id(&self) -> Result<Option<i64>, StoreError> {
        self.own_id().await
    }
}
