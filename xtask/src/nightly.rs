//! `cargo xtask ci --nightly`: what CI leaves to the night, in parts that each take less than 90 minutes on two cores.
//!
//! `--only PART` runs some of them, and `--record` writes their results to docs/runs.toml.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use test_servers::provide::provide;
use test_servers::run::{cargo, interrupted, run, workspace_root};
use test_servers::selection::{Database, Selection};
use test_servers::servers::unstable;

use crate::book::book;
use crate::ci::dependencies;
use crate::mutate::{Share, mutants};
use crate::output::Output;
use crate::runs;
use crate::step::{self, StepResult, Steps};
use crate::suites::SUITES;
use crate::test::{Lints, Prepared, examples_of_newcomers};
use crate::tool::CARGO_DENY;

/// A part: its name, and its steps.
pub(crate) struct Part {
    name: &'static str,
    run: fn(&Selection, &mut Steps),
}

/// The part with the checks that CI skips where nothing that they check has changed.
pub(crate) const CHECKS: &str = "checks";

/// In how many parts the mutants run.
const MUTANT_PARTS: usize = 6;

/// All parts, in the order in which they run.
pub(crate) const PARTS: [Part; 17] = [
    Part { name: CHECKS, run: checks },
    Part { name: "features", run: |_, steps| _ = steps.step("features", each_feature) },
    Part {
        name: "stores",
        run: |selection, steps| {
            for suite in SUITES.iter().filter(|suite| suite.has_turns()) {
                steps.step(suite.name, || suite_on_all_stores(selection, suite.name));
            }
            steps.step("ended notices", || beside_ended_notices(selection));
        },
    },
    Part { name: "newest", run: |_, steps| _ = steps.step("newest servers", newest) },
    Part {
        name: "schedules",
        run: |_, steps| {
            steps.step("schedules", schedules);
            steps.step("timetables", timetables);
        },
    },
    Part { name: "soak", run: |selection, steps| _ = steps.step("soak", || soak(selection)) },
    Part { name: "neighbours-postgres", run: |_, steps| neighbours(Database::Postgres, steps) },
    Part { name: "neighbours-mariadb", run: |_, steps| neighbours(Database::Mariadb, steps) },
    Part { name: "neighbours-sqlite", run: |_, steps| neighbours(Database::Sqlite, steps) },
    Part { name: "neighbours-redis", run: |_, steps| neighbours(Database::Redis, steps) },
    Part { name: "client-counts", run: |_, steps| _ = steps.step("client counts", client_counts) },
    Part { name: "mutants-1", run: mutants_of_part::<0> },
    Part { name: "mutants-2", run: mutants_of_part::<1> },
    Part { name: "mutants-3", run: mutants_of_part::<2> },
    Part { name: "mutants-4", run: mutants_of_part::<3> },
    Part { name: "mutants-5", run: mutants_of_part::<4> },
    Part { name: "mutants-6", run: mutants_of_part::<5> },
];

/// Runs the parts with these names, or all of them, and prints a summary of each. The exit code is 1 when a step has failed.
pub(crate) fn nightly(selection: &Selection, only: &[String], record: bool) -> Result<ExitCode> {
    let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    if let Some(unknown) = only.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("the night has no part {unknown:?}; its parts are {}", known.join(", "));
    }
    let mut code = 0;
    for part in PARTS.iter().filter(|part| only.is_empty() || only.iter().any(|name| name == part.name)) {
        println!("\n==> part {}", part.name);
        let mut steps = Steps::begin();
        (part.run)(selection, &mut steps);
        steps.print_summary();
        code = code.max(steps.code());
        if interrupted() {
            break;
        }
        if record {
            let run = runs::Run::now(&steps)?;
            runs::change(|runs| _ = runs.nightly.insert(part.name.to_owned(), run))?;
        }
    }
    Ok(ExitCode::from(code))
}

/// Documentation of libraries and programs, dependencies, the tests of the tools, the book, and the examples by a newcomer's commands.
fn checks(selection: &Selection, steps: &mut Steps) {
    steps.step("documentation", documentation);
    steps.step("dependencies", dependencies);
    steps.step("advisories", advisories);
    steps.step("book", || Ok(book()?.into()));
    steps.step("tools", || suite_on_all_stores(selection, "tools"));
    steps.step("newcomers", || examples_of_newcomers(selection));
}

/// Documents the programs, too. CI documents the libraries alone.
fn documentation() -> Result<StepResult> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
    step::command(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Builds the tests and runs the suite of this name on all selected stores. In CI some stores take turns.
fn suite_on_all_stores(selection: &Selection, name: &str) -> Result<StepResult> {
    let (result, prepared) = Prepared::new(selection, Lints::Allow)?;
    let Some(prepared) = prepared else { return Ok(result.into()) };
    let suite =
        SUITES.iter().find(|suite| suite.name == name).with_context(|| format!("there is no suite {name:?}"))?;
    prepared.run(suite, None, &Output::Terminal)
}

/// Compiles `solid-notify` with each feature alone. The tests have all of them.
fn each_feature() -> Result<StepResult> {
    let file = workspace_root().join("crates/solid-notify/Cargo.toml");
    let manifest: toml::Table = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?
        .parse()
        .with_context(|| format!("cannot parse {}", file.display()))?;
    let features = manifest.get("features").and_then(toml::Value::as_table).context("the manifest has no features")?;
    let mut failed = Vec::new();
    for name in features.keys() {
        let command = ["check", "--package", "solid-notify", "--no-default-features", "--features", name];
        if !run(&mut cargo(&command), None)?.succeeded() {
            failed.push(name.as_str());
        }
    }
    Ok(match failed.is_empty() {
        true => StepResult::Passed,
        false => StepResult::Failed(format!("alone these do not compile: {}", failed.join(", "))),
    })
}

/// Runs the tests on the newest servers, in a process of its own, because an environment variable chooses the servers. An earlier part may have
/// built this program again, which replaces its file.
fn newest() -> Result<StepResult> {
    let only = "postgres,pgbouncer,redis,redis_cluster";
    step::command(cargo(&["xtask", "test", "--only", only]).env(unstable::VARIABLE, "newest"))
}

/// Checks that no mutant of a part survives.
fn mutants_of_part<const PART: usize>(selection: &Selection, steps: &mut Steps) {
    steps.step("mutants", || {
        let holes = mutants(selection, None, Some(Share { part: PART, of: MUTANT_PARTS }), false)?;
        Ok(if holes == 0 { StepResult::Passed } else { StepResult::Failed(format!("{holes} mutants survived")) })
    });
}

/// Runs many more schedules than the tests do. So many are worth a build with optimisations: they take half of the time.
fn schedules() -> Result<StepResult> {
    let mut command = cargo(&["test", "--package", "solid-notify-tests-schedules"]);
    step::command(command.env("SCHEDULES", "20000").env("CARGO_PROFILE_TEST_OPT_LEVEL", "1"))
}

/// Compares what claims read without ended notices and beside a million of them.
fn beside_ended_notices(selection: &Selection) -> Result<StepResult> {
    let tests = ["solid-notify-tests-stores", "--test", "stores", "--", "plans::ended::"];
    tests_on(selection, &tests, ("ENDED_NOTICES", "1000000"))
}

/// Fifty timetables near each change of the clocks, in every zone.
fn timetables() -> Result<StepResult> {
    let test = ["test", "--package", "solid-notify-core", "--all-features", "--lib", "ticks_tests"];
    step::command(cargo(&test).env("TIMETABLES", "50"))
}

/// Injects every fault again and again, for the time in NOTIFY_SOAK (default: 30m).
fn soak(selection: &Selection) -> Result<StepResult> {
    let time = std::env::var("NOTIFY_SOAK").unwrap_or_else(|_| "30m".to_owned());
    tests_on(selection, &["solid-notify-tests-processes", "--", "faults::"], ("NOTIFY_SOAK", &time))
}

/// Runs tests of a package on the selected servers, with a variable that they read. `tests`: the package, and what selects them.
fn tests_on(selection: &Selection, tests: &[&str], (name, value): (&str, &str)) -> Result<StepResult> {
    let provided = provide(selection)?;
    let mut command = cargo(&[["test", "--package"].as_slice(), tests].concat());
    command.env(name, value);
    provided.describe_to(&mut command);
    step::command(&mut command)
}

/// Runs every bad neighbour on a store, in pairs of runs without and with it. The healthy definitions need the brokers, too.
fn neighbours(store: Database, steps: &mut Steps) {
    steps.step("neighbours", || {
        let selection = Selection::new(&[store, Database::Rabbitmq, Database::Nats, Database::Redis]);
        let of_store = format!("on_{store}::");
        tests_on(&selection, &["solid-notify-tests-neighbours", "--", &of_store], ("NOTIFY_NEIGHBOURS", "night"))
    });
}

/// Counts what a notice costs the client.
fn client_counts() -> Result<StepResult> {
    step::command(&mut cargo(&["run", "--release", "--package", "bench", "--", "count", "--client", "--check"]))
}

/// Checks for known vulnerabilities. Fetching the database is a command of its own, so that a missing network differs from
/// a finding without parsing messages.
fn advisories() -> Result<StepResult> {
    let fetched = run(CARGO_DENY.command()?.args(["fetch", "db"]), Some(Duration::from_secs(120)))?;
    if !fetched.succeeded() {
        return Ok(StepResult::Skipped("the advisory database cannot be fetched".to_owned()));
    }
    step::command(CARGO_DENY.command()?.args(["check", "advisories"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_the_night_names_every_part() -> Result<()> {
        let text = std::fs::read_to_string(workspace_root().join("CONTRIBUTING.md"))?;
        for part in &PARTS {
            // The parts of the mutants share a row.
            let name = part.name.trim_end_matches(|last: char| last.is_ascii_digit());
            assert!(text.contains(&format!("| `{name}")), "CONTRIBUTING.md has no row of the part {}", part.name);
        }
        Ok(())
    }

    #[test]
    fn recorded_parts_are_parts_of_the_night() -> Result<()> {
        let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        let unknown: Vec<String> =
            runs::read()?.nightly.into_keys().filter(|name| !known.contains(&name.as_str())).collect();
        assert!(unknown.is_empty(), "docs/runs.toml has parts that the night does not have: {unknown:?}");
        Ok(())
    }

    #[test]
    fn unknown_part_is_refused_with_the_names_of_all() {
        let refused =
            nightly(&Selection::new(&[]), &["mutants".to_owned()], false).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|text| text.contains("no part \"mutants\"") && text.contains("mutants-6")));
    }
}
