//! What checks the files of `examples/deploy`: `systemd-analyze`, and programs that Python's packages bring for the other formats.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, anyhow};

use crate::packages::Examples;
use crate::receivers;
use crate::servers::programs::{find, usual_folders};

const EXAMPLES: Examples = Examples("deploy");

/// What to install so that all files are checked.
pub const HOW_TO_INSTALL: &str =
    "systemd, and Python 3 with pip (Debian and Ubuntu: `apt-get install systemd python3 python3-pip`)";

/// Returns the packages of Debian and Ubuntu that have the missing programs.
#[must_use]
pub fn missing_packages() -> Vec<&'static str> {
    let systemd = if systemd().is_ok() { &[][..] } else { &["systemd"] };
    [systemd, &receivers::missing_python()].concat()
}

/// Returns the path of a file in `examples/deploy`.
#[must_use]
pub fn file(name: &str) -> PathBuf {
    EXAMPLES.sources(name)
}

/// Returns a command that runs `systemd-analyze`.
///
/// # Errors
/// Fails when it is missing, and says what to install.
pub fn systemd_analyze() -> Result<Command> {
    systemd().map(Command::new)
}

/// Returns a command that runs a program of the packages; installs them when they are missing.
///
/// # Errors
/// Fails when Python is missing or the packages cannot be installed, and says what to do.
pub fn checker(program: &str) -> Result<Command> {
    let packages = EXAMPLES.python_packages(&found("python3")?)?;
    let mut checker = Command::new(packages.join("bin").join(program));
    checker.env("PYTHONPATH", packages);
    Ok(checker)
}

fn systemd() -> Result<PathBuf> {
    found("systemd-analyze")
}

fn found(name: &'static str) -> Result<PathBuf> {
    find(&usual_folders(), &[name]).ok_or_else(|| anyhow!("`{name}` is missing: install {HOW_TO_INSTALL}"))
}
