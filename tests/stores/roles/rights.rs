//! What each role may do to each column of each table and view, and what none may do to any: an attack by every statement there is. The lists are
//! those of the chapter "Who is trusted with what", so that a right that goes beyond it fails here.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// The tables and views, and what the producer, the sweeper, the editor and the reader may do: `r` read, `i` insert, `u` update, `d` delete; `I`
/// and `U` only the columns of [`columns`].
const RIGHTS: [(&str, [&str; 4]); 18] = [
    ("notify_alert", ["", "riud", "", "r"]),
    ("notify_audit", ["", "ri", "I", "r"]),
    ("notify_authority", ["", "riud", "", "r"]),
    ("notify_count", ["", "riud", "", "r"]),
    ("notify_def", ["r", "riud", "rIU", "r"]),
    ("notify_def_version", ["", "riud", "ri", "r"]),
    ("notify_done", ["", "r", "", "r"]),
    ("notify_error", ["", "r", "", "r"]),
    ("notify_inbox", ["ri", "riud", "", "r"]),
    ("notify_limit", ["", "riud", "", "r"]),
    ("notify_msg", ["rIU", "riud", "", "r"]),
    ("notify_msg_history", ["", "riud", "", "r"]),
    ("notify_node", ["", "riud", "r", "r"]),
    ("notify_passing", ["", "riud", "", "r"]),
    ("notify_pending", ["", "r", "", "r"]),
    ("notify_schema", ["", "r", "r", "r"]),
    ("notify_series", ["", "riud", "", "r"]),
    ("notify_switch", ["", "riud", "r", "r"]),
];

const ROLES: [&str; 4] = ["producer", "sweeper", "editor", "reader"];

/// The columns of a table that a role may insert (`I`) or update (`U`), of `all`.
fn columns(table: &str, right: char, all: &BTreeSet<String>, is_postgres: bool) -> BTreeSet<String> {
    let listed = |list: &str| list.split_whitespace().map(str::to_owned).collect();
    match (table, right) {
        ("notify_msg", 'I') => listed(
            "def_id param description trace_context ordering_key dedupe_key dedupe_until_ended tag max_tries expires_at create_time next_call_time",
        ),
        // For a lock of the row that has a dedupe key.
        ("notify_msg", _) if is_postgres => listed("trace_context"),
        ("notify_msg", _) => BTreeSet::new(),
        // On MySQL a column of their own for each is no protection: a session chooses the next id by `insert_id`.
        ("notify_def", _) if !is_postgres => all.clone(),
        _ => all.iter().filter(|column| *column != "id").cloned().collect(),
    }
}

/// Returns whether an account may do that. A panic: it fails for another reason.
async fn may<DB: Dialect>(outbox: &Outbox<DB>, sql: &str) -> bool
where
    for<'c> &'c Pool<DB>: Executor<'c, Database = DB>,
{
    match outbox.pool().execute(AssertSqlSafe(sql.to_owned())).await {
        Ok(_) => true,
        Err(error) if is_denial(&error) || error.to_string().contains("do not have the SUPER privilege") => false,
        // Rights are judged before the value of a generated column, and before one that is missing.
        Err(error) if ["generated", "have a default value"].iter().any(|why| error.to_string().contains(why)) => true,
        Err(error) => panic!("{sql}: {error}"),
    }
}

pub(super) async fn each_role_may_do_to_each_column_what_the_book_says<D: Accounts>()
where
    for<'c> &'c Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let is_postgres = <D::Db as sqlx::Database>::NAME == "PostgreSQL";
    let mut roles = Roles::<D>::create().await;
    let tables = D::columns(&roles.db).await;
    let known: BTreeMap<&str, _> = RIGHTS.into_iter().collect();
    assert_eq!(tables.keys().map(String::as_str).collect::<Vec<_>>(), known.keys().copied().collect::<Vec<_>>());
    for (at, role) in ROLES.into_iter().enumerate() {
        let outbox = roles.outbox(role).await;
        for (table, all) in &tables {
            let rights = known[table.as_str()][at];
            let has = |right| rights.contains(right);
            assert_eq!(
                may(&outbox, &format!("SELECT 1 FROM {table} WHERE 1 = 0")).await,
                has('r'),
                "{role}: read {table}"
            );
            if ["notify_done", "notify_error", "notify_pending"].contains(&table.as_str()) {
                continue;
            }
            let delete = format!("DELETE FROM {table} WHERE 1 = 0");
            assert_eq!(may(&outbox, &delete).await, has('d'), "{role}: delete from {table}");
            for (whole, some) in [('i', 'I'), ('u', 'U')] {
                let mut found = BTreeSet::new();
                for column in all {
                    let sql = match some {
                        'I' => format!("INSERT INTO {table} ({column}) SELECT NULL WHERE 1 = 0"),
                        _ => format!("UPDATE {table} SET {column} = {column} WHERE 1 = 0"),
                    };
                    // A statement without FROM has no WHERE on MySQL.
                    let sql =
                        if is_postgres { sql } else { sql.replace("SELECT NULL WHERE", "SELECT NULL FROM DUAL WHERE") };
                    // Where the role may read nothing, a value must not need a column.
                    let sql = if has('r') { sql } else { sql.replace(&format!("= {column} "), "= DEFAULT ") };
                    if may(&outbox, &sql).await {
                        found.insert(column.clone());
                    }
                }
                let expected = match (has(whole), has(some)) {
                    (true, _) => all.clone(),
                    (_, true) => columns(table, some, all, is_postgres),
                    _ => BTreeSet::new(),
                };
                assert_eq!(found, expected, "{role}: {some} {table}");
            }
        }
        denied_to_all::<D>(&outbox, role, is_postgres).await;
    }
    roles.close().await;
}

/// Statements that change the schema, lock whole tables, or act with the rights of others.
async fn denied_to_all<D: Accounts>(outbox: &Outbox<D::Db>, role: &str, is_postgres: bool)
where
    for<'c> &'c Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let mut statements = vec!["CREATE INDEX other ON notify_msg (def_id)".to_owned()];
    for (table, _) in RIGHTS {
        let is_view = ["notify_done", "notify_error", "notify_pending"].contains(&table);
        statements.push(if is_view { format!("DROP VIEW {table}") } else { format!("DROP TABLE {table}") });
        if is_view {
            continue;
        }
        statements.push(format!("TRUNCATE TABLE {table}"));
        statements.push(format!("ALTER TABLE {table} ADD COLUMN other integer"));
        if is_postgres {
            // A sweeper may update each table, and with that lock it.
            if role != "sweeper" {
                statements.push(format!("DO $$ BEGIN LOCK TABLE {table} IN SHARE MODE; END $$"));
                statements.push(format!("DO $$ BEGIN LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; END $$"));
            }
            statements.push(format!(
                "CREATE TRIGGER other BEFORE INSERT ON {table} EXECUTE FUNCTION suppress_redundant_updates_trigger()"
            ));
            statements.push(format!("CREATE RULE other AS ON INSERT TO {table} DO ALSO NOTHING"));
            statements.push(format!("ALTER TABLE {table} DISABLE TRIGGER ALL"));
        } else {
            statements.push(format!("LOCK TABLES {table} WRITE"));
            statements.push(format!("CREATE TRIGGER other BEFORE INSERT ON {table} FOR EACH ROW SET @other = 1"));
        }
    }
    let more: &[&str] = match is_postgres {
        true => &[
            "SELECT nextval('notify_msg_id_seq')",
            "SELECT setval('notify_msg_id_seq', 9223372036854775807)",
            "SELECT setval('notify_def_id_seq', 9223372036854775807)",
            "SELECT setval('notify_audit_id_seq', 9223372036854775807)",
            "CREATE FUNCTION notify_add(text, text) RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
            "CREATE OR REPLACE FUNCTION notify_ack(notice_id bigint) RETURNS text LANGUAGE sql AS $$ SELECT 'applied' $$",
            "ALTER FUNCTION notify_ack(bigint) SECURITY DEFINER",
            "DROP FUNCTION notify_ack(bigint)",
        ],
        false => &[
            "FLUSH TABLES notify_msg WITH READ LOCK",
            "FLUSH TABLES WITH READ LOCK",
            "SET GLOBAL read_only = ON",
            "DROP PROCEDURE notify_ack",
            "CREATE PROCEDURE other() SELECT 1",
            "CREATE TEMPORARY TABLE notify_def (id bigint)",
        ],
    };
    statements.extend(more.iter().map(|sql| (*sql).to_owned()));
    for sql in statements {
        assert!(!may(outbox, &sql).await, "{role} may {sql}");
    }
}
