//! docs/runs.toml: the last recorded run of CI and of each nightly part. The README's claims about tests refer to it.
//!
//! `--record` writes it. CI leaves a step to the night where nothing that it checks has changed since the night recorded it.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use test_servers::run::workspace_root;

use crate::revision;
use crate::step::Steps;

/// The file, from the root of the workspace.
pub(crate) const FILE: &str = "docs/runs.toml";
const HEAD: &str = "# The last recorded runs: `cargo xtask ci --record`, and `cargo xtask ci --nightly --only PART --record` for each part of the night.\n\
# Seconds are those of the wall clock, on the number of cores that is given. CONTRIBUTING.md has the budget of each step of CI.\n\n";

/// The file's content.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Runs {
    /// The last recorded run of CI.
    pub(crate) ci: Option<Run>,
    /// The last recorded run of each nightly part.
    #[serde(default)]
    pub(crate) nightly: BTreeMap<String, Run>,
}

/// One run.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// The commit that ran.
    pub(crate) revision: String,
    /// The day on which it ended, in UTC.
    pub(crate) date: String,
    /// `passed`, or which steps failed and why.
    pub(crate) result: String,
    /// The number of cores.
    pub(crate) cores: usize,
    /// The time of the whole run, in seconds. Some steps run at the same time.
    pub(crate) seconds: u64,
    /// The time of each step that passed, in seconds.
    pub(crate) steps: BTreeMap<String, u64>,
}

impl Run {
    /// Describes a run that has just ended.
    ///
    /// # Errors
    /// Fails where files are not committed: the record would name a commit that did not run.
    pub(crate) fn now(steps: &Steps) -> Result<Self> {
        let others: Vec<String> = revision::uncommitted()?.into_iter().filter(|file| file != FILE).collect();
        ensure!(others.is_empty(), "cannot record a run with uncommitted files: commit {} first", others.join(", "));
        let date = Command::new("date").args(["-u", "+%F"]).output().context("cannot run date")?;
        Ok(Self {
            revision: revision::head(),
            date: String::from_utf8(date.stdout)?.trim().to_owned(),
            result: steps.result(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            seconds: steps.all_seconds(),
            steps: steps.whole_seconds(),
        })
    }
}

/// Reads the file; nothing was recorded where it is missing.
///
/// # Errors
/// Fails where it cannot be read or parsed.
pub(crate) fn read() -> Result<Runs> {
    let path = workspace_root().join(FILE);
    if !path.exists() {
        return Ok(Runs::default());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    toml::from_str(&text).with_context(|| format!("cannot parse {FILE}"))
}

/// Changes the file.
///
/// # Errors
/// Fails where it cannot be read, parsed or written.
pub(crate) fn change(change: impl FnOnce(&mut Runs)) -> Result<()> {
    let mut runs = read()?;
    change(&mut runs);
    let text = toml::to_string(&runs).with_context(|| format!("cannot write the form of {FILE}"))?;
    fs::write(workspace_root().join(FILE), format!("{HEAD}{text}")).with_context(|| format!("cannot write {FILE}"))
}

/// Returns the commit at which a nightly part passed last.
pub(crate) fn passed_at(part: &str) -> Option<String> {
    read().ok()?.nightly.remove(part).filter(|run| run.result == PASSED).map(|run| run.revision)
}

/// The result of a run without a failure.
pub(crate) const PASSED: &str = "passed";
