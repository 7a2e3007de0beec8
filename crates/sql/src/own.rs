//! Notices that the library itself adds, due at once, and what lets those of built-in definitions act: a row of `notify_authority`, in
//! the same transaction. [`solid_notify_core::store::Authority`] says why.

use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::Authority;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, numbers, one_number, required, required_text};
use crate::dialect::statement::{Arg, Statement, statements};

columns! {
    Stored():
    who = "a.who";
    act = "a.act";
    detail = "a.detail";
}

statements! {
    OwnStatements:
    add_own,
    write_authority,
    read_authority,
    use_authority,
    is_ended,
    old_authorities,
    forget_authorities,
}

impl OwnStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        // MySQL reports the new id by itself.
        let returning = if kind.update_returns() { " RETURNING id" } else { "" };
        Self {
            add_own: statement(format!(
                "INSERT INTO notify_msg (def_id, param, tag, create_time, next_call_time)
                 VALUES ($2, {}, $4, {now}, {now}){returning}",
                kind.to_json("$3")
            )),
            write_authority: statement(
                "INSERT INTO notify_authority (notice_id, def_id, who, act, detail) VALUES ($2, $3, $4, $5, $6)".into(),
            ),
            // On MySQL a producer can choose an id for its session. The id of an ended notice of the history is refused, and that of one
            // that has left nothing has a fence that was used.
            use_authority: statement(
                "UPDATE notify_authority SET fence = $4 WHERE notice_id = $2 AND def_id = $3 AND fence < $4".into(),
            ),
            // A statement of its own: within the update, MySQL would lock what it reads.
            is_ended: statement("SELECT count(*) FROM notify_msg_history WHERE id = $2".into()),
            read_authority: statement(format!(
                "SELECT {} FROM notify_authority a WHERE a.notice_id = $2",
                Stored::list()
            )),
            old_authorities: statement(orphans("notify_authority a", "a")),
            forget_authorities: statement(format!(
                "DELETE FROM notify_authority WHERE {}",
                kind.listed("notice_id", "$2")
            )),
        }
    }
}

/// Inserts a notice that is due at once. Returns its id.
pub(crate) async fn add<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    def_id: i64,
    param: &str,
    tag: Option<&str>,
) -> sqlx::Result<i64> {
    let statement = &OwnStatements::of(DB::KIND).add_own;
    let args = [now, def_id.into(), param.into(), Arg::Text(tag)];
    if DB::KIND.update_returns() {
        let rows = DB::fetch(tx, statement, &args).await?;
        return required::<DB>(rows.first().ok_or(sqlx::Error::RowNotFound)?, 0);
    }
    Ok(DB::execute(tx, statement, &args).await?.last_id)
}

/// Inserts a notice of a built-in definition, with its authority. Returns its id.
pub(crate) async fn add_with_authority<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    def_id: i64,
    param: &str,
    authority: &Authority,
) -> sqlx::Result<i64> {
    let id = add::<DB>(tx, now, def_id, param, None).await?;
    let Authority { who, act, detail } = authority;
    let args = [now, id.into(), def_id.into(), who.as_str().into(), act.as_str().into(), Arg::Text(detail.as_deref())];
    DB::execute(tx, &OwnStatements::of(DB::KIND).write_authority, &args).await?;
    Ok(id)
}

pub(crate) async fn authority<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, id: i64) -> sqlx::Result<Option<Authority>> {
    const AT: Stored = Stored::AT;
    let rows = on.rows(&OwnStatements::of(DB::KIND).read_authority, &[now, id.into()]).await?;
    let read = |row| {
        let [who, act] = [AT.who, AT.act].map(|at| required_text::<DB>(row, at));
        Ok(Authority { who: who?, act: act?, detail: DB::text(row, AT.detail)? })
    };
    rows.first().map(read).transpose()
}

/// Returns the authority under which a claim acts, once.
pub(crate) async fn use_authority<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    claimed: &ClaimedNotice,
) -> sqlx::Result<Option<Authority>> {
    let args = [now, claimed.id.into(), claimed.def_id.into(), claimed.fence.into()];
    let statements = OwnStatements::of(DB::KIND);
    let mut conn = on.get().await?;
    let is_ended = one_number::<DB>(&DB::fetch(&mut conn, &statements.is_ended, &args[..2]).await?)?;
    let used = is_ended == Some(0) && DB::execute(&mut conn, &statements.use_authority, &args).await?.rows > 0;
    conn.done();
    if used { authority(on, now, claimed.id).await } else { Ok(None) }
}

/// Deletes at most `limit` authorities whose notices are gone. Returns how many.
pub(crate) async fn purge<DB: Dialect>(conn: &mut DB::Connection, now: Arg<'_>, limit: i64) -> sqlx::Result<usize> {
    let OwnStatements { old_authorities, forget_authorities, .. } = OwnStatements::of(DB::KIND);
    forget::<DB>(conn, now, [old_authorities, forget_authorities], limit).await
}

/// Selects at most `$2` rows of a table whose notices are gone, live and ended.
///
/// Counts, because a join of whole tables would be planned instead of two look-ups. Both conditions by one snapshot, so a notice that is just moved
/// to history has its row in one of them. One that is in neither never comes back.
pub(crate) fn orphans(table: &str, row: &str) -> String {
    format!(
        "SELECT {row}.notice_id FROM {table}
                 WHERE (SELECT count(*) FROM notify_msg m WHERE m.id = {row}.notice_id) = 0
                 AND (SELECT count(*) FROM notify_msg_history h WHERE h.id = {row}.notice_id) = 0
                 LIMIT $2"
    )
}

/// Deletes the rows that [`orphans`] finds. Returns how many.
pub(crate) async fn forget<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    [old, forget]: [&Statement; 2],
    limit: i64,
) -> sqlx::Result<usize> {
    let old = numbers::<DB>(&DB::fetch(conn, old, &[now, limit.into()]).await?)?;
    if !old.is_empty() {
        DB::execute(conn, forget, &[now, Arg::Ids(&old)]).await?;
    }
    Ok(old.len())
}
