//! Builds a subject in release mode, as a program of its own with the features that it needs and no others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The folder of the subject in the repository.
pub const SUBJECT: &str = "bench/subject";

/// Returns the folder of this workspace.
///
/// # Errors
/// Never: the bench is in a folder of the workspace.
pub fn workspace() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the bench has no workspace")
}

/// Returns the folder for programs and old revisions, which it makes.
///
/// # Errors
/// Fails where it cannot be made.
pub fn folder() -> Result<PathBuf> {
    let folder = workspace()?.join("target").join("compare");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Builds the subject of a tree and keeps the program under a name of its own, because all trees build a program of one name. They share the
/// folder of their dependencies.
///
/// # Errors
/// Fails where it does not compile.
pub fn compile(tree: &Path, folder: &Path, name: &str) -> Result<PathBuf> {
    eprintln!("building {}", tree.join(SUBJECT).display());
    let target = folder.join("build");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(tree).args(["build", "--release", "--package", "bench-subject", "--target-dir"]).arg(&target);
    let status = command.status().context("cannot run cargo")?;
    ensure!(
        status.success(),
        "the subject in {} does not compile ({status}); where the library has other names there, add an adapter to {SUBJECT}/adapters",
        tree.display()
    );
    let built = target.join("release").join(format!("bench-subject{}", std::env::consts::EXE_SUFFIX));
    let program = folder.join(format!("subject-{name}{}", std::env::consts::EXE_SUFFIX));
    // A running program cannot be overwritten, and a renamed one can be replaced.
    let copied = program.with_extension("copy");
    fs::copy(&built, &copied).with_context(|| format!("cannot copy {} to {}", built.display(), copied.display()))?;
    fs::rename(&copied, &program).with_context(|| format!("cannot make {}", program.display()))?;
    Ok(program)
}
