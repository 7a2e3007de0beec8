//! What operators add: the notice of a bulk act, whose progress is stored while it is being sent, and a test. The steps of an act are
//! those of [`super::verbs`].

use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{AuditEntry, Authority};
use solid_notify_core::test_mark::TEST_TAG;

use crate::audit::write_entry;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::statement::{Arg, Statement, statements};
use crate::own;

statements! {
    ActStatements:
    note_progress,
}

impl ActStatements {
    fn new(kind: Kind) -> Self {
        let note_progress = format!(
            "UPDATE notify_msg SET param = {} WHERE id = $2 AND fence = $3 AND status + 0 = 5",
            kind.to_json("$4")
        );
        Self { note_progress: Statement::new(kind, &note_progress) }
    }
}

pub(crate) async fn add<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    def_id: i64,
    param: &str,
    authority: &Authority,
) -> sqlx::Result<i64> {
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let id = own::add_with_authority::<DB>(&mut tx, now, def_id, param, authority).await?;
    tx.commit().await?;
    conn.done();
    Ok(id)
}

/// Adds a test of a definition, with its entry in the audit.
pub(crate) async fn add_test<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    def_id: i64,
    param: &str,
    who: &str,
) -> sqlx::Result<i64> {
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let id = own::add::<DB>(&mut tx, now, def_id, param, Some(TEST_TAG)).await?;
    // The statement sets the time.
    let entry = AuditEntry::of_test(time_from_millis(0), who, def_id, id);
    write_entry::<DB>(&mut tx, now, &entry).await?;
    tx.commit().await?;
    conn.done();
    Ok(id)
}

pub(crate) async fn note_progress<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    (id, fence): (i64, i64),
    param: &str,
) -> sqlx::Result<bool> {
    let args = [now, id.into(), fence.into(), param.into()];
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let noted = DB::execute(&mut tx, &ActStatements::of(DB::KIND).note_progress, &args).await?.rows > 0;
    tx.commit().await?;
    conn.done();
    Ok(noted)
}
