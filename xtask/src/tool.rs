//! Programs that cargo installs: cargo-deny and mdBook. Packages of the distribution are left to `test_servers`.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use test_servers::run::{cargo, run, workspace_root};

pub(crate) const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
pub(crate) const MDBOOK: Tool = Tool { name: "mdbook", version: "0.5.4" };

/// A program that the crate of the same name installs.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    /// The version to install where no version is installed.
    version: &'static str,
}

impl Tool {
    /// Returns a command that runs the program in the workspace's root. Uses the program of the search path, in any version;
    /// without it, installs the version of this file into target/tools.
    pub(crate) fn command(&self) -> Result<Command> {
        let mut command = Command::new(self.find_or_install()?);
        command.current_dir(workspace_root());
        Ok(command)
    }

    fn find_or_install(&self) -> Result<PathBuf> {
        let Self { name, version } = self;
        if is_on_the_search_path(name)? {
            return Ok(PathBuf::from(name));
        }
        let folder = workspace_root().join("target/tools");
        let program = folder.join("bin").join(name);
        // A build without optimisation takes less time than one optimised run saves.
        let mut install = cargo(&["install", "--locked", "--debug", "--root"]);
        install.env("CARGO_PROFILE_DEV_DEBUG", "none");
        install.arg(&folder).arg(format!("{name}@{version}"));
        if program.exists() {
            // Cargo then returns at once and needs no network, or replaces another version.
            install.arg("--quiet");
        } else {
            println!("installing {name} {version} into {}", folder.display());
        }
        let outcome = run(&mut install, None)?;
        if !outcome.succeeded() {
            bail!(
                "cannot install {name} {version} into {} ({outcome:?}); connect to the network and try again, or put \
                 {name} on the search path with `cargo install --locked {name}`",
                folder.display()
            );
        }
        Ok(program)
    }
}

/// Whether the program runs. A program that fails counts as missing.
fn is_on_the_search_path(name: &str) -> Result<bool> {
    let mut command = Command::new(name);
    match command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) => Ok(status.success()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot run {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_on_the_search_path_or_missing() -> Result<()> {
        assert!(is_on_the_search_path("cargo")?);
        assert!(!is_on_the_search_path("no-such-program-of-solid-notify")?);
        // It exists, and it fails.
        assert!(!is_on_the_search_path("false")?);
        Ok(())
    }
}
