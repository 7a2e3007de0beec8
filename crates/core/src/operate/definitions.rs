//! What a person does to definitions: looks at their versions, sees beforehand what an edit does, edits, rolls back.

use std::time::Duration;

use super::Lane;
use super::edit_preview::{EditPreview, InFlight, preview};
use super::explain::Surroundings;
use super::listing::Counted;
use super::operator::Operator;
use crate::add::nearest_name;
use crate::definition::{DefVersion, NotifyDef, for_people};
use crate::error::{Error, Result};
use crate::notice::Status;
use crate::outbox::{Updated, validate};
use crate::store::Edit;

/// A definition, by its name or its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefRef {
    /// By its id.
    Id(i64),
    /// By its name.
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

impl From<String> for DefRef {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl From<&NotifyDef> for DefRef {
    fn from(def: &NotifyDef) -> Self {
        Self::Id(def.id)
    }
}

/// The most versions that are shown.
const VERSIONS: usize = 1000;
/// How many waiting retries a preview looks at; how many where that takes longer than [`PATIENCE`].
const LOOKED_AT: [usize; 2] = [1_000_000, 10_000];
/// How long a preview counts before it is content with less.
const PATIENCE: Duration = Duration::from_secs(5);

impl Operator {
    /// The row of a definition as it stands: what an edit begins with.
    ///
    /// # Errors
    /// [`Error::UnknownDefinition`], [`Error::Invalid`] for an id that there is not; those of the store.
    pub async fn definition(&self, definition: impl Into<DefRef>) -> Result<NotifyDef> {
        let mut all = self.outbox.store().definitions().await?;
        let (found, missing) = match definition.into() {
            DefRef::Id(id) => {
                let problem = format!("there is none with the id {id}");
                (all.iter().position(|def| def.id == id), Error::Invalid { what: "definition", problem })
            }
            DefRef::Name(name) => {
                let nearest = nearest_name(&name, all.iter().map(|def| def.name.as_str()));
                (all.iter().position(|def| def.name == name), Error::UnknownDefinition { name, nearest })
            }
        };
        found.map(|at| all.swap_remove(at)).ok_or(missing)
    }

    /// The versions of a definition, the latest first, at most 1,000: who made it what, and when. By its id also that of one
    /// whose row is gone.
    ///
    /// # Errors
    /// As [`Self::definition`].
    pub async fn versions(&self, definition: impl Into<DefRef>) -> Result<Vec<DefVersion>> {
        let id = match definition.into() {
            DefRef::Id(id) => id,
            name @ DefRef::Name(_) => self.definition(name).await?.id,
        };
        // One more, to tell what the last one changed.
        let stored = self.operate().versions(id, i64::MAX, VERSIONS + 1).await?;
        let mut shown = for_people(&stored);
        shown.truncate(VERSIONS);
        Ok(shown)
    }

    /// What replacing the row `seen` by `new` would do to the notices in flight. Changes nothing.
    ///
    /// Up to a million waiting retries are looked at; what there is beyond, or takes longer than 5 s, makes the numbers lower
    /// bounds ([`EditPreview::retries`] says so).
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] names every column of `new` that cannot work; those of the store.
    pub async fn preview_edit(&self, seen: &NotifyDef, new: &NotifyDef) -> Result<EditPreview> {
        validate(new)?;
        let mut in_flight = InFlight::default();
        let [all, fewer] = LOOKED_AT;
        let (retries, looked_at) = match tokio::time::timeout(PATIENCE, self.operate().retries(seen.id, all)).await {
            Ok(retries) => (retries?, all),
            Err(_) => (self.operate().retries(seen.id, fewer).await?, fewer),
        };
        let count: u64 = retries.iter().map(|group| group.count).sum();
        (in_flight.retries, in_flight.more) = (retries, count >= looked_at as u64);
        for (status, counted) in [
            (Status::NotSent, &mut in_flight.not_sent),
            (Status::Sending, &mut in_flight.sending),
            (Status::AwaitingConfirm, &mut in_flight.awaiting),
        ] {
            let found = self.operate().count(&Lane::of(seen.id, status), Counted::BOUND + 1).await?;
            *counted = Counted { count: found.min(Counted::BOUND) as u64, more: found > Counted::BOUND };
        }
        let nodes = self.operate().nodes(Surroundings::ALIVE).await?;
        in_flight.handlers = nodes.seen.into_iter().flat_map(|node| node.handlers).collect();
        Ok(preview(seen, new, &in_flight))
    }

    /// Replaces a definition, as [`crate::Outbox::update`] does, in this person's name. It is in force on every node within 5 s;
    /// retries that wait keep their times ([`Self::retime`] gives them new ones).
    ///
    /// # Errors
    /// As [`crate::Outbox::update`].
    pub async fn edit_definition(&self, seen: &NotifyDef, new: NotifyDef) -> Result<Updated> {
        validate(&new)?;
        self.carry_out(Edit::Replace { seen: seen.clone(), new }).await
    }

    /// Deletes a definition, as [`crate::Outbox::delete`] does, in this person's name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn delete_definition(&self, seen: &NotifyDef) -> Result<Updated> {
        self.carry_out(Edit::Delete { seen: seen.clone() }).await
    }

    /// Makes a definition what a version of it was, if the row still is what the editor saw. Columns that did not exist then stay
    /// as they are. It is a new version, and an edit like any other: [`Self::preview_edit`] shows what it would do.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there is no such version, or where it cannot be read or is that of a deleted row;
    /// [`Error::InvalidDefinition`] names every column that cannot work any more; those of the store.
    pub async fn roll_back(&self, seen: &NotifyDef, version: i64) -> Result<Updated> {
        let new = self.at_version(seen, version).await?;
        self.carry_out(Edit::RollBack { seen: seen.clone(), new, version }).await
    }

    /// What [`Self::roll_back`] would make of the row: for [`Self::preview_edit`].
    ///
    /// # Errors
    /// As [`Self::roll_back`].
    pub async fn at_version(&self, seen: &NotifyDef, version: i64) -> Result<NotifyDef> {
        let wrong = |problem: String| Error::Invalid { what: "roll back", problem };
        let stored = self.operate().versions(seen.id, version, 1).await?;
        let Some(stored) = stored.into_iter().find(|stored| stored.version == version) else {
            return Err(wrong(format!("the definition {:?} has no version {version}", seen.name)));
        };
        if stored.row().map_err(wrong)?.delete_time.is_some() {
            return Err(wrong(format!("in version {version} the definition {:?} was deleted", seen.name)));
        }
        let new = stored.onto(seen).map_err(wrong)?;
        validate(&new)?;
        Ok(new)
    }

    async fn carry_out(&self, edit: Edit) -> Result<Updated> {
        Ok(self.outbox.edit(edit, &self.who).await?.into())
    }
}
