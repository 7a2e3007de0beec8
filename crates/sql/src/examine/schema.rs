//! Compares the tables and indexes with those of the migrations.

use std::collections::BTreeSet;

use solid_notify_core::finding::Finding;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::statement::Statement;
use crate::examine::statements::catalogue;
use crate::migrate;

/// Returns whether there are tables, and what is wrong with them.
pub(super) async fn examine<DB: Dialect>(on: &Share<DB>) -> (bool, Vec<Finding>) {
    let (version, migrations) = match stored(on).await {
        Ok(version) => (version, migrations::<DB>(version)),
        Err(error) => (0, Finding::unknown("migrations", error.to_string())),
    };
    let mut findings = vec![migrations];
    if version > 0 {
        findings.push(indexes(on).await.unwrap_or_else(|error| Finding::unknown("indexes", error.to_string())));
    }
    (version > 0, findings)
}

async fn stored<DB: Dialect>(on: &Share<DB>) -> sqlx::Result<i64> {
    let mut conn = on.get().await?;
    let version = migrate::stored_version::<DB>(&mut conn).await?;
    conn.done();
    Ok(version)
}

fn migrations<DB: Dialect>(stored: i64) -> Finding {
    let newest = DB::MIGRATIONS.iter().map(|(version, ..)| *version).max().unwrap_or(0);
    match stored.cmp(&newest) {
        std::cmp::Ordering::Equal => Finding::fine("migrations", format!("the tables have version {stored}")),
        std::cmp::Ordering::Less => Finding::problem(
            "migrations",
            format!("the tables have version {stored}, this release needs {newest}"),
            "statements of this release fail on older tables",
            "solid-notify migrate",
        ),
        std::cmp::Ordering::Greater => Finding::warning(
            "migrations",
            format!("the tables have version {stored}, this release knows {newest}"),
            "a newer release has migrated them; this program is older",
            "update this program",
        ),
    }
}

async fn indexes<DB: Dialect>(on: &Share<DB>) -> sqlx::Result<Finding> {
    let rows = on.rows(&Statement::new(DB::KIND, catalogue(DB::KIND)), &[]).await?;
    let mut missing = expected(DB::MIGRATIONS.iter().map(|(_, _, sql)| *sql));
    for row in &rows {
        missing.remove(DB::text(row, 0)?.unwrap_or_default().as_str());
    }
    if missing.is_empty() {
        return Ok(Finding::fine("indexes", "all are there"));
    }
    Ok(Finding::problem(
        "indexes",
        format!("missing or invalid: {}", Vec::from_iter(missing).join(", ")),
        "statements read whole tables; without a unique one dedupe and ordering keys do not hold",
        "solid-notify schema prints the statements that create them",
    ))
}

/// Returns the names of the indexes that these scripts create: by CREATE INDEX, or as KEY or INDEX in CREATE TABLE.
fn expected<'s>(scripts: impl Iterator<Item = &'s str>) -> BTreeSet<&'s str> {
    let name = |line: &'s str| {
        let mut words = line.split([' ', '(']).filter(|word| !word.is_empty());
        let mut word = words.next()?;
        let created = word == "CREATE";
        if created {
            word = words.next()?;
        }
        if word == "UNIQUE" {
            word = words.next()?;
        }
        let is_index = word == "INDEX" || (word == "KEY" && !created);
        words.next().filter(|name| is_index && name.starts_with("notify_"))
    };
    scripts.flat_map(str::lines).filter_map(|line| name(line.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_found_in_both_forms() {
        let script = "CREATE TABLE notify_a (\n  id int PRIMARY KEY,\n  KEY notify_a_x (x),\n  UNIQUE KEY notify_a_y (y),\n  keyed int);
            CREATE UNIQUE INDEX notify_b_z\n ON notify_b (z);\nCREATE INDEX notify_b_w ON notify_b(w);\n-- INDEX notify_c\n";
        let found: Vec<&str> = expected([script].into_iter()).into_iter().collect();
        assert_eq!(found, ["notify_a_x", "notify_a_y", "notify_b_w", "notify_b_z"]);
    }
}
