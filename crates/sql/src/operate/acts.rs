//! Bulk acts: adding the notice of one, and storing its progress while it is being sent. Their steps are those of [`super::verbs`].

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
                "INSERT INTO notify_msg (def_id, param, create_time, next_call_time)
                 VALUES ($2, {}, {now}, {now}){returning}",
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
    let statement = &ActStatements::of(DB::KIND).add_act;
    let args = [now, def_id.into(), param.into()];
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let id = if DB::KIND.update_returns() {
        let rows = DB::fetch(&mut tx, statement, &args).await?;
        required::<DB>(rows.first().ok_or(sqlx::Error::RowNotFound)?, 0)?
    } else {
        DB::execute(&mut tx, statement, &args).await?.last_id
    };
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
