//! [`Definitions`]: all definitions of an application as one value, which is compared with the table and applied to it.
//!
//! Reading them from a file is left to `from_toml.rs`, comparing and applying to [`crate::operate`].

use std::collections::BTreeSet;

use super::NotifyDef;
use crate::error::{Error, Result};

/// The definitions of an application: valid rows with different names, in their order. From a TOML file (`from_toml`, feature
/// `toml`) or from code ([`Self::of`]). [`crate::AnyOutbox::plan_all`] compares them with the stored rows,
/// [`crate::AnyOutbox::apply`] stores them.
///
/// ```
/// use solid_notify_core::NotifyDef;
/// use solid_notify_core::definition::Definitions;
///
/// # async fn example(outbox: solid_notify_core::AnyOutbox) -> solid_notify_core::Result<()> {
/// let payment = NotifyDef::new("payment").timeout("10s");
/// let definitions = Definitions::of([payment, NotifyDef::new("data_sync").retry_interval("exp(5s, max 1h)")])?;
/// println!("{}", outbox.plan_all(&definitions).await?);
/// println!("{}", outbox.apply(definitions).await?);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definitions {
    rows: Vec<NotifyDef>,
    deletes_missing: bool,
}

impl Definitions {
    /// Returns these rows as definitions. Rows that were deleted are left out, so the rows of [`crate::AnyOutbox::definitions`] can be
    /// applied to another table, or again to the same.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] for the first row with a wrong column, [`Error::Invalid`] for a name that two rows have.
    pub fn of(rows: impl IntoIterator<Item = NotifyDef>) -> Result<Self> {
        let living = rows.into_iter().filter(|row| row.delete_time.is_none());
        // The id and the times are those of one table.
        let of_file = |row| NotifyDef { id: 0, create_time: None, update_time: None, ..row };
        let (rows, mut names) = (living.map(of_file).collect::<Vec<_>>(), BTreeSet::new());
        for row in &rows {
            row.policy().map_err(|problems| Error::InvalidDefinition { name: row.name.clone(), problems })?;
            if !names.insert(&row.name) {
                let problem = format!("two of them have the name {:?}", row.name);
                return Err(Error::Invalid { what: "definitions", problem });
            }
        }
        Ok(Self::checked(rows))
    }

    /// Returns rows that are known to be valid and to have different names.
    pub(super) fn checked(rows: Vec<NotifyDef>) -> Self {
        Self { rows, deletes_missing: false }
    }

    /// Deletes stored definitions that are not listed, too. Built-in definitions (`notify.alert`, `notify.purge`,
    /// `notify.dead_letters`) are never deleted so. Without this call nothing is deleted.
    ///
    /// [`crate::AnyOutbox::plan_all`] and [`crate::AnyOutbox::apply`] refuse an empty list with this option, because an empty file
    /// is a mistake more often than a wish to delete everything.
    #[must_use]
    pub fn delete_missing(mut self) -> Self {
        self.deletes_missing = true;
        self
    }

    /// Returns the rows, in the order of the file.
    pub fn rows(&self) -> &[NotifyDef] {
        &self.rows
    }

    /// Returns whether [`Self::delete_missing`] was called.
    pub(crate) fn deletes_missing(&self) -> bool {
        self.deletes_missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_valid_rows_and_each_name_once() {
        let rows = [NotifyDef::new("b"), NotifyDef::new("a").timeout("1s")];
        assert_eq!(Definitions::of(rows.clone()).unwrap().rows(), rows);
        let twice = Definitions::of([NotifyDef::new("a"), NotifyDef::new("a").timeout("1s")]).unwrap_err();
        assert_eq!(twice.to_string(), "definitions: two of them have the name \"a\"");
        let wrong = Definitions::of([NotifyDef::new("a"), NotifyDef::new("b").timeout("soon")]).unwrap_err();
        assert!(matches!(&wrong, Error::InvalidDefinition { name, .. } if name == "b"), "{wrong}");
    }
}
