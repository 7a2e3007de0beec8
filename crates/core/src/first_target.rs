//! The first target of a definition. From then on nothing of the definition is sent to its own receiver, on any node. So the call that stores it returns
//! when every node follows it.
//!
//! A node claims nothing by rows that it read longer ago than [`ROWS_HOLD`], so waiting is enough, and no claim and no add reads a row
//! for this.

use std::time::Duration;

use crate::definition::NotifyDef;
use crate::engine::Engine;
use crate::error::Result;
use crate::outbox::AnyOutbox;
use crate::store::{Edit, Edited, NODE_RUNS, ROWS_HOLD};

/// Until every node follows a row that is stored now. A second more than [`ROWS_HOLD`], which begins when a reading ends.
const FOLLOWED: Duration = Duration::from_secs(ROWS_HOLD.as_secs() + 1);

/// Returns the row of a stored edit if it makes a target of it.
pub(crate) fn new_target(edit: &Edit, edited: &Edited) -> Option<NotifyDef> {
    let Edited::Stored(row) = edited else { return None };
    let before = match edit {
        Edit::Create(_) => None,
        Edit::Replace { seen, .. } | Edit::RollBack { seen, .. } | Edit::Pause { seen, .. } => seen.target_of,
        Edit::Delete { .. } => return None,
    };
    (row.target_of.is_some() && row.target_of != before).then(|| row.clone())
}

impl AnyOutbox {
    /// Stores an edit. Where it creates the first target of a definition, it returns when every node follows it.
    pub(crate) async fn edit(&self, edit: Edit, who: &str) -> Result<Edited> {
        let edited = self.store_edit(&edit, who).await?;
        self.engine().until_followed(new_target(&edit, &edited).as_slice()).await?;
        Ok(edited)
    }
}

impl Engine {
    /// Waits until the nodes of other processes follow these new targets, if one of them is the first of its definition.
    pub(crate) async fn until_followed(&self, targets: &[NotifyDef]) -> Result<()> {
        if targets.is_empty() {
            return Ok(());
        }
        let rows = self.stores().definitions.definitions().await?;
        let had_targets = |parent| {
            let is_other = |row: &NotifyDef| row.delete_time.is_none() && targets.iter().all(|new| new.id != row.id);
            rows.iter().any(|row| row.target_of == parent && is_other(row))
        };
        if targets.iter().all(|new| had_targets(new.target_of)) {
            return Ok(());
        }
        let nodes = self.stores().browse.nodes(NODE_RUNS).await?;
        // Those of this process have been woken, and claim nothing before they have read the rows.
        if nodes.iter().any(|node| !self.is_own_node(&node.id)) {
            tokio::time::sleep(FOLLOWED).await;
        }
        Ok(())
    }
}
