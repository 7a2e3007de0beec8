//! [`DecidedBy`]: the rows of targets by which an outcome was decided. The store compares them with those that it has when it stores the outcome.

use crate::definition::NotifyDef;

/// The row of a target, as far as it decides which notices the target gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenTarget {
    /// Its id.
    pub id: i64,
    /// Its filter, as the column has it.
    pub filter: Option<String>,
}

impl From<i64> for SeenTarget {
    /// A target without a filter.
    fn from(id: i64) -> Self {
        Self { id, filter: None }
    }
}

impl From<&NotifyDef> for SeenTarget {
    fn from(row: &NotifyDef) -> Self {
        Self { id: row.id, filter: row.target_filter.clone() }
    }
}

/// The rows by which an outcome was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecidedBy {
    /// All targets of the definition that are not deleted: the notice is passed on to those that accept it.
    Targets(Vec<SeenTarget>),
    /// The filter of the definition, which is a target: it refuses the notice.
    Filter(Option<String>),
}

/// A definition as the store has it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetRow {
    /// The row.
    pub seen: SeenTarget,
    /// The definition of which it is a target.
    pub of: Option<i64>,
    /// Whether it is deleted.
    pub is_deleted: bool,
}

impl TargetRow {
    /// Returns what decides of a row.
    pub fn new(row: &NotifyDef) -> Self {
        Self { seen: row.into(), of: row.target_of, is_deleted: row.delete_time.is_some() }
    }
}

impl DecidedBy {
    /// Returns whether an outcome of the definition `def_id` would still be decided by the same rows, in any order. `rows`: at least the
    /// definition and its targets.
    pub fn still_holds(&self, def_id: i64, rows: &[TargetRow]) -> bool {
        match self {
            Self::Targets(seen) => same_targets(seen, def_id, rows),
            Self::Filter(seen) => {
                rows.iter().find(|row| row.seen.id == def_id).is_some_and(|row| text(&row.seen.filter) == text(seen))
            }
        }
    }
}

/// Returns whether these are all targets of a definition that are not deleted, with their filters, in any order.
pub fn same_targets(seen: &[SeenTarget], def_id: i64, rows: &[TargetRow]) -> bool {
    let are_targets = |row: &&TargetRow| row.of == Some(def_id) && !row.is_deleted;
    let mut now: Vec<_> = rows.iter().filter(are_targets).map(|row| (row.seen.id, text(&row.seen.filter))).collect();
    let mut seen: Vec<_> = seen.iter().map(|target| (target.id, text(&target.filter))).collect();
    now.sort_unstable();
    seen.sort_unstable();
    now == seen
}

/// Without a filter a target gets all notices, and so it does with an empty one.
fn text(filter: &Option<String>) -> &str {
    filter.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64, of: i64, filter: Option<&str>) -> TargetRow {
        TargetRow { seen: SeenTarget { id, filter: filter.map(str::to_owned) }, of: Some(of), is_deleted: false }
    }

    #[test]
    fn decision_holds_while_targets_and_filters_are_the_same() {
        let seen = DecidedBy::Targets(vec![row(5, 3, Some("@.a")).seen, row(4, 3, None).seen]);
        let rows = vec![row(4, 3, Some("")), row(5, 3, Some("@.a")), row(6, 9, None)];
        assert!(seen.still_holds(3, &rows));
        let with = |changed: TargetRow| rows.iter().cloned().chain([changed]).collect::<Vec<_>>();
        assert!(!seen.still_holds(3, &with(row(7, 3, None))), "another target");
        assert!(seen.still_holds(3, &with(TargetRow { is_deleted: true, ..row(7, 3, None) })));
        assert!(!seen.still_holds(3, &rows[1..]), "one target less");
        assert!(!seen.still_holds(3, &[row(4, 3, None), row(5, 3, Some("@.b"))]), "another filter");
        let refused = DecidedBy::Filter(Some("@.a".to_owned()));
        assert!(refused.still_holds(5, &rows) && !refused.still_holds(4, &rows) && !refused.still_holds(8, &rows));
        assert!(refused.still_holds(5, &[TargetRow { is_deleted: true, ..row(5, 3, Some("@.a")) }]), "deleted");
    }
}
