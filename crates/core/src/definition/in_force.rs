//! [`InForce`]: a row as sweepers follow it. A target, a definition to which the notices of another one are passed on (the column
//! `target_of`), inherits from that one.
//!
//! Passing on is left to the sweeper, the insert to the stores ([`crate::store::Settle::pass_to`]).

use std::collections::{HashMap, HashSet};

use super::{ColumnValue, NotifyDef, Policy, Problem};
use crate::built_in::is_built_in;

/// The columns that a target does not inherit. `encrypt_param` is obeyed by each insert, which reads only the row itself.
const OWN: [&str; 5] = ["name", "schedule", "target_of", "target_filter", "encrypt_param"];

/// A row as sweepers follow it: a target with what it inherits, any other row as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InForce {
    /// The row. A target inherits as long as the row of its definition exists, also where it is no valid target.
    pub row: NotifyDef,
    /// Why the row is no valid target, or no valid definition of targets, if it is none. Then its notices wait.
    pub problem: Option<Problem>,
    /// The definition whose row exists, and whose notices are passed on to this one unless it is deleted.
    of: Option<i64>,
}

impl InForce {
    /// Parses every column, or returns every invalid one.
    ///
    /// # Errors
    /// The problems.
    pub fn policy(&self) -> Result<Policy, Vec<Problem>> {
        match &self.problem {
            None => self.row.policy(),
            Some(problem) => {
                let others = self.row.policy().err().unwrap_or_default();
                Err(others.into_iter().chain([problem.clone()]).collect())
            }
        }
    }

    /// Returns the definition whose notices are passed on to this one, if there is such a definition. A target that is not valid gets them,
    /// too, and they wait there: no edit makes a definition send to its own receiver what is for its targets. A deleted target gets none.
    pub fn parent(&self) -> Option<i64> {
        self.of.filter(|_| self.row.delete_time.is_none())
    }
}

/// Returns the rows as sweepers follow them. A target has its parent's value in each column in which its own value is the default:
/// its parent's description, handler, intervals, limits, alerts and so on. So an edit of the parent holds for its targets, too.
pub fn in_force(rows: Vec<NotifyDef>) -> Vec<InForce> {
    if rows.iter().all(|row| row.target_of.is_none()) {
        return rows.into_iter().map(|row| InForce { row, problem: None, of: None }).collect();
    }
    let by_id: HashMap<i64, &NotifyDef> = rows.iter().map(|row| (row.id, row)).collect();
    let parents: HashSet<i64> = rows.iter().filter_map(NotifyDef::passed_from).collect();
    let follow = |row: &NotifyDef| match row.target_of {
        None => InForce { row: row.clone(), problem: None, of: None },
        Some(of) => row.followed(of, by_id.get(&of).copied(), parents.contains(&row.id)),
    };
    rows.iter().map(follow).collect()
}

/// Returns the names of the targets among the stored rows that follow the definition `seen`, and would change if it were `new`.
pub(crate) fn inheriting(rows: &[NotifyDef], seen: &NotifyDef, new: &NotifyDef) -> Vec<String> {
    let (before, after) = ([seen.clone()], [NotifyDef { id: seen.id, ..new.clone() }]);
    let targets = rows.iter().filter(|row| row.target_of == Some(seen.id) && row.delete_time.is_none());
    let changes = targets.filter(|target| target.among(&before).row != target.among(&after).row);
    changes.map(|target| target.name.clone()).collect()
}

impl NotifyDef {
    /// Returns a target of the definition `parent`: a definition with the name `parent/target` and the defaults. Storing it finds the
    /// parent by that name. What is not set is inherited from the parent. Where it is the first target, the call that stores it returns when
    /// the nodes of other processes follow it: after 6 s.
    ///
    /// ```
    /// use solid_notify_core::NotifyDef;
    /// let erp = NotifyDef::target("order", "erp").handler_config(r#"{"url":"https://erp.example/orders"}"#);
    /// assert_eq!((erp.name.as_str(), erp.target_name()), ("order/erp", Some("erp")));
    /// ```
    pub fn target(parent: impl Into<String>, target: &str) -> Self {
        Self::new(format!("{}/{target}", parent.into())).target_of(0)
    }

    /// Returns the name of a target within its definition: what follows the last slash of its name. `None`: it is no target.
    pub fn target_name(&self) -> Option<&str> {
        self.target_of?;
        let name = self.name.strip_suffix(&format!(" (deleted {})", self.id)).unwrap_or(&self.name);
        Some(name.rsplit_once('/').map_or(name, |(_, target)| target))
    }

    /// Returns this row as sweepers follow it, if these are the stored rows.
    pub(crate) fn among(&self, rows: &[Self]) -> InForce {
        match self.target_of {
            None => InForce { row: self.clone(), problem: None, of: None },
            Some(of) => {
                let has_targets = self.id != 0 && rows.iter().any(|row| row.passed_from() == Some(self.id));
                self.followed(of, self.find_parent(of, rows), has_targets)
            }
        }
    }

    /// Returns the definition of which this one is a target; `None`: it is no target. A target that is not stored yet (`target_of`
    /// is 0) names it.
    pub(crate) fn parent_in<'a>(&self, rows: &'a [Self]) -> Option<Result<&'a Self, Problem>> {
        let of = self.target_of?;
        Some(match self.find_parent(of, rows) {
            Some(parent) => self.relation(of, Some(parent)).map_or(Ok(parent), Err),
            None => Err(self.relation(of, None).unwrap_or_else(|| Problem::new("target_of", of, "a definition"))),
        })
    }

    /// Returns the definition whose notices this row gets, if it names one and is not deleted.
    fn passed_from(&self) -> Option<i64> {
        self.target_of.filter(|_| self.delete_time.is_none())
    }

    fn find_parent<'a>(&self, of: i64, rows: &'a [Self]) -> Option<&'a Self> {
        let named = self.name.rsplit_once('/').map(|(parent, _)| parent);
        rows.iter().find(|row| match of {
            0 => row.delete_time.is_none() && Some(row.name.as_str()) == named,
            of => row.id == of,
        })
    }

    /// Returns this target as it is followed, where this is the row of its definition.
    fn followed(&self, of: i64, parent: Option<&Self>, has_targets: bool) -> InForce {
        let problem = self.relation(of, parent).or_else(|| {
            // Its notices wait, so that no circle of targets passes notices on without end.
            has_targets.then(|| Problem::new("target_of", of, "null, because this definition has targets itself"))
        });
        // A built-in definition has no targets, whatever a row says: its notices are work of the library.
        let parent = parent.filter(|parent| !is_built_in(&parent.name) && parent.id != self.id);
        let row = parent.map_or_else(|| self.clone(), |parent| self.inheriting(parent));
        InForce { row, problem, of: parent.map(|parent| parent.id) }
    }

    /// Returns why this row is no valid target of that one, if it is none.
    fn relation(&self, of: i64, parent: Option<&Self>) -> Option<Problem> {
        let wrong = |expected: &str| Some(Problem::new("target_of", of, expected));
        match (parent, of) {
            (None, 0) => wrong("a target whose name is that of its definition, a slash, and its own: `order/erp`"),
            (None, _) => wrong("the id of a definition"),
            (Some(parent), _) if parent.target_of.is_some() => wrong("a definition that is no target itself"),
            (Some(parent), _) if is_built_in(&parent.name) => wrong("a definition that is not built in"),
            (Some(parent), _) if self.encrypt_param && !parent.encrypt_param => {
                let expected = "false, or true also for the definition that it is a target of, which stores plaintext";
                Some(Problem::new("encrypt_param", true, expected))
            }
            (Some(_), _) => None,
        }
    }

    fn inheriting(&self, parent: &Self) -> Self {
        let defaults = Self::plain(self.name.as_str()).values();
        let columns = Self::COLUMNS.iter().zip(defaults);
        let inherited = |((column, default), (own, parents)): ((&&str, ColumnValue), (ColumnValue, ColumnValue))| {
            if own == default && !OWN.contains(column) { parents } else { own }
        };
        let values = columns.zip(self.values().into_iter().zip(parent.values())).map(inherited).collect();
        let mut row = Self::from_values(self.id, values).unwrap_or_else(|| self.clone());
        row.handler.get_or_insert_with(|| parent.handler_name().to_owned());
        (row.create_time, row.update_time, row.delete_time) = (self.create_time, self.update_time, self.delete_time);
        row
    }
}

#[cfg(test)]
#[path = "in_force_tests.rs"]
mod tests;
