//! The tests that a run selects. A run without the tests that it was asked for would pass, so [`check`] lists them first and fails.
//!
//! The path of a test names each server or program that it needs: a component is the name, or ends with `_` and the name
//! (`keys::postgres::case`, `on_mysql::case`). [`with_deselected_skipped`] filters by these components.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use test_servers::selection::{Database, Selection};

/// Returns the arguments of `cargo test` with a filter for each deselected database.
pub(crate) fn with_deselected_skipped(selection: &Selection, arguments: &[String]) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    if !selection.left_out.is_empty() && !arguments.iter().any(|argument| argument == "--") {
        arguments.push("--".to_owned());
    }
    for (database, _) in &selection.left_out {
        arguments.extend(["--skip".to_owned(), format!("{database}::")]);
    }
    arguments
}

/// Lists the tests of a command with these arguments and checks that they are what the run asks for. Tests of documentation are listed only
/// where the arguments choose them, because a list of them compiles them.
///
/// # Errors
/// Fails when the arguments select no test, or none of a database that `--only` names.
pub(crate) fn check(selection: &Selection, tests: Command, arguments: &[String]) -> Result<()> {
    let names = listed(tests, arguments)?;
    eprintln!("{} tests are selected", names.len());
    missing(selection, &names).map_or(Ok(()), |missing| bail!("{missing}: {}", arguments.join(" ")))
}

/// Returns the names of the tests that the command selects with these arguments.
fn listed(mut tests: Command, arguments: &[String]) -> Result<Vec<String>> {
    let at = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let (of_cargo, of_programs) = arguments.split_at(at);
    tests.arg("--quiet");
    if !of_cargo.iter().any(|argument| chooses_targets(argument)) {
        tests.arg("--tests");
    }
    tests.args(of_cargo).args(["--", "--list"]).args(of_programs.iter().skip(1));
    let output = tests.stderr(Stdio::inherit()).output().context("cannot run cargo to list the tests")?;
    ensure!(output.status.success(), "cannot list the tests: cargo ended with {}", output.status);
    Ok(names_in(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the names in the printout of `--list`.
fn names_in(printed: &str) -> Vec<String> {
    printed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Whether an argument of `cargo test` chooses what is tested. Without one, cargo also tests the documentation.
fn chooses_targets(argument: &str) -> bool {
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    [
        "--lib",
        "--bin",
        "--bins",
        "--test",
        "--tests",
        "--example",
        "--examples",
        "--bench",
        "--benches",
        "--all-targets",
        "--doc",
    ]
    .contains(&name)
}

/// Returns what the selection lacks.
fn missing(selection: &Selection, names: &[String]) -> Option<String> {
    if names.is_empty() {
        return Some("the arguments select no test".to_owned());
    }
    let named = selection.chosen.iter().filter(|_| !selection.left_out.is_empty());
    let lost: Vec<&str> = named
        .filter(|database| !names.iter().any(|name| needs(name, **database)))
        .map(|database| database.name())
        .collect();
    (!lost.is_empty()).then(|| format!("`--only` names {}, and the arguments select no test of it", lost.join(", ")))
}

/// Whether a component of the path of a test says that it needs this database.
fn needs(name: &str, database: Database) -> bool {
    let Some((modules, _)) = name.rsplit_once("::") else { return false };
    modules.split("::").any(|component| {
        component.strip_suffix(database.name()).is_some_and(|before| before.is_empty() || before.ends_with('_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn deselected_databases_are_skipped_by_their_components() {
        let skipped = |left_out: &[Database], arguments: &[&str]| {
            let chosen: Vec<_> = Database::ALL.into_iter().filter(|database| !left_out.contains(database)).collect();
            with_deselected_skipped(&Selection::new(&chosen), &owned(arguments)).join(" ")
        };
        assert_eq!(skipped(&[], &["--test", "stores"]), "--test stores");
        assert_eq!(skipped(&[Database::Mariadb], &["--test", "stores"]), "--test stores -- --skip mariadb::");
        assert_eq!(
            skipped(&[Database::Postgres, Database::RedisCluster], &["--", "--nocapture"]),
            "-- --nocapture --skip postgres:: --skip redis_cluster::"
        );
    }

    #[test]
    fn test_needs_what_a_component_of_its_path_names() {
        for (name, database, expected) in [
            ("keys::postgres::case", Database::Postgres, true),
            ("on_services::on_postgres::case", Database::Postgres, true),
            ("on_services::on_postgres::case", Database::Services, true),
            ("on_redis_cluster::case", Database::RedisCluster, true),
            ("on_redis_cluster::case", Database::Redis, false),
            ("mysql_family::mariadb::case", Database::Mysql, false),
            ("emails::email::case", Database::Mail, false),
            ("rows::case_on_sqlite", Database::Sqlite, false),
            ("sqlite", Database::Sqlite, false),
        ] {
            assert_eq!(needs(name, database), expected, "{name}, {database}");
        }
    }

    #[test]
    fn selection_without_a_test_of_a_named_database_is_refused() {
        let only = Selection::new(&[Database::Sqlite, Database::Mail]);
        let names = owned(&["keys::sqlite::case", "rules::case"]);
        assert_eq!(missing(&only, &[]).as_deref(), Some("the arguments select no test"));
        assert_eq!(
            missing(&only, &names).as_deref(),
            Some("`--only` names mail, and the arguments select no test of it")
        );
        assert_eq!(missing(&Selection::new(&[Database::Sqlite]), &names), None);
        assert_eq!(missing(&Selection::new(&[]), &names), None);
    }

    #[test]
    fn only_the_lines_of_tests_are_names() {
        let printed =
            "keys::sqlite::case: test\nsrc/lib.rs - (line 7): test\nspeed: benchmark\n\n2 tests, 1 benchmark\n";
        assert_eq!(names_in(printed), ["keys::sqlite::case", "src/lib.rs - (line 7)"]);
    }

    #[test]
    fn arguments_that_choose_targets_are_recognised() {
        assert!(["--test", "--test=stores", "--doc", "--lib"].into_iter().all(chooses_targets));
        assert!(!["-p", "stores", "--package", "some_name", "--release"].into_iter().any(chooses_targets));
    }
}
