//! Ids that would be given twice: a table whose next id is not behind all ids that were given.
//!
//! TRUNCATE on MySQL, a sequence that was restarted, and some restores leave that. A new notice with the id of an ended one replaces it, and
//! a new definition or audit entry cannot be inserted.

use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::numbers;
use crate::dialect::statement::Statement;

/// A table whose next id is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Behind {
    pub(crate) table: &'static str,
    /// The id that the next row would get.
    pub(crate) next: i64,
    /// The last id that was given.
    pub(crate) last: i64,
}

/// The tables that number their rows, each with the ids that were given.
const TABLES: [(&str, &str); 3] = [
    (
        "notify_msg",
        "SELECT coalesce(max(id), 0) FROM notify_msg UNION ALL SELECT coalesce(max(id), 0) FROM notify_msg_history",
    ),
    (
        "notify_def",
        "SELECT coalesce(max(id), 0) FROM notify_def UNION ALL SELECT coalesce(max(def_id), 0) FROM notify_def_version",
    ),
    ("notify_audit", "SELECT coalesce(max(id), 0) FROM notify_audit"),
];

/// Returns the tables whose next id is taken. Each look is an index search.
pub(crate) async fn behind<DB: Dialect>(conn: &mut DB::Connection) -> sqlx::Result<Vec<Behind>> {
    let mut behind = Vec::new();
    for (table, given) in TABLES {
        // First what was given: the next id is behind what is given meanwhile.
        let given = DB::fetch(conn, &Statement::new(DB::KIND, given), &[]).await?;
        let last = numbers::<DB>(&given)?.into_iter().max().unwrap_or(0);
        let rows = DB::fetch(conn, &Statement::new(DB::KIND, &next_id(DB::KIND, table)), &[]).await?;
        let Some(row) = rows.first() else { continue };
        let next = match DB::KIND {
            Kind::MySql => next_in(&DB::text(row, 1)?.unwrap_or_default()),
            Kind::Postgres | Kind::Sqlite => DB::int(row, 0)?.unwrap_or(1),
        };
        if next <= last {
            behind.push(Behind { table, next, last });
        }
    }
    Ok(behind)
}

impl Behind {
    /// Moves the next id behind the last one, and never back.
    pub(super) async fn repair<DB: Dialect>(&self, conn: &mut DB::Connection) -> sqlx::Result<()> {
        let Self { table, last, .. } = self;
        let scripts = match DB::KIND {
            Kind::Postgres => vec![format!(
                "SELECT setval('{table}_id_seq', greatest({last}, (SELECT last_value FROM {table}_id_seq)))"
            )],
            // InnoDB takes the greatest id of the table where this is less.
            Kind::MySql => vec![format!("ALTER TABLE {table} AUTO_INCREMENT = {}", last.saturating_add(1))],
            Kind::Sqlite => vec![
                format!("UPDATE sqlite_sequence SET seq = max(seq, {last}) WHERE name = '{table}'"),
                format!(
                    "INSERT INTO sqlite_sequence (name, seq)
                     SELECT '{table}', {last} WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '{table}')"
                ),
            ],
        };
        for script in scripts {
            DB::script(conn, script.into()).await?;
        }
        Ok(())
    }
}

/// Selects the next id of a table. MySQL may show an old one in `information_schema`, so there it is read from the definition of the table.
fn next_id(kind: Kind, table: &str) -> String {
    match kind {
        Kind::Postgres => {
            format!("SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM {table}_id_seq")
        }
        Kind::MySql => format!("SHOW CREATE TABLE {table}"),
        Kind::Sqlite => format!(
            "SELECT 1 + max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0),
                            coalesce((SELECT max(id) FROM {table}), 0))"
        ),
    }
}

/// Returns the next id in the definition of a table of MySQL. It is absent where it is 1.
fn next_in(definition: &str) -> i64 {
    let (_, rest) = definition.rsplit_once(" AUTO_INCREMENT=").unwrap_or(("", ""));
    rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_id_is_read_from_the_definition_of_a_table() {
        assert_eq!(
            next_in(
                "CREATE TABLE `t` (\n  `id` bigint AUTO_INCREMENT\n) ENGINE=InnoDB AUTO_INCREMENT=8 DEFAULT CHARSET=utf8mb4"
            ),
            8
        );
        assert_eq!(
            next_in("CREATE TABLE `t` (\n  `id` bigint AUTO_INCREMENT\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"),
            1
        );
    }
}
