//! What git says of the workspace: the commit, and what changed since another one.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use test_servers::run::workspace_root;

/// Returns the hash of the commit that is checked out; empty where git cannot say.
pub(crate) fn head() -> String {
    printed(&["rev-parse", "HEAD"]).unwrap_or_default()
}

/// Returns the files that differ from the commit that is checked out.
///
/// # Errors
/// Fails where this is not a clone with git.
pub(crate) fn uncommitted() -> Result<Vec<String>> {
    Ok(printed(&["status", "--porcelain"])?.lines().filter_map(|line| line.get(3..)).map(str::to_owned).collect())
}

/// Whether one of these paths is the same as in the commit `since`. False where git cannot say, as in a clone without that commit.
pub(crate) fn is_unchanged(since: &str, paths: &[&str]) -> bool {
    succeeds(Command::new("git").args(["diff", "--quiet", since, "--"]).args(paths))
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.current_dir(workspace_root()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn printed(arguments: &[&str]) -> Result<String> {
    let output =
        Command::new("git").args(arguments).current_dir(workspace_root()).output().context("cannot run git")?;
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}
