//! An operator's work on definitions: list versions, preview an edit, edit, roll back.

use std::time::Duration;

use super::edit_preview::{EditPreview, InFlight, preview};
use super::listing::Counted;
use super::operator::Operator;
use crate::add::nearest_name;
use crate::definition::{DefVersion, NotifyDef, for_people, inheriting};
use crate::engine::followed_among;
use crate::error::{Error, FaultKind, Result, StoreError};
use crate::notice::Status;
use crate::outbox::Updated;
use crate::store::{Edit, QueueSlice};
use crate::typed::Definition;

/// A reference to a definition, by its name or its id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DefRef {
    /// The id of the definition.
    Id(i64),
    /// The name of the definition.
    Name(String),
}

impl From<i64> for DefRef {
    fn from(id: i64) -> Self {
        Self::Id(id)
    }
}

impl From<&str> for DefRef {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<&String> for DefRef {
    fn from(name: &String) -> Self {
        Self::Name(name.clone())
    }
}

impl From<String> for DefRef {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl<T> From<Definition<T>> for DefRef {
    fn from(definition: Definition<T>) -> Self {
        Self::Name(definition.into())
    }
}

impl From<&NotifyDef> for DefRef {
    fn from(def: &NotifyDef) -> Self {
        Self::Id(def.id)
    }
}

/// The maximum number of versions returned.
const VERSIONS: usize = 1000;
/// How many waiting retries a preview reads; the second number applies if the first takes longer than [`PATIENCE`].
const LOOKED_AT: [usize; 2] = [1_000_000, 10_000];
/// How long a preview counts before it tries the smaller number.
const PATIENCE: Duration = Duration::from_secs(5);

impl Operator {
    /// Returns the present row of a definition, with which an edit begins.
    ///
    /// # Errors
    /// [`Error::UnknownDefinition`]; those of the store.
    pub async fn definition(&self, definition: impl Into<DefRef>) -> Result<NotifyDef> {
        let mut all = self.outbox.engine().stores().definitions.definitions().await?;
        let (found, missing) = match definition.into() {
            DefRef::Id(id) => {
                let name = format!("id {id}");
                (all.iter().position(|def| def.id == id), Error::UnknownDefinition { name, nearest: None })
            }
            DefRef::Name(name) => {
                let nearest = nearest_name(&name, all.iter().map(|def| def.name.as_str()));
                (all.iter().position(|def| def.name == name), Error::UnknownDefinition { name, nearest })
            }
        };
        found.map(|at| all.swap_remove(at)).ok_or(missing)
    }

    /// Returns the targets of a definition, by name: the rows that are not deleted.
    ///
    /// # Errors
    /// As [`Self::definition`].
    pub async fn targets(&self, definition: impl Into<DefRef>) -> Result<Vec<NotifyDef>> {
        let of = self.definition(definition).await?.id;
        let mut targets = self.stores().definitions.definitions().await?;
        targets.retain(|row| row.target_of == Some(of) && row.delete_time.is_none());
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(targets)
    }

    /// Returns the versions of a definition, the latest first, at most 1,000, with author and time. With an id it also finds
    /// the versions of a definition whose row is gone.
    ///
    /// # Errors
    /// As [`Self::definition`].
    pub async fn versions(&self, definition: impl Into<DefRef>) -> Result<Vec<DefVersion>> {
        let id = match definition.into() {
            DefRef::Id(id) => id,
            name @ DefRef::Name(_) => self.definition(name).await?.id,
        };
        // One more, from which the changes of the last one are computed.
        let stored = self.stores().definitions.versions(id, i64::MAX, VERSIONS + 1).await?;
        let mut shown = for_people(&stored);
        shown.truncate(VERSIONS);
        Ok(shown)
    }

    /// Returns what replacing the row `seen` by `new` would do to the live notices. Changes nothing.
    ///
    /// It reads up to a million waiting retries. If there are more, or if that takes longer than 5 s, the numbers are lower
    /// bounds ([`EditPreview::retries`] shows that), and so they are for an account that may not read notices.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] names every column of `new` that cannot work; those of the store.
    pub async fn preview_edit(&self, seen: &NotifyDef, new: &NotifyDef) -> Result<EditPreview> {
        let rows = self.stores().definitions.definitions().await?;
        self.outbox.engine().checked_among(NotifyDef { id: seen.id, ..new.clone() }, &rows)?;
        self.preview_among(seen, new, &rows, &rows).await
    }

    /// The same without a check, of a row that is `new` among the rows `after`.
    pub(super) async fn preview_among(
        &self,
        seen: &NotifyDef,
        new: &NotifyDef,
        rows: &[NotifyDef],
        after: &[NotifyDef],
    ) -> Result<EditPreview> {
        let changes = seen.differences(new);
        // The row may be invalid, which the edit corrects.
        let seen = &followed_among(seen, rows).unwrap_or_else(|_| seen.clone());
        let new = &followed_among(new, after)?;
        let mut in_flight = InFlight::default();
        let [all, fewer] = LOOKED_AT;
        // An account that may edit rows and not read notices learns nothing of these: then each number is a lower bound.
        let is_refused = |error: &StoreError| error.kind == FaultKind::Unusable;
        let retries = match tokio::time::timeout(PATIENCE, self.stores().browse.retries(seen.id, all)).await {
            Ok(retries) => retries.map(|retries| (retries, all)),
            Err(_) => self.stores().browse.retries(seen.id, fewer).await.map(|retries| (retries, fewer)),
        };
        let (retries, looked_at) = match retries {
            Err(error) if is_refused(&error) => (Vec::new(), 0),
            retries => retries?,
        };
        let count: u64 = retries.iter().map(|group| group.count).sum();
        (in_flight.retries, in_flight.more) = (retries, count >= looked_at as u64);
        for (status, counted) in [
            (Status::NotSent, &mut in_flight.not_sent),
            (Status::Sending, &mut in_flight.sending),
            (Status::AwaitingAck, &mut in_flight.awaiting_ack),
        ] {
            *counted = match self.stores().browse.count(&QueueSlice::of(seen.id, status), Counted::BOUND + 1).await {
                Err(error) if is_refused(&error) => Counted { count: 0, more: true },
                found => {
                    let found = found?;
                    Counted { count: found.min(Counted::BOUND) as u64, more: found > Counted::BOUND }
                }
            };
        }
        let nodes = self.nodes().await?;
        in_flight.handlers = nodes.into_iter().flat_map(|node| node.handlers).collect();
        Ok(EditPreview { changes, inherited_by: inheriting(rows, seen, new), ..preview(seen, new, &in_flight) })
    }

    /// Creates a definition in this operator's name: its first version and the audit have it. If there is one of this name already,
    /// nothing is changed and the result is [`Updated::Conflict`] with that row.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] names every column that cannot work; those of the store.
    pub async fn create_definition(&self, def: NotifyDef) -> Result<Updated> {
        let def = self.outbox.engine().checked(def).await?;
        self.carry_out(Edit::Create(def)).await
    }

    /// Replaces a definition, as [`crate::AnyOutbox::update`] does, in this operator's name. It takes effect on every node within
    /// 5 s; waiting retries keep their times ([`Self::retime`] gives them new ones).
    ///
    /// # Errors
    /// As [`crate::AnyOutbox::update`].
    pub async fn edit_definition(&self, seen: &NotifyDef, new: NotifyDef) -> Result<Updated> {
        let new = self.outbox.engine().checked(new).await?;
        self.carry_out(Edit::Replace { seen: seen.clone(), new }).await
    }

    /// Deletes a definition, as [`crate::AnyOutbox::delete`] does, in this operator's name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn delete_definition(&self, seen: &NotifyDef) -> Result<Updated> {
        self.carry_out(Edit::Delete { seen: seen.clone() }).await
    }

    /// Restores a definition to one of its versions, if the row still equals `seen`. Columns that did not exist in that version
    /// keep their values. The result is a new version, and an edit like any other: [`Self::preview_edit`] shows its effect.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such version, or if it cannot be parsed or is that of a deleted row;
    /// [`Error::InvalidDefinition`] names every column that is no longer valid; those of the store.
    pub async fn roll_back(&self, seen: &NotifyDef, version: i64) -> Result<Updated> {
        let new = self.at_version(seen, version).await?;
        self.carry_out(Edit::RollBack { seen: seen.clone(), new, version }).await
    }

    /// Returns the row that [`Self::roll_back`] would store: for [`Self::preview_edit`].
    ///
    /// # Errors
    /// As [`Self::roll_back`].
    pub async fn at_version(&self, seen: &NotifyDef, version: i64) -> Result<NotifyDef> {
        let wrong = |problem: String| Error::Invalid { what: "roll back", problem };
        let stored = self.stores().definitions.versions(seen.id, version, 1).await?;
        let Some(stored) = stored.into_iter().find(|stored| stored.version == version) else {
            return Err(wrong(format!("the definition {:?} has no version {version}", seen.name)));
        };
        if stored.row().map_err(wrong)?.delete_time.is_some() {
            return Err(wrong(format!("in version {version} the definition {:?} was deleted", seen.name)));
        }
        let new = stored.onto(seen).map_err(wrong)?;
        self.outbox.engine().checked(new).await
    }

    /// Closes the circuit of a definition, over all nodes: its failures in a row count from zero again. A node that waits for the
    /// circuit claims within its poll interval. Returns false if it was not open.
    ///
    /// # Errors
    /// [`crate::Error::UnknownDefinition`]; those of the store.
    pub async fn close_circuit(&self, definition: impl Into<DefRef>) -> Result<bool> {
        let def_id = self.definition(definition).await?.id;
        let closed = self.stores().operate.close_circuit(def_id, &self.who).await?;
        if closed {
            self.outbox.wake();
        }
        Ok(closed)
    }

    async fn carry_out(&self, edit: Edit) -> Result<Updated> {
        Ok(self.outbox.edit(edit, &self.who).await?.into())
    }
}
