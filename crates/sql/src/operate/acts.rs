//! What operators add: the notice of a bulk act, whose progress is stored while it is being sent, and a test. The steps of an act are
//! those of [`super::verbs`].

use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::AuditEntry;
use solid_notify_core::test_mark::TEST_TAG;

use crate::audit::write_entry;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::required;
use crate::dialect::statement::{Arg, Statement, statements};

statements! {
    ActStatements:
    add_act,
    note_progress,
}

impl ActStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        // MySQL reports the new id by itself.
        let returning = if kind.update_returns() { " RETURNING id" } else { "" };
        Self {
            add_act: statement(format!(
                "INSERT INTO notify_msg (def_id, param, tag, create_time, next_call_time)
                 VALUES ($2, {}, $4, {now}, {now}){returning}",
                kind.to_json("$3")
            )),
            note_progress: statement(format!(
                "UPDATE notify_msg SET param = {} WHERE id = $2 AND fence = $3 AND status + 0 = 5",
                kind.to_json("$4")
            )),
        }
    }
}

pub(crate) async fn add<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, def_id: i64, param: &str) -> sqlx::Result<i64> {
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let id = insert::<DB>(&mut tx, now, def_id, param, None).await?;
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
    let id = insert::<DB>(&mut tx, now, def_id, param, Some(TEST_TAG)).await?;
    // The statement sets the time.
    let entry = AuditEntry::of_test(time_from_millis(0), who, def_id, id);
    write_entry::<DB>(&mut tx, now, &entry).await?;
    tx.commit().await?;
    conn.done();
    Ok(id)
}

/// Inserts a notice that is due at once. Returns its id.
async fn insert<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    def_id: i64,
    param: &str,
    tag: Option<&str>,
) -> sqlx::Result<i64> {
    let statement = &ActStatements::of(DB::KIND).add_act;
    let args = [now, def_id.into(), param.into(), Arg::Text(tag)];
    if DB::KIND.update_returns() {
        let rows = DB::fetch(tx, statement, &args).await?;
        return required::<DB>(rows.first().ok_or(sqlx::Error::RowNotFound)?, 0);
    }
    Ok(DB::execute(tx, statement, &args).await?.last_id)
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
