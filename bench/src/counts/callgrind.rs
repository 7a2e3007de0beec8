//! The client's costs: instructions and allocations of the subject, counted by valgrind's callgrind.
//!
//! Valgrind executes the program on a processor of its own making, one thread at a time, so that the counts hardly depend on the machine.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Work;
use super::figure::Figures;
use super::measure::{Plan, Site, differences};
use super::servers::Counters;
use super::subject::Subject;

/// The functions of the C library that allocate.
const ALLOCATORS: &[&str] = &["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"];

/// Returns how many times as many notices are counted as on the servers: what the library does by the clock meanwhile is then a smaller part. The
/// definition lets 2,000 attempts run at once, and the subject needs all of them to run.
fn factor(work: Work) -> usize {
    if work == Work::Enqueue { 4 } else { 2 }
}

/// Returns the versions of the compiler and of valgrind, which decide the counts.
///
/// # Errors
/// Fails where valgrind is not installed.
pub fn version() -> Result<String> {
    let valgrind = output(&mut Command::new("valgrind"), "--version")
        .context("the client is counted by valgrind: install it (Debian, Ubuntu, Fedora: the package `valgrind`)")?;
    let compiler = output(&mut Command::new("rustc"), "--version")?;
    let compiler = compiler.split(' ').take(2).collect::<Vec<_>>().join(" ");
    Ok(format!("{compiler}, {valgrind}"))
}

fn output(command: &mut Command, argument: &str) -> Result<String> {
    let output = command.arg(argument).output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed ({})", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Counts all works of a subject; returns the figures by work.
///
/// # Errors
/// Errors of the subject and of the server, and a missing valgrind.
pub fn count(site: &mut Site, subject: &Subject, works: &[Work], plan: Plan) -> Result<BTreeMap<String, Figures>> {
    version()?;
    site.prepare(subject)?;
    let directory = tempfile::tempdir().context("cannot make a folder for callgrind")?;
    let profile = directory.path().join("callgrind");
    let mut all = BTreeMap::new();
    for work in works {
        eprintln!("client on {} {}", site.product(), work.name());
        let figures =
            differences(plan, factor(*work) * plan.notices(*work), |count| once(site, subject, *work, count, &profile))
                .with_context(|| format!("cannot count the client of {} on {}", work.name(), site.product()))?;
        all.insert(work.name().to_owned(), figures);
    }
    Ok(all)
}

fn once(site: &mut Site, subject: &Subject, work: Work, count: usize, profile: &Path) -> Result<Counters> {
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(profile);
    let valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--log-file=/dev/null"].map(OsString::from);
    let valgrind: Vec<OsString> = valgrind.into_iter().chain([out]).collect();
    site.empty(subject)?;
    let mut running = site.begin(&subject.under(&valgrind), subject, work, count)?;
    ensure!(running.go()?.is_some(), "the sweeper looked for notices before it was asked to");
    running.end()?;
    parsed(&std::fs::read_to_string(profile).context("callgrind wrote no profile")?)
}

/// Reads the instructions and the calls of allocators from a profile.
/// The format: <https://valgrind.org/docs/manual/cl-format.html>
fn parsed(profile: &str) -> Result<Counters> {
    let mut instructions = None;
    // A name is written once; later lines have its number alone.
    let mut names: HashMap<&str, &str> = HashMap::new();
    let (mut called, mut allocations, mut steps) = ("", 0.0, 0.0);
    for line in profile.lines() {
        if let Some(total) = line.strip_prefix("summary: ").or_else(|| line.strip_prefix("totals: ")) {
            let total = total.split(' ').next().unwrap_or_default();
            instructions =
                Some(total.parse::<f64>().with_context(|| format!("{total:?} is no number of instructions"))?);
        } else if let Some(name) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn=")) {
            let (number, name) = name.split_once(' ').unwrap_or((name, ""));
            if !name.is_empty() {
                names.insert(number, name);
            }
            called = names.get(number).copied().unwrap_or_default();
        } else if let Some(calls) = line.strip_prefix("calls=") {
            let calls: f64 = calls.split(' ').next().and_then(|calls| calls.parse().ok()).unwrap_or_default();
            if ALLOCATORS.contains(&called) {
                allocations += calls;
            } else if called == "sqlite3_step" {
                steps += calls;
            }
        }
    }
    let mut counters = Counters::from([
        ("instructions", instructions.context("the profile has no sum of instructions")?),
        ("allocations", allocations),
    ]);
    if steps > 0.0 {
        counters.insert("sqlite_steps", steps);
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_is_read_with_its_compressed_names() {
        let profile = "events: Ir\nfn=(1) main\n16 400\ncfn=(2) malloc\ncalls=50 0\n16 900\ncfn=(3) free\ncalls=7 0\n\
                       fn=(4) other\ncfn=(2)\ncalls=5 0\n17 3\ncfn=(5) _int_malloc\ncalls=9 0\ntotals: 12345\n";
        let counters = parsed(profile).unwrap();
        assert_eq!(counters, Counters::from([("instructions", 12345.0), ("allocations", 55.0)]));
    }

    #[test]
    fn profile_without_its_sum_is_refused() {
        assert!(parsed("fn=(1) main\n").unwrap_err().to_string().contains("no sum of instructions"));
    }
}
