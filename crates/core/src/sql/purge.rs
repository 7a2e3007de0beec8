//! Deleting what is no longer kept, a small window at a time. What that is was decided by the caller.

use super::connections::Purpose;
use super::dialect::Dialect;
use super::limits;
use super::read::required;
use super::run::Arg;
use super::store::{SqlStore, int};
use crate::notice::duration_millis;
use crate::store::Purge;

impl<DB: Dialect> SqlStore<DB> {
    pub(super) async fn try_purge(&self, purge: &Purge) -> sqlx::Result<Vec<i64>> {
        let statements = DB::statements();
        let mut conn = self.connections.get(Purpose::Work).await?;
        let ids = match purge {
            Purge::Definition { def_id, older_than } => {
                let args = [self.now(), (*def_id).into(), duration_millis(*older_than).into()];
                let mut tx = conn.begin().await?;
                let purged = DB::execute(&mut tx, &statements.purge_definition, &args).await?.rows > 0;
                if purged {
                    limits::forget::<DB>(&mut tx, self.now(), *def_id).await?;
                    DB::execute(&mut tx, &statements.counts.forget_count, &args[..2]).await?;
                    DB::execute(&mut tx, &statements.versions.forget_versions, &args[..2]).await?;
                }
                tx.commit().await?;
                if purged { vec![*def_id] } else { Vec::new() }
            }
            Purge::History { def_id, status, older_than, limit } => {
                let age = duration_millis(*older_than);
                let args = [self.now(), (*def_id).into(), status.code().into(), age.into(), int(*limit).into()];
                let rows = DB::fetch(&mut conn, &statements.purgeable, &args).await?;
                let ids = rows.iter().map(|row| required::<DB>(row, 0)).collect::<sqlx::Result<Vec<i64>>>()?;
                if !ids.is_empty() {
                    let args = [self.now(), Arg::Ids(&ids), status.code().into(), age.into()];
                    DB::execute(&mut conn, &statements.purge, &args).await?;
                }
                ids
            }
        };
        conn.done();
        Ok(ids)
    }
}
