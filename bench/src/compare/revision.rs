//! Builds the subject of this tree and that of an old revision, in release mode and with the same versions of all dependencies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The two programs.
pub struct Built {
    pub old: PathBuf,
    pub new: PathBuf,
    /// The commit, its date and title.
    pub old_name: String,
    /// The same of this tree, and whether it has changes that are not committed.
    pub new_name: String,
}

/// The folder of the subject in the repository.
const SUBJECT: &str = "bench/subject";
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the bench has no workspace")?;
    let commit = git(root, &["rev-parse", "--verify", &format!("{revision}^{{commit}}")]).with_context(|| {
        format!("{revision:?} is not a revision of this repository; give a commit, a tag or a branch")
    })?;
    let short: String = commit.chars().take(12).collect();
    let folder = root.join("target").join("compare");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let tree = folder.join(&short);
    check_out(root, &tree, &commit)?;
    add_subject(root, &tree)?;
    // One folder for the dependencies of both.
    let target = folder.join("build");
    let old = compile(&tree, &target, &folder.join(format!("subject-{short}")))?;
    let new = compile(root, &target, &folder.join("subject-new"))?;
    let changed = !git(root, &["status", "--porcelain", "--", "crates", SUBJECT, "Cargo.lock"])?.is_empty();
    let describe = |commit: &str| git(root, &["log", "-1", "--format=%h %cs %s", commit]);
    let new_name = describe("HEAD")? + if changed { " (with changes that are not committed)" } else { "" };
    Ok(Built { old, new, old_name: describe(&commit)?, new_name })
}

/// Makes a work tree of the commit, or brings one of an earlier run into its state.
fn check_out(root: &Path, tree: &Path, commit: &str) -> Result<()> {
    if tree.join(".git").exists() {
        git(tree, &["checkout", "--quiet", "--force", commit])?;
        git(tree, &["clean", "--quiet", "-d", "--force", "bench"])?;
        return Ok(());
    }
    // A folder that was deleted is still known to git.
    git(root, &["worktree", "prune"])?;
    let path = tree.to_string_lossy();
    git(root, &["worktree", "add", "--quiet", "--detach", &path, commit])?;
    Ok(())
}

/// Puts today's subject into a tree that has none, with the names of its library.
fn add_subject(root: &Path, tree: &Path) -> Result<()> {
    if tree.join(SUBJECT).join("Cargo.toml").exists() {
        return Ok(());
    }
    for file in git(root, &["ls-files", "--cached", "--others", "--exclude-standard", SUBJECT])?.lines() {
        copy(&root.join(file), &tree.join(file))?;
    }
    for (name, file, adapter) in ADAPTERS {
        let text = fs::read_to_string(tree.join(file)).with_context(|| format!("the old revision has no {file}"))?;
        if !text.contains(name) {
            copy(&root.join(adapter), &tree.join(LIBRARY))?;
        }
    }
    copy(&root.join("Cargo.lock"), &tree.join("Cargo.lock"))?;
    let manifest = tree.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).context("the old revision has no Cargo.toml")?;
    fs::write(&manifest, with_member(&text)?).context("cannot change the old revision's Cargo.toml")
}

/// Adds the subject to the members of a workspace.
fn with_member(manifest: &str) -> Result<String> {
    let Some((before, after)) = manifest.split_once("\nmembers = [") else {
        bail!("the old revision's Cargo.toml has no line `members = [`");
    };
    Ok(format!("{before}\nmembers = [\"{SUBJECT}\", {after}"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Builds a tree's subject and keeps the program under a name of its own, because both trees build a program of one name.
fn compile(tree: &Path, target: &Path, program: &Path) -> Result<PathBuf> {
    eprintln!("building {}", tree.join(SUBJECT).display());
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(tree).args(["build", "--release", "--package", "bench-subject", "--target-dir"]).arg(target);
    let status = command.status().context("cannot run cargo")?;
    ensure!(
        status.success(),
        "the subject in {} does not compile ({status}); where the library has other names there, add an adapter to {SUBJECT}/adapters",
        tree.display()
    );
    let built = target.join("release").join(format!("bench-subject{}", std::env::consts::EXE_SUFFIX));
    // A running program cannot be overwritten, and a renamed one can be replaced.
    let copied = program.with_extension("copy");
    copy(&built, &copied)?;
    fs::rename(&copied, program).with_context(|| format!("cannot make {}", program.display()))?;
    Ok(program.to_owned())
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
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (_, _, adapter) in ADAPTERS {
            assert!(root.join(adapter).is_file(), "{adapter}");
        }
    }
}
