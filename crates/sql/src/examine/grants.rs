//! Compares the rights of the roles with the script that gives them. A restore, and an object that was created again, can leave a role
//! without a right that it had.
//!
//! It only reports, because an administrator gives rights. A role that has no right in this database serves another one, or the database has
//! accounts of its own.

use std::collections::{BTreeMap, BTreeSet};

use solid_notify_core::finding::Finding;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::statement::Statement;

/// The rights of a role to an object, in lower case. A right to some columns counts as one to the object.
type Rights = BTreeMap<(String, String), BTreeSet<String>>;

/// `None`: there are no roles, or this account may not read the rights of others.
pub(super) async fn examine<DB: Dialect>(on: &Share<DB>) -> Option<Finding> {
    let (script, sql) = (DB::ROLES?, granted(DB::KIND)?);
    let rows = on.rows(&Statement::new(DB::KIND, sql), &[]).await.ok()?;
    let mut given = Rights::new();
    for row in &rows {
        let text = |column| DB::text(row, column).ok().flatten().unwrap_or_default().to_lowercase();
        let rights = text(2);
        let rights = rights.split(',').map(|right| right.trim().to_owned()).filter(|right| !right.is_empty());
        given.entry((text(0), text(1))).or_default().extend(rights);
    }
    let missing = missing(&wanted(script), &given);
    Some(match missing.is_empty() {
        true => Finding::fine("grants", "the roles have their rights"),
        false => Finding::warning(
            "grants",
            format!("missing: {}", missing.join("; ")),
            "what an account with this role does fails",
            "an administrator runs the statements of `solid-notify schema postgres --roles`, or of `schema mysql --roles`",
        ),
    })
}

/// Selects role, object, and the names of rights.
fn granted(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Postgres => Some(
            "SELECT r.rolname::text, c.relname::text, concat_ws(',',
                    CASE WHEN has_any_column_privilege(r.oid, c.oid, 'SELECT') THEN 'select' END,
                    CASE WHEN has_any_column_privilege(r.oid, c.oid, 'INSERT') THEN 'insert' END,
                    CASE WHEN has_any_column_privilege(r.oid, c.oid, 'UPDATE') THEN 'update' END,
                    CASE WHEN has_table_privilege(r.oid, c.oid, 'DELETE') THEN 'delete' END)
             FROM pg_roles r, pg_class c
             WHERE r.rolname IN ('notify_producer', 'notify_sweeper', 'notify_editor', 'notify_reader')
               AND c.relkind IN ('r', 'p', 'v') AND c.relname LIKE 'notify%' AND pg_table_is_visible(c.oid)",
        ),
        Kind::MySql => Some(
            "SELECT user, table_name, concat(table_priv, ',', column_priv) FROM mysql.tables_priv WHERE db = database()
             UNION ALL SELECT user, routine_name, proc_priv FROM mysql.procs_priv WHERE db = database()",
        ),
        Kind::Sqlite => None,
    }
}

/// Returns the rights that a script of roles gives to tables, views and procedures.
fn wanted(script: &str) -> Rights {
    let code: Vec<&str> = script.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let mut wanted = Rights::new();
    for statement in code.join(" ").split(';') {
        let Some((rights, rest)) = statement.trim().strip_prefix("GRANT ").and_then(|rest| rest.split_once(" ON "))
        else {
            continue;
        };
        let Some((objects, roles)) = rest.split_once(" TO ") else { continue };
        let objects = objects.trim();
        if objects.starts_with(['*', '%']) || objects.starts_with("SEQUENCE ") || objects.starts_with("SCHEMA ") {
            continue;
        }
        let list = |text: &str| text.split(',').map(|word| word.trim().to_lowercase()).collect::<Vec<_>>();
        let rights = list(&without_columns(rights));
        for object in list(objects.strip_prefix("PROCEDURE ").unwrap_or(objects)) {
            for role in list(roles) {
                wanted.entry((role, object.clone())).or_default().extend(rights.iter().cloned());
            }
        }
    }
    wanted
}

/// Removes the lists of columns behind rights.
fn without_columns(rights: &str) -> String {
    let mut depth = 0;
    let mut is_outside = |c: char| {
        depth += i32::from(c == '(');
        let is_outside = depth == 0;
        depth -= i32::from(c == ')');
        is_outside
    };
    rights.chars().filter(|c| is_outside(*c)).collect()
}

fn missing(wanted: &Rights, given: &Rights) -> Vec<String> {
    let in_use: BTreeSet<&str> =
        given.iter().filter(|(_, rights)| !rights.is_empty()).map(|((role, _), _)| role.as_str()).collect();
    let none = BTreeSet::new();
    let of = |(of, rights): (&(String, String), &BTreeSet<String>)| {
        let given = given.get(of).unwrap_or(&none);
        let missing: Vec<String> = rights.difference(given).map(|right| right.to_uppercase()).collect();
        let (role, object) = of;
        (!missing.is_empty()).then(|| format!("{role}: {} on {object}", missing.join(", ")))
    };
    wanted.iter().filter(|((role, _), _)| in_use.contains(role.as_str())).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(of: &[(&str, &str, &str)]) -> Rights {
        let rights = |text: &str| text.split(',').filter(|right| !right.is_empty()).map(str::to_owned).collect();
        of.iter().map(|(role, object, text)| (((*role).to_owned(), (*object).to_owned()), rights(text))).collect()
    }

    #[test]
    fn rights_of_a_script_are_read_with_columns_and_lists() {
        let script = "-- GRANT x ON y TO z;\nGRANT SELECT,\n    INSERT (a, b)\n    ON notify_msg TO notify_producer;\n\
            GRANT SELECT ON notify_a, notify_b TO\n  notify_reader;\nGRANT EXECUTE ON PROCEDURE notify_add TO notify_producer;\n\
            GRANT CREATE ON * TO notify_owner;\nGRANT SELECT ON SEQUENCE notify_s TO notify_reader;";
        let expected = rights(&[
            ("notify_producer", "notify_add", "execute"),
            ("notify_producer", "notify_msg", "insert,select"),
            ("notify_reader", "notify_a", "select"),
            ("notify_reader", "notify_b", "select"),
        ]);
        assert_eq!(wanted(script), expected);
    }

    #[test]
    fn missing_right_of_a_role_in_use_is_named() {
        let wanted = rights(&[("a", "t", "select,insert"), ("a", "p", "execute"), ("b", "t", "select")]);
        let given = rights(&[("a", "t", "select"), ("b", "t", "")]);
        assert_eq!(missing(&wanted, &given), ["a: EXECUTE on p", "a: INSERT on t"]);
    }
}
