//! Versions of definitions in the database. The transaction of an edit writes its version; versions of edits by SQL have a
//! transaction of their own. The writer has the row locked, so versions follow each other without a gap.

use solid_notify_core::definition::{BY_HAND, NotifyDef, StoredVersion, by_hand, unseen};
use solid_notify_core::notice::time_from_millis;

use crate::audit::write_entry;
use crate::connections::Share;
use crate::definitions::row::{read_definition, select_definitions};
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, readable, required, required_text};
use crate::dialect::statement::{Arg, Statement, int, statements};

columns! {
    Version(kind: Kind):
    def_id = "v.def_id";
    version = "v.version";
    time = kind.epoch("v.time");
    who = "v.who";
    act = "v.act";
    definition = "v.definition";
}

statements! {
    VersionStatements:
    versions,
    last_versions,
    write_version,
    forget_versions,
    definition_by_id,
    lock_definition_if_free,
}

impl VersionStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        let read = format!("SELECT {} FROM notify_def_version v", Version::list(kind));
        let definition = select_definitions(kind);
        Self {
            versions: statement(format!(
                "{read} WHERE v.def_id = $2 AND v.version <= $3 ORDER BY v.version DESC LIMIT $4"
            )),
            // Read only after a row has changed, and then for all definitions, in one round trip.
            last_versions: statement(format!(
                "{read} JOIN (SELECT def_id, max(version) AS version FROM notify_def_version GROUP BY def_id) AS l
                 ON l.def_id = v.def_id AND l.version = v.version"
            )),
            write_version: statement(format!(
                "INSERT INTO notify_def_version (def_id, version, time, who, act, definition)
                 VALUES ($2, $3, {}, $4, $5, {})",
                kind.now(),
                kind.to_json("$6")
            )),
            forget_versions: statement("DELETE FROM notify_def_version WHERE def_id = $2".into()),
            definition_by_id: statement(format!("{definition} WHERE id = $2")),
            // A sweeper does not wait: the session that has locked the row is about to change it.
            lock_definition_if_free: statement(format!("{definition} WHERE id = $2{}", kind.lock_if_free())),
        }
    }
}

pub(crate) async fn versions<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    def_id: i64,
    up_to: i64,
    limit: usize,
) -> sqlx::Result<Vec<StoredVersion>> {
    let mut conn = on.get().await?;
    let versions = versions_in::<DB>(&mut conn, now, def_id, up_to, limit).await?;
    conn.done();
    Ok(versions)
}

async fn versions_in<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    def_id: i64,
    up_to: i64,
    limit: usize,
) -> sqlx::Result<Vec<StoredVersion>> {
    let args = [now, def_id.into(), up_to.into(), int(limit).into()];
    let rows = DB::fetch(conn, &VersionStatements::of(DB::KIND).versions, &args).await?;
    Ok(readable::<DB, _>(&rows, "version of a definition", read::<DB>))
}

/// Stores a version of a row that this transaction has locked or just inserted, unless the last version is equal: what was done, and
/// why, if that is known.
pub(crate) async fn write_version<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    row: &NotifyDef,
    (act, reason): (&str, Option<&str>),
    who: &str,
) -> sqlx::Result<()> {
    let last = versions_in::<DB>(tx, now, row.id, i64::MAX, 1).await?.pop();
    let Some(version) = StoredVersion::after(last.as_ref(), row, act, who, time_from_millis(0)) else {
        return Ok(());
    };
    let (who, act) = (version.who.as_str(), version.act.as_str());
    let definition = version.definition.as_str();
    let args = [now, version.def_id.into(), version.version.into(), who.into(), act.into(), definition.into()];
    DB::execute(tx, &VersionStatements::of(DB::KIND).write_version, &args).await?;
    match version.audit(last.as_ref(), reason) {
        Some(entry) => write_entry::<DB>(tx, now, &entry).await,
        None => Ok(()),
    }
}

pub(crate) async fn last_versions<DB: Dialect>(on: &Share<DB>, now: Arg<'_>) -> sqlx::Result<Vec<StoredVersion>> {
    let mut conn = on.get().await?;
    let found = DB::fetch(&mut conn, &VersionStatements::of(DB::KIND).last_versions, &[now]).await?;
    conn.done();
    Ok(readable::<DB, _>(&found, "version of a definition", read::<DB>))
}

pub(crate) async fn remember<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    rows: &[NotifyDef],
    seen_by: &str,
) -> sqlx::Result<bool> {
    let mut conn = on.get().await?;
    let found = DB::fetch(&mut conn, &VersionStatements::of(DB::KIND).last_versions, &[now]).await?;
    let last = readable::<DB, _>(&found, "version of a definition", read::<DB>);
    let (mut all, mut failed) = (true, None);
    for def_id in unseen(rows, &last) {
        let mut tx = conn.begin().await?;
        // A version that cannot be stored does not stop the others.
        match remember_one::<DB>(&mut tx, now, def_id, &by_hand(seen_by)).await {
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
async fn remember_one<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    def_id: i64,
    who: &str,
) -> sqlx::Result<bool> {
    let statements = VersionStatements::of(DB::KIND);
    let args: [Arg<'_>; 2] = [now, def_id.into()];
    let row = if DB::fetch(tx, &statements.definition_by_id, &args).await?.is_empty() {
        // A deleted row cannot be locked. If two nodes store the same deletion, the primary key lets one succeed.
        let last = versions_in::<DB>(tx, now, def_id, i64::MAX, 1).await?.pop();
        last.and_then(|last| last.gone(time_from_millis(0)))
    } else {
        let free = DB::fetch(tx, &statements.lock_definition_if_free, &args).await?;
        let Some(row) = free.first() else { return Ok(false) };
        // The row as it is after the lock.
        Some(read_definition::<DB>(row)?)
    };
    if let Some(row) = row {
        write_version::<DB>(tx, now, &row, (BY_HAND, None), who).await?;
    }
    Ok(true)
}

/// Deletes the versions of a deleted definition.
pub(crate) async fn forget<DB: Dialect>(tx: &mut DB::Connection, now: Arg<'_>, def_id: i64) -> sqlx::Result<()> {
    DB::execute(tx, &VersionStatements::of(DB::KIND).forget_versions, &[now, def_id.into()]).await.map(drop)
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<StoredVersion> {
    const AT: Version = Version::AT;
    Ok(StoredVersion {
        def_id: required::<DB>(row, AT.def_id)?,
        version: required::<DB>(row, AT.version)?,
        time: time_from_millis(DB::int(row, AT.time)?.unwrap_or(0)),
        who: required_text::<DB>(row, AT.who)?,
        act: required_text::<DB>(row, AT.act)?,
        definition: required_text::<DB>(row, AT.definition)?,
    })
}
