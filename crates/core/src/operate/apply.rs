//! Definitions as a whole: [`AnyOutbox::plan_all`] compares them with the stored rows, [`AnyOutbox::apply`] stores what differs.
//!
//! Reading a file is left to [`Definitions`], comparing to `plan.rs`.

use super::operator::Operator;
use super::plan::{Applied, DefinitionsPlan, PlannedChange, compare};
use crate::built_in::is_built_in;
use crate::definition::{APPLICATION, Definitions, Edits, NotifyDef};
use crate::engine::followed_among;
use crate::error::{Error, Result};
use crate::first_target::new_target;
use crate::outbox::AnyOutbox;
use crate::store::{Edit, Edited};

impl AnyOutbox {
    /// Compares definitions with the stored rows, and returns what [`Self::apply_plan`] will do, with the effect of each change on
    /// the live notices ([`Operator::preview_edit`]). Changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty list that would delete every row; those of the store.
    pub async fn plan_all(&self, definitions: &Definitions) -> Result<DefinitionsPlan> {
        let mut plan = compared(self, definitions).await?;
        let operator = self.operator(APPLICATION);
        let rows = self.engine().stores().definitions.definitions().await?;
        let after = after(&rows, definitions.rows(), &[]);
        for change in &mut plan.change {
            change.preview = operator.preview_among(&change.seen, &change.new, &rows, &after).await?;
        }
        Ok(plan)
    }

    /// Creates the definitions that are missing and replaces those that differ, so that the stored rows are as listed. Edits by
    /// operators stay in the versions. Rows that are not listed stay, unless [`Definitions::delete_missing`] says otherwise.
    ///
    /// Where nothing differs nothing is written. Any number of processes may apply the same definitions at the same time, for
    /// instance when they start. Each row is a transaction of its own: after an error some are stored, and another call continues.
    ///
    /// # Errors
    /// As [`Self::plan_all`]. A row that another editor changed during the call is no error: [`Applied::conflicts`] has it.
    pub async fn apply(&self, definitions: Definitions) -> Result<Applied> {
        self.operator(APPLICATION).apply(definitions).await
    }

    /// Does what a plan says. A row that is no longer as the plan saw it is not touched ([`Applied::conflicts`]), unless it has
    /// become what the plan wants. A built-in definition that a sweeper has created since the plan is edited.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn apply_plan(&self, plan: DefinitionsPlan) -> Result<Applied> {
        self.operator(APPLICATION).apply_plan(plan).await
    }
}

impl Operator {
    /// As [`AnyOutbox::apply`], in this operator's name: of a person, or of a deployment.
    ///
    /// # Errors
    /// As [`AnyOutbox::apply`].
    pub async fn apply(&self, definitions: Definitions) -> Result<Applied> {
        let plan = compared(&self.outbox, &definitions).await?;
        self.apply_plan(plan).await
    }

    /// As [`AnyOutbox::apply_plan`], in this operator's name.
    ///
    /// # Errors
    /// As [`AnyOutbox::apply_plan`].
    pub async fn apply_plan(&self, plan: DefinitionsPlan) -> Result<Applied> {
        // Its fields are public, so its rows may have been changed.
        let mut rows = plan.create.iter().chain(plan.change.iter().map(|change| &change.new));
        rows.try_for_each(|row| self.outbox.engine().validate(row))?;
        check_families(&self.outbox, &plan).await?;
        let listed: Vec<NotifyDef> =
            plan.create.iter().chain(plan.change.iter().map(|change| &change.new)).cloned().collect();
        let mut applied = Applied { unchanged: plan.unchanged, kept: plan.keep, ..Applied::default() };
        let mut new_targets = Vec::new();
        let mut edit = async |edit: Edit| -> Result<Edited> {
            let edited = self.outbox.store_edit(&edit, &self.who).await?;
            new_targets.extend(new_target(&edit, &edited));
            Ok(edited)
        };
        let (targets, others): (Vec<_>, Vec<_>) = plan.create.into_iter().partition(|row| row.target_of.is_some());
        for new in others.into_iter().chain(targets) {
            let new = checked(&self.outbox, new, &listed).await?;
            match edit(Edit::Create(new.clone())).await? {
                Edited::Stored(row) => applied.created.push(row),
                Edited::Conflict(seen) if is_untouched(&seen) && !seen.differences(&new).is_empty() => {
                    // A sweeper has created it since the plan. No editor has changed it, so the listed row replaces it.
                    let new = NotifyDef { id: seen.id, ..new };
                    match edit(Edit::Replace { seen, new: new.clone() }).await? {
                        Edited::Stored(row) => applied.changed.push(row),
                        other => applied.met(other, &new),
                    }
                }
                other => applied.met(other, &new),
            }
        }
        for PlannedChange { seen, new, .. } in plan.change {
            let new = checked(&self.outbox, new, &listed).await?;
            match edit(Edit::Replace { seen, new: new.clone() }).await? {
                Edited::Stored(row) => applied.changed.push(row),
                other => applied.met(other, &new),
            }
        }
        for seen in plan.delete {
            match edit(Edit::Delete { seen: seen.clone() }).await? {
                Edited::Stored(_) => applied.deleted.push(seen),
                Edited::Conflict(_) => applied.conflicts.push(seen.name),
                // Another process deleted it.
                Edited::Missing => {}
            }
        }
        // Once for all of them.
        self.outbox.engine().until_followed(&new_targets).await?;
        if !applied.conflicts.is_empty() {
            tracing::warn!(definitions = ?applied.conflicts, "other editors changed definitions since the plan; they were not touched");
        }
        Ok(applied)
    }
}

/// Returns a row to store, checked among the stored rows and those that the plan has listed, in which all edits are made.
async fn checked(outbox: &AnyOutbox, new: NotifyDef, listed: &[NotifyDef]) -> Result<NotifyDef> {
    let rows = outbox.engine().stores().definitions.definitions().await?;
    outbox.engine().checked_among(new, &after(&rows, listed, &[]))
}

/// Checks what the edits of a plan would break in the targets of the edited rows, before the first one of them is made.
async fn check_families(outbox: &AnyOutbox, plan: &DefinitionsPlan) -> Result<()> {
    let rows = outbox.engine().stores().definitions.definitions().await?;
    let changed: Vec<NotifyDef> = plan.change.iter().map(|change| change.new.clone()).collect();
    let after = after(&rows, &changed, &plan.delete);
    let edits = Edits { before: &rows, after: &after };
    changed.iter().try_for_each(|row| outbox.engine().check_family(row.id, &edits))
}

/// Returns the rows with these in the places of the stored ones with their names, and without those that are deleted.
fn after(rows: &[NotifyDef], listed: &[NotifyDef], deleted: &[NotifyDef]) -> Vec<NotifyDef> {
    let replaced = |row: &NotifyDef| {
        let new = listed.iter().find(|new| new.name == row.name && row.delete_time.is_none());
        // The list names the definition of a target, which has an id here.
        let of = |new: &NotifyDef| if new.target_of == Some(0) { row.target_of } else { new.target_of };
        new.map_or_else(|| row.clone(), |new| NotifyDef { id: row.id, target_of: of(new), ..new.clone() })
    };
    rows.iter().filter(|row| !deleted.iter().any(|gone| gone.id == row.id)).map(replaced).collect()
}

/// Returns whether a row is that of a built-in definition as sweepers create it.
fn is_untouched(row: &NotifyDef) -> bool {
    is_built_in(&row.name) && row.delete_time.is_none() && row.differences(&NotifyDef::new(&row.name)).is_empty()
}

/// Reads the rows and returns the plan, without the effects on live notices.
async fn compared(outbox: &AnyOutbox, definitions: &Definitions) -> Result<DefinitionsPlan> {
    if definitions.deletes_missing() && definitions.rows().is_empty() {
        let problem = "an empty list with `delete_missing` would delete every definition".to_owned();
        return Err(Error::Invalid { what: "definitions", problem });
    }
    let rows = outbox.engine().stores().definitions.definitions().await?;
    // The definition of a target may be listed or stored.
    let all: Vec<NotifyDef> = definitions.rows().iter().chain(&rows).cloned().collect();
    definitions.rows().iter().try_for_each(|row| outbox.engine().validate(&followed_among(row, &all)?))?;
    let plan = compare(rows, definitions);
    check_families(outbox, &plan).await?;
    Ok(plan)
}
