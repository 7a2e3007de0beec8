//! Compares the version of the tables, their objects and the next ids with what the migrations make.

use solid_notify_core::finding::Finding;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::migrate::{self, newest};
use crate::restore::ids::Behind;
use crate::restore::{self, Compared, Object, Sort};

/// Returns whether there are tables, and what is wrong with them.
pub(super) async fn examine<DB: Dialect>(on: &Share<DB>) -> (bool, Vec<Finding>) {
    let (version, migrations) = match stored(on).await {
        Ok(version) => (version, migrations::<DB>(version)),
        Err(error) => (0, Finding::unknown("migrations", error.to_string())),
    };
    let mut findings = vec![migrations];
    if version > 0 {
        findings.extend(lost(on, version).await);
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
    let newest = newest::<DB>();
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

/// Judges what a restore can lose: indexes, the other objects, and the next ids.
async fn lost<DB: Dialect>(on: &Share<DB>, version: i64) -> Vec<Finding> {
    // A newer release may have other objects; it keeps the indexes.
    let known = version <= newest::<DB>();
    let mut findings = Vec::new();
    let mut conn = match on.get().await {
        Ok(conn) => conn,
        Err(error) => return vec![Finding::unknown("indexes", error.to_string())],
    };
    match restore::compare::<DB>(&mut conn, version).await {
        Ok(Compared { lost, hidden }) => {
            let (indexes, others): (Vec<_>, Vec<_>) = lost.iter().partition(|object| object.sort == Sort::Index);
            findings.push(judged(
                "indexes",
                &indexes,
                "missing or invalid",
                "statements read whole tables; without a unique one dedupe and ordering keys do not hold",
            ));
            findings.extend(known.then(|| {
                let meaning = "plain SQL cannot add or ack notices, or a view for people and reports fails";
                match others.is_empty() && !hidden.is_empty() {
                    true => Finding::unknown("objects", format!("this account may not see {}", names(&hidden))),
                    false => judged("objects", &others, "missing, different or not readable", meaning),
                }
            }));
        }
        Err(error) => findings.push(Finding::unknown("indexes", error.to_string())),
    }
    findings.push(match restore::ids::behind::<DB>(&mut conn).await {
        Ok(behind) => ids(&behind),
        Err(error) => Finding::unknown("ids", error.to_string()),
    });
    conn.done();
    findings
}

fn judged(check: &'static str, lost: &[&Object], how: &str, meaning: &'static str) -> Finding {
    match lost.is_empty() {
        true => Finding::fine(check, "all are there"),
        false => Finding::problem(check, format!("{how}: {}", names(lost)), meaning, "solid-notify migrate"),
    }
}

fn names(objects: &[impl ToString]) -> String {
    objects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn ids(behind: &[Behind]) -> Finding {
    let of =
        |behind: &Behind| format!("the next id of {} is {}, and {} was given", behind.table, behind.next, behind.last);
    match behind.is_empty() {
        true => Finding::fine("ids", "none is given twice"),
        false => Finding::problem(
            "ids",
            behind.iter().map(of).collect::<Vec<_>>().join("; "),
            "a notice with the id of an ended one replaces it; definitions and audit entries cannot be inserted",
            "solid-notify migrate",
        ),
    }
}
