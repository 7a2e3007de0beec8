//! Builds the subject of this tree and that of an old revision, in release mode and with the same versions of all dependencies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::counts::build::{SUBJECT, compile, folder, workspace};

/// The two programs.
pub struct Built {
    pub old: PathBuf,
    pub new: PathBuf,
    /// The commit, its date and title.
    pub old_name: String,
    /// The same of this tree, and whether it has changes that are not committed.
    pub new_name: String,
}

/// The file of the subject that differs between revisions.
const LIBRARY: &str = "bench/subject/src/library.rs";
/// A name of the library, the file that has it, and the adapter for revisions without it. Earlier revisions come last.
const ADAPTERS: &[(&str, &str, &str)] =
    &[("OutboxExt", "crates/solid-notify/src/lib.rs", "bench/subject/adapters/before_outbox_ext.rs")];

/// Builds both.
///
/// # Errors
/// Fails where the revision does not exist or cannot be built.
pub fn build(revision: &str) -> Result<Built> {
    let root = workspace()?;
    let commit = git(root, &["rev-parse", "--verify", &format!("{revision}^{{commit}}")]).with_context(|| {
        format!("{revision:?} is not a revision of this repository; give a commit, a tag or a branch")
    })?;
    let short: String = commit.chars().take(12).collect();
    let folder = folder()?;
    let tree = folder.join(&short);
    check_out(root, &tree, &commit)?;
    add_subject(root, &tree)?;
    let old = compile(&tree, &folder, &short)?;
    let new = compile(root, &folder, "new")?;
    let changed = !git(root, &["status", "--porcelain", "--", "crates", SUBJECT, "Cargo.lock"])?.is_empty();
    let describe = |commit: &str| git(root, &["log", "-1", "--format=%h %cs %s", commit]);
    let new_name = describe("HEAD")? + if changed { " (with changes that are not committed)" } else { "" };
    Ok(Built { old, new, old_name: describe(&commit)?, new_name })
}

/// Makes a work tree of the commit, unless an earlier run did.
fn check_out(root: &Path, tree: &Path, commit: &str) -> Result<()> {
    if tree.join(".git").exists() {
        let found = git(tree, &["rev-parse", "HEAD"])?;
        ensure!(found == commit, "{} has the commit {found} instead of {commit}; remove it", tree.display());
        return Ok(());
    }
    // A folder that was deleted is still known to git.
    git(root, &["worktree", "prune"])?;
    let path = tree.to_string_lossy();
    git(root, &["worktree", "add", "--quiet", "--detach", &path, commit])?;
    Ok(())
}

/// Puts today's subject into a tree that has none, with the names of its library. Files that are so already keep their times, so that cargo
/// does not build them again.
fn add_subject(root: &Path, tree: &Path) -> Result<()> {
    if !git(tree, &["ls-files", SUBJECT])?.is_empty() {
        return Ok(());
    }
    let library = adapter(tree)?.unwrap_or(LIBRARY);
    for file in git(root, &["ls-files", "--cached", "--others", "--exclude-standard", SUBJECT])?.lines() {
        let from = if file == LIBRARY { library } else { file };
        replace(&tree.join(file), &read(&root.join(from))?)?;
    }
    // Cargo removes what this tree does not need.
    let (manifest, lock) = (tree.join("Cargo.toml"), tree.join("Cargo.lock"));
    let text = read(&manifest)?;
    if !text.contains(SUBJECT) {
        replace(&lock, &read(&root.join("Cargo.lock"))?)?;
        replace(&manifest, &with_member(&text)?)?;
    }
    Ok(())
}

/// Returns the adapter for the library of a tree, where it has other names than today's.
fn adapter(tree: &Path) -> Result<Option<&'static str>> {
    let mut chosen = None;
    for (name, file, adapter) in ADAPTERS {
        if !read(&tree.join(file))?.contains(name) {
            chosen = Some(*adapter);
        }
    }
    Ok(chosen)
}

/// Adds the subject to the members of a workspace.
fn with_member(manifest: &str) -> Result<String> {
    let Some((before, after)) = manifest.split_once("\nmembers = [") else {
        bail!("the old revision's Cargo.toml has no line `members = [`");
    };
    Ok(format!("{before}\nmembers = [\"{SUBJECT}\", {after}"))
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Writes a file, unless it has this text.
fn replace(file: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").current_dir(folder).args(arguments).output().context("cannot run git")?;
    ensure!(
        output.status.success(),
        "git {} says: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_becomes_a_member_of_an_old_workspace() {
        let manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"bench\", \"crates/*\"]\n";
        let expected = "[workspace]\nresolver = \"3\"\nmembers = [\"bench/subject\", \"bench\", \"crates/*\"]\n";
        assert_eq!(with_member(manifest).unwrap(), expected);
        assert!(with_member("[package]\n").unwrap_err().to_string().contains("`members = [`"));
    }

    #[test]
    fn every_adapter_exists() {
        let root = workspace().unwrap();
        for (_, _, adapter) in ADAPTERS {
            assert!(root.join(adapter).is_file(), "{adapter}");
        }
    }
}
