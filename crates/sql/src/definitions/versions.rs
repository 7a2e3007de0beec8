//! Versions of definitions in the database. The transaction of an edit writes its version; versions of edits by SQL have a
//! transaction of their own. The writer has the row locked, so versions follow each other without a gap.

use solid_notify_core::definition::{BY_HAND, NotifyDef, StoredVersion, by_hand, unseen};
use solid_notify_core::notice::time_from_millis;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::row::{readable, required, required_text};
use crate::dialect::statement::Arg;
use crate::operate::write_entry;
use crate::store::{SqlStore, int};

impl<DB: Dialect> SqlStore<DB> {
    pub(crate) async fn try_versions(
        &self,
        on: &Share<DB>,
        def_id: i64,
        up_to: i64,
        limit: usize,
    ) -> sqlx::Result<Vec<StoredVersion>> {
        let mut conn = on.get().await?;
        let versions = self.versions_in(&mut conn, def_id, up_to, limit).await?;
        conn.done();
        Ok(versions)
    }

    async fn versions_in(
        &self,
        conn: &mut DB::Connection,
        def_id: i64,
        up_to: i64,
        limit: usize,
    ) -> sqlx::Result<Vec<StoredVersion>> {
        let args = [self.now(), def_id.into(), up_to.into(), int(limit).into()];
        let rows = DB::fetch(conn, &DB::statements().versions.versions, &args).await?;
        Ok(readable::<DB, _>(&rows, "version of a definition", read::<DB>))
    }

    /// Stores a version of a row that this transaction has locked or just inserted, unless the last version is equal.
    pub(crate) async fn write_version(
        &self,
        tx: &mut DB::Connection,
        row: &NotifyDef,
        act: &str,
        who: &str,
    ) -> sqlx::Result<()> {
        let last = self.versions_in(tx, row.id, i64::MAX, 1).await?.pop();
        let Some(version) = StoredVersion::after(last.as_ref(), row, act, who, time_from_millis(0)) else {
            return Ok(());
        };
        let (who, act) = (version.who.as_str(), version.act.as_str());
        let definition = version.definition.as_str();
        let args =
            [self.now(), version.def_id.into(), version.version.into(), who.into(), act.into(), definition.into()];
        DB::execute(tx, &DB::statements().versions.write_version, &args).await?;
        match version.audit(last.as_ref()) {
            Some(entry) => write_entry::<DB>(tx, self.now(), &entry).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn try_last_versions(&self, on: &Share<DB>) -> sqlx::Result<Vec<StoredVersion>> {
        let mut conn = on.get().await?;
        let found = DB::fetch(&mut conn, &DB::statements().versions.last_versions, &[self.now()]).await?;
        conn.done();
        Ok(readable::<DB, _>(&found, "version of a definition", read::<DB>))
    }

    pub(crate) async fn try_remember(&self, on: &Share<DB>, rows: &[NotifyDef], seen_by: &str) -> sqlx::Result<bool> {
        let mut conn = on.get().await?;
        let found = DB::fetch(&mut conn, &DB::statements().versions.last_versions, &[self.now()]).await?;
        let last = readable::<DB, _>(&found, "version of a definition", read::<DB>);
        let (mut all, mut failed) = (true, None);
        for def_id in unseen(rows, &last) {
            let mut tx = conn.begin().await?;
            // A version that cannot be stored does not stop the others.
            match self.remember_one(&mut tx, def_id, &by_hand(seen_by)).await {
                Ok(kept) => {
                    all &= kept;
                    tx.commit().await?;
                }
                Err(error) => {
                    tx.rollback().await?;
                    failed = failed.or(Some(error));
                }
            }
        }
        conn.done();
        failed.map_or(Ok(all), Err)
    }

    /// Returns false where another session has locked the row.
    async fn remember_one(&self, tx: &mut DB::Connection, def_id: i64, who: &str) -> sqlx::Result<bool> {
        let statements = &DB::statements().versions;
        let args: [Arg<'_>; 2] = [self.now(), def_id.into()];
        let row = if DB::fetch(tx, &statements.definition_by_id, &args).await?.is_empty() {
            // A deleted row cannot be locked. If two nodes store the same deletion, the primary key lets one succeed.
            let last = self.versions_in(tx, def_id, i64::MAX, 1).await?.pop();
            last.and_then(|last| last.gone(time_from_millis(0)))
        } else {
            let free = DB::fetch(tx, &statements.lock_definition_if_free, &args).await?;
            let Some(row) = free.first() else { return Ok(false) };
            // The row as it is after the lock.
            Some(crate::definitions::read::<DB>(row)?)
        };
        if let Some(row) = row {
            self.write_version(tx, &row, BY_HAND, who).await?;
        }
        Ok(true)
    }
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<StoredVersion> {
    Ok(StoredVersion {
        def_id: required::<DB>(row, 0)?,
        version: required::<DB>(row, 1)?,
        time: time_from_millis(DB::int(row, 2)?.unwrap_or(0)),
        who: required_text::<DB>(row, 3)?,
        act: required_text::<DB>(row, 4)?,
        definition: required_text::<DB>(row, 5)?,
    })
}
