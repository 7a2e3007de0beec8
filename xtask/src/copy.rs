//! A copy of the workspace to make mutants in, with a target directory of its own.
//!
//! It stays below the target directory between runs, because a fresh copy would cost a build of everything each time. Each run
//! makes it equal to the workspace again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use test_servers::run::{cargo, target_dir, workspace_root};

/// The copy.
pub(crate) struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Makes the copy equal to the workspace, including files that are neither committed nor ignored.
    pub(crate) fn of_the_workspace() -> Result<Self> {
        let from = workspace_root();
        let place = target_dir().join("mutants");
        let copy = Self { root: place.join("workspace"), target: place.join("target") };
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&from)
            .output()
            .context("cannot run git")?;
        ensure!(listed.status.success(), "git ls-files failed");
        let listed = listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let files: BTreeSet<&Path> =
            listed.map(|name| Path::new(OsStr::from_bytes(name))).filter(|file| from.join(file).is_file()).collect();
        fs::create_dir_all(&copy.root).with_context(|| format!("cannot create {}", copy.root.display()))?;
        copy.remove_others(Path::new(""), &files)?;
        for file in files {
            let (from, to) = (from.join(file), copy.root.join(file));
            bring(&from, &to).with_context(|| format!("cannot copy {}", file.display()))?;
        }
        Ok(copy)
    }

    /// Removes files that the workspace no longer has.
    fn remove_others(&self, folder: &Path, files: &BTreeSet<&Path>) -> Result<()> {
        for entry in fs::read_dir(self.root.join(folder)).context("cannot look into the copy")? {
            let entry = entry?;
            let file = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.remove_others(&file, files)?;
            } else if !files.contains(file.as_path()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// The root of the copy.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Replaces the text of a file.
    pub(crate) fn write(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.root.join(file), text).with_context(|| format!("cannot change {file} of the copy"))
    }

    /// A cargo command in the copy.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = cargo(arguments);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command.env("CARGO_INCREMENTAL", "1");
        command
    }
}

/// Makes `to` equal to `from`. A file with the same content keeps its time, so that cargo does not build it again.
fn bring(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::read(to).ok() != Some(fs::read(from)?) {
        fs::copy(from, to)?;
        // `copy` keeps only the content and the permissions. The time is now, so cargo builds the file again.
    }
    Ok(())
}
