//! What a dump and its restore can lose beside rows: objects of the schema, and the next ids. Finds it, and repairs what can be repaired
//! without a decision.
//!
//! Rights are not among it: an administrator gives them, by the script of the roles.

pub(crate) mod ids;
mod objects;

use std::collections::{BTreeSet, HashMap};

use crate::dialect::kind::Kind;
use crate::dialect::statement::Statement;
use crate::dialect::{Dialect, Presence};
use crate::restore::ids::Behind;
use crate::restore::objects::objects;
pub(crate) use crate::restore::objects::{Object, Sort};

/// What a restore has lost.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Objects that are missing, or that differ from those of this release.
    pub(crate) objects: Vec<Object>,
    /// Tables whose next id is taken.
    pub(crate) ids: Vec<Behind>,
}

impl Lost {
    pub(crate) fn is_nothing(&self) -> bool {
        self.objects.is_empty() && self.ids.is_empty()
    }
}

/// Compares the schema with that of the migrations up to `version`, which the tables have.
pub(crate) async fn find<DB: Dialect>(conn: &mut DB::Connection, version: i64) -> sqlx::Result<Lost> {
    Ok(Lost { objects: compare::<DB>(conn, version).await?.lost, ids: ids::behind::<DB>(conn).await? })
}

/// What became of the objects.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Those that are missing, that differ, or that do not work.
    pub(crate) lost: Vec<Object>,
    /// Those that this account may not see.
    pub(crate) hidden: Vec<Object>,
}

/// Compares the objects with those of the migrations up to `version`.
pub(crate) async fn compare<DB: Dialect>(conn: &mut DB::Connection, version: i64) -> sqlx::Result<Compared> {
    let mut stored = HashMap::new();
    for (sort, sql) in catalogue(DB::KIND) {
        for row in &DB::fetch(conn, &Statement::new(DB::KIND, sql), &[]).await? {
            let text = |column| DB::text(row, column).map(Option::unwrap_or_default);
            stored.insert((*sort, text(0)?), text(1)?);
        }
    }
    let mut compared = Compared::default();
    for object in objects(DB::MIGRATIONS, version) {
        match stored.get(&(object.sort, object.name.clone())) {
            Some(text) if is_same(DB::KIND, &object, text) && works::<DB>(conn, &object).await? => {}
            Some(_) => compared.lost.push(object),
            None => match unlisted::<DB>(conn, &object).await? {
                Presence::There => {}
                Presence::Missing => compared.lost.push(object),
                Presence::Hidden => compared.hidden.push(object),
            },
        }
    }
    Ok(compared)
}

/// Looks for an object that the catalogue does not list. The catalogues of MySQL and MariaDB leave out procedures that the account may not
/// execute, and that of MySQL also those that it may execute by a role. A call without arguments executes nothing.
async fn unlisted<DB: Dialect>(conn: &mut DB::Connection, object: &Object) -> sqlx::Result<Presence> {
    if object.sort != Sort::Procedure {
        return Ok(Presence::Missing);
    }
    match DB::script(conn, format!("CALL {object}()").into()).await {
        Err(sqlx::Error::Database(error)) => Ok(DB::presence(error.as_ref())),
        Err(error) => Err(error),
        Ok(_) => Ok(Presence::There),
    }
}

/// Creates lost objects again, by the whole script of their migration, which may run again; and moves the next ids behind those that are
/// taken.
pub(crate) async fn repair<DB: Dialect>(conn: &mut DB::Connection, lost: &Lost) -> sqlx::Result<()> {
    for index in lost.objects.iter().filter(|object| object.sort == Sort::Index) {
        if DB::KIND != Kind::MySql {
            // One that is invalid or different.
            DB::script(conn, format!("DROP INDEX IF EXISTS {index}").into()).await?;
        }
        DB::script(conn, index.create.clone().into()).await?;
    }
    let others = lost.objects.iter().filter(|object| object.sort != Sort::Index);
    let versions: BTreeSet<i64> = others.map(|object| object.version).collect();
    for (.., script) in DB::MIGRATIONS.iter().filter(|(version, ..)| versions.contains(version)) {
        DB::script(conn, without_delimiters(script)).await?;
    }
    for behind in &lost.ids {
        behind.repair::<DB>(conn).await?;
    }
    for object in &lost.objects {
        tracing::warn!(kind = object.sort.as_str(), name = object.name, "created again what was missing or different");
    }
    for Behind { table, next, last } in &lost.ids {
        tracing::warn!(table, next, last, "moved the next id behind the last one: ids would have been given twice");
    }
    if DB::ROLES.is_some() && !versions.is_empty() {
        tracing::warn!(
            "new objects may lack the rights of roles: run the script of `solid-notify schema … --roles` again"
        );
    }
    Ok(())
}

/// Removes the DELIMITER lines. MySQL's clients need them where a procedure's body has semicolons, and the server does not know
/// them.
pub(crate) fn without_delimiters(sql: &'static str) -> std::borrow::Cow<'static, str> {
    if !sql.contains("\nDELIMITER //\n") {
        return std::borrow::Cow::Borrowed(sql);
    }
    let lines = sql.lines().filter(|line| !line.starts_with("DELIMITER "));
    lines.map(|line| if line == "//" { ";" } else { line }).collect::<Vec<_>>().join("\n").into()
}

/// The statements that select the objects of a kind, each with its name and, where the catalogue keeps it, its text.
fn catalogue(kind: Kind) -> &'static [(Sort, &'static str)] {
    match kind {
        // A function without its search path would use the tables of the caller's, so it has no text here.
        Kind::Postgres => &[
            (
                Sort::Function,
                "SELECT p.proname || '(' || oidvectortypes(p.proargtypes) || ')',
                        CASE WHEN p.proconfig @> ARRAY['search_path=' || quote_ident(n.nspname) || ', pg_temp'] THEN p.prosrc END
                 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                 WHERE n.oid = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = to_regclass('notify_schema'))
                   AND p.proname IN ('notify_add', 'notify_ack')",
            ),
            (
                Sort::View,
                "SELECT c.relname::text, ''::text FROM pg_class c
                 WHERE c.relkind = 'v' AND c.relname LIKE 'notify%' AND pg_table_is_visible(c.oid)",
            ),
            (
                Sort::Index,
                "SELECT c.relname::text, ''::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                 WHERE i.indisvalid AND i.indisready AND pg_table_is_visible(i.indrelid)",
            ),
        ],
        Kind::MySql => &[
            (
                Sort::Procedure,
                "SELECT routine_name, coalesce(routine_definition, '') FROM information_schema.routines
                 WHERE routine_schema = database() AND routine_name LIKE 'notify%'",
            ),
            (
                Sort::View,
                "SELECT table_name, '' FROM information_schema.tables
                 WHERE table_schema = database() AND table_type = 'VIEW' AND table_name LIKE 'notify%'",
            ),
            (
                Sort::Index,
                "SELECT DISTINCT index_name, '' FROM information_schema.statistics WHERE table_schema = database()",
            ),
        ],
        Kind::Sqlite => &[
            (Sort::View, "SELECT name, sql FROM sqlite_schema WHERE type = 'view'"),
            (Sort::Trigger, "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"),
            (Sort::Index, "SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE type = 'index'"),
        ],
    }
}

/// Compares an object with the text that the catalogue has of it. The servers keep views and indexes in a form of their own.
fn is_same(kind: Kind, object: &Object, stored: &str) -> bool {
    match (kind, object.sort) {
        (Kind::Postgres, Sort::Function) => {
            let body = object.create.split_once("$$").and_then(|(_, rest)| rest.rsplit_once("$$"));
            body.is_some_and(|(body, _)| body.trim() == stored.trim())
        }
        // Without the right to read it there is no text.
        (Kind::MySql, Sort::Procedure) => {
            stored.is_empty()
                || [["/*M!", "/*!80000"], ["/*!80000", "/*M!"]]
                    .iter()
                    .any(|of_server| bare(&object.create, of_server).ends_with(&bare(stored, of_server)))
        }
        (Kind::Sqlite, _) => words(&object.create) == words(stored),
        _ => true,
    }
}

/// The body of a procedure as a server keeps it: without comments, and with the text of those comments that it executes.
fn bare(body: &str, [executed, ignored]: &[&str; 2]) -> String {
    let mut text = String::new();
    for line in body.lines() {
        let mut rest = line.split_once("-- ").map_or(line, |(code, _)| code);
        while let Some((before, comment)) = rest.split_once("/*") {
            let (inside, after) = comment.split_once("*/").unwrap_or((comment, ""));
            text.push_str(before);
            let is_ignored = inside.starts_with(ignored.trim_start_matches("/*"));
            text.push_str(inside.strip_prefix(executed.trim_start_matches("/*")).filter(|_| !is_ignored).unwrap_or(""));
            rest = after;
        }
        text.push_str(rest);
        text.push('\n');
    }
    words(&text)
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns false for a view that exists and cannot be read: MySQL keeps views of accounts that were dropped.
async fn works<DB: Dialect>(conn: &mut DB::Connection, object: &Object) -> sqlx::Result<bool> {
    if DB::KIND != Kind::MySql || object.sort != Sort::View {
        return Ok(true);
    }
    let read = DB::fetch(conn, &Statement::new(DB::KIND, &format!("SELECT id FROM {object} LIMIT 0")), &[]).await;
    // The general state of an invalid view and of a missing account. A missing right has another one.
    match read {
        Err(sqlx::Error::Database(error)) if error.code().is_some_and(|state| state == "HY000") => Ok(false),
        Err(error) if error.as_database_error().is_none() => Err(error),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn procedure(create: &str) -> Object {
        Object { sort: Sort::Procedure, name: "notify_p".to_owned(), create: create.to_owned(), version: 1 }
    }

    #[test]
    fn procedure_is_the_same_as_each_server_keeps_it() {
        let object = procedure(
            "CREATE PROCEDURE notify_p(IN a int)\nBEGIN\n    -- Why.\n    SELECT 1 COLLATE /*M! nopad */ /*!80000 bin */;\nEND",
        );
        for (stored, is_it) in [
            ("BEGIN\n    \n    SELECT 1 COLLATE  nopad  ;\nEND", true),
            ("BEGIN\n    \n    SELECT 1 COLLATE /*M! nopad */  bin ;\nEND", true),
            ("", true),
            ("BEGIN\n    SELECT 2 COLLATE  nopad  ;\nEND", false),
        ] {
            assert_eq!(is_same(Kind::MySql, &object, stored), is_it, "{stored}");
        }
    }
}
