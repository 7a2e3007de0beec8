//! [`DefinitionsPlan`] and [`Applied`]: what becomes of the definitions of an application, and what has become of them. Comparing
//! them with the stored rows is a pure function.
//!
//! Reading rows and writing them is left to `apply.rs`, the effect on live notices to [`EditPreview`].

use std::fmt;

use serde::Serialize;

use super::edit_preview::EditPreview;
use crate::built_in::is_built_in;
use crate::definition::{Definitions, NotifyDef};
use crate::store::Edited;

/// What [`crate::AnyOutbox::apply_plan`] will do with the definitions of an application. Its text is for the log of a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[must_use = "a plan changes nothing"]
pub struct DefinitionsPlan {
    /// The rows that are missing.
    pub create: Vec<NotifyDef>,
    /// The rows that differ.
    pub change: Vec<PlannedChange>,
    /// The rows that are as listed.
    pub unchanged: Vec<NotifyDef>,
    /// The rows that are not listed and will be deleted, because of [`Definitions::delete_missing`].
    pub delete: Vec<NotifyDef>,
    /// The rows that are not listed and stay; built-in definitions apart.
    pub keep: Vec<NotifyDef>,
}

/// A row that differs from the listed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlannedChange {
    /// The row as it was read. It is only overwritten as long as it is this one.
    pub seen: NotifyDef,
    /// The listed row, with the id of the stored one.
    pub new: NotifyDef,
    /// The effect on the live notices.
    pub preview: EditPreview,
}

/// What [`crate::AnyOutbox::apply`] has done. The rows are as stored now. Its text is for a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[must_use = "definitions with a conflict were not changed"]
pub struct Applied {
    /// The rows that were missing.
    pub created: Vec<NotifyDef>,
    /// The rows that differed.
    pub changed: Vec<NotifyDef>,
    /// The rows that were as listed already.
    pub unchanged: Vec<NotifyDef>,
    /// The rows that were deleted, as they were.
    pub deleted: Vec<NotifyDef>,
    /// The rows that are not listed and stay; built-in definitions apart.
    pub kept: Vec<NotifyDef>,
    /// The names of definitions that another editor created, changed or deleted since the plan. They were not touched: plan again.
    pub conflicts: Vec<String>,
}

/// Returns what has to be done so that the stored rows are as listed. A change has no effects on live notices yet.
pub(super) fn compare(rows: Vec<NotifyDef>, definitions: &Definitions) -> DefinitionsPlan {
    let mut stored: Vec<NotifyDef> = rows.into_iter().filter(|row| row.delete_time.is_none()).collect();
    stored.sort_by(|a, b| a.name.cmp(&b.name));
    let mut plan = DefinitionsPlan::default();
    let rows = stored.clone();
    for listed in definitions.rows() {
        let of = listed.parent_in(&rows).and_then(Result::ok).map(|parent| parent.id).or(listed.target_of);
        let listed = &NotifyDef { target_of: of, ..listed.clone() };
        let Some(at) = stored.iter().position(|row| row.name == listed.name) else {
            plan.create.push(listed.clone());
            continue;
        };
        let seen = stored.remove(at);
        let changes = seen.differences(listed);
        if changes.is_empty() {
            plan.unchanged.push(seen);
        } else {
            let new = NotifyDef { id: seen.id, ..listed.clone() };
            plan.change.push(PlannedChange { seen, new, preview: EditPreview { changes, ..EditPreview::default() } });
        }
    }
    stored.retain(|row| !is_built_in(&row.name));
    *(if definitions.deletes_missing() { &mut plan.delete } else { &mut plan.keep }) = stored;
    plan
}

impl DefinitionsPlan {
    /// Returns true if every listed row is stored as it is listed, and none is to be deleted.
    pub fn changes_nothing(&self) -> bool {
        self.create.is_empty() && self.change.is_empty() && self.delete.is_empty()
    }
}

impl Applied {
    /// Notes a row that another editor changed since the plan.
    pub(super) fn met(&mut self, edited: Edited, new: &NotifyDef) {
        match edited {
            // Another process has applied the same definitions.
            Edited::Conflict(row) if row.delete_time.is_none() && row.differences(new).is_empty() => {
                self.unchanged.push(row);
            }
            _ => self.conflicts.push(new.name.clone()),
        }
    }
}

impl fmt::Display for DefinitionsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = self.create.iter().map(|row| format!("create {}", row.name)).collect();
        for PlannedChange { seen, preview, .. } in &self.change {
            lines.push(format!("change {}: {}", seen.name, preview.to_string().replace('\n', "\n  ")));
        }
        lines.extend(self.delete.iter().map(|row| {
            format!("delete {}: it takes no new notices, and its live notices are sent until they end", row.name)
        }));
        lines.extend(names("unchanged", &self.unchanged));
        lines.extend(names("not listed, kept", &self.keep));
        write(f, &lines)
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        for (what, rows) in [
            ("created", &self.created),
            ("changed", &self.changed),
            ("deleted", &self.deleted),
            ("unchanged", &self.unchanged),
            ("not listed, kept", &self.kept),
        ] {
            lines.extend(names(what, rows));
        }
        if !self.conflicts.is_empty() {
            lines.push(format!(
                "not touched, because another editor changed them since the plan: {}",
                self.conflicts.join(", ")
            ));
        }
        write(f, &lines)
    }
}

/// Returns a line with the names of these rows.
fn names(what: &str, rows: &[NotifyDef]) -> Option<String> {
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
}

fn write(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
    f.write_str(if lines.is_empty() { "no definitions" } else { "" })?;
    f.write_str(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn stored(id: i64, def: NotifyDef) -> NotifyDef {
        NotifyDef { id, create_time: Some(DateTime::UNIX_EPOCH), ..def }
    }

    fn rows() -> Vec<NotifyDef> {
        let mut deleted = stored(5, NotifyDef::new("new"));
        deleted.delete_time = Some(DateTime::UNIX_EPOCH);
        vec![
            deleted,
            stored(1, NotifyDef::new("same")),
            stored(2, NotifyDef::new("other").handler_config("secret")),
            stored(3, NotifyDef::new("notify.alert")),
            stored(4, NotifyDef::new("left_out")),
        ]
    }

    fn listed() -> Definitions {
        let other = NotifyDef::new("other").timeout("1s").handler_config("another secret");
        Definitions::of([NotifyDef::new("same"), NotifyDef::new("new"), other]).unwrap()
    }

    #[test]
    fn a_plan_has_each_row_once_by_what_becomes_of_it() {
        let plan = compare(rows(), &listed());
        let names = |rows: &[NotifyDef]| rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&plan.create), names(&plan.unchanged)), (vec!["new".to_owned()], vec!["same".to_owned()]));
        assert_eq!((names(&plan.delete), names(&plan.keep)), (vec![], vec!["left_out".to_owned()]));
        let [change] = &plan.change[..] else { panic!("{plan:?}") };
        assert_eq!((change.seen.id, change.new.id, change.new.timeout.as_str()), (2, 2, "1s"));
        assert!(!plan.changes_nothing());
        let stored: Vec<NotifyDef> = listed().rows().to_vec();
        assert!(compare(stored, &listed()).changes_nothing());
    }

    #[test]
    fn only_what_is_not_built_in_is_deleted() {
        let plan = compare(rows(), &listed().delete_missing());
        assert_eq!((plan.keep.len(), plan.delete.len(), plan.delete[0].id), (0, 1, 4));
        let same = Definitions::of([NotifyDef::new("same")]).unwrap().delete_missing();
        assert!(!compare(rows(), &same).changes_nothing());
    }

    #[test]
    fn the_text_of_a_plan_has_a_line_for_each_change_and_no_handler_config() {
        let expected = "create new\n\
                        change other: timeout: \"30s\" -> \"1s\"; handler_config: changed\n\
                        unchanged: same\n\
                        not listed, kept: left_out";
        assert_eq!(compare(rows(), &listed()).to_string(), expected);
        assert!(compare(rows(), &listed().delete_missing()).to_string().contains("\ndelete left_out: "));
        assert_eq!(DefinitionsPlan::default().to_string(), "no definitions");
    }

    #[test]
    fn a_conflict_with_the_same_row_is_none() {
        let (mut applied, new) = (Applied::default(), NotifyDef::new("a").timeout("1s"));
        applied.met(Edited::Conflict(stored(1, new.clone())), &new);
        assert_eq!((applied.unchanged.len(), applied.conflicts.len()), (1, 0));
        applied.met(Edited::Conflict(stored(1, NotifyDef::new("a"))), &new);
        applied.met(Edited::Missing, &new);
        applied.met(Edited::Conflict(NotifyDef { delete_time: Some(DateTime::UNIX_EPOCH), ..new.clone() }), &new);
        assert_eq!((applied.unchanged.len(), applied.conflicts.len()), (1, 3));
        assert!(applied.to_string().starts_with("unchanged: a\nnot touched, "), "{applied}");
    }
}
