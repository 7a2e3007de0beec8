//! The example receivers in Python and Node.js: finds the programs, and installs the packages of the lock files into
//! `target/tools/receivers`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, anyhow};

use crate::packages::Examples;
use crate::servers::programs::{find, usual_folders};

const EXAMPLES: Examples = Examples("receivers");

/// What to install so that both run.
pub const HOW_TO_INSTALL: &str = "Python 3 with pip, and Node.js with npm (Debian and Ubuntu: `apt-get install python3 python3-pip nodejs npm`; \
    Fedora: `dnf install python3 python3-pip nodejs npm`; Homebrew: `brew install python node`)";

/// Returns the packages of Debian and Ubuntu that have the missing programs.
///
/// A program that is installed is left alone, because it may come from its maker's package: that of Node.js has npm, too, and excludes Debian's.
#[must_use]
pub fn missing_packages() -> Vec<&'static str> {
    let parts = [(program("node").is_ok(), "nodejs"), (program("npm").is_ok(), "npm")];
    let node = parts.iter().filter(|(installed, _)| !installed).map(|(_, package)| *package);
    missing_python().into_iter().chain(node).collect()
}

/// Returns the packages of Debian and Ubuntu that have Python and its installer, if they are missing.
pub(crate) fn missing_python() -> Vec<&'static str> {
    let pip = Command::new("python3").args(["-m", "pip", "--version"]).output();
    if pip.is_ok_and(|it| it.status.success()) { Vec::new() } else { vec!["python3", "python3-pip"] }
}

/// Returns a command that runs the receiver in Python; installs its packages when they are missing.
///
/// # Errors
/// Fails when a program is missing or the packages cannot be installed, and says what to do.
pub fn python() -> Result<Command> {
    EXAMPLES.python(&program("python3")?, "receiver.py")
}

/// Returns a command that runs the receiver in Node.js, as [`python`].
///
/// # Errors
/// As [`python`].
pub fn node() -> Result<Command> {
    EXAMPLES.node(&program("node")?, &program("npm")?, "receiver.js")
}

fn program(name: &'static str) -> Result<PathBuf> {
    find(&usual_folders(), &[name]).ok_or_else(|| anyhow!("`{name}` is missing: install {HOW_TO_INSTALL}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_named_with_what_to_install() {
        let message = program("no-such-program").map_err(|error| error.to_string()).unwrap_err();
        for word in ["no-such-program", "apt-get install python3 python3-pip nodejs npm", "dnf install", "brew install"]
        {
            assert!(message.contains(word), "`{word}` is missing: {message}");
        }
    }
}
