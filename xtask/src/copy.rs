//! A copy of the workspace to take guards away in, with a target directory of its own.
//!
//! It stays where it is between runs, below the target directory: a fresh one would cost a build of everything each time. Each
//! run makes it equal to the workspace again, whatever the run before left behind.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::run::{cargo, workspace_root};

/// The copy.
pub(crate) struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Brings the copy up to the state of the workspace: what is not committed and not ignored counts, too.
    pub(crate) fn of_the_workspace() -> Result<Self> {
        let from = workspace_root();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| from.join("target"), PathBuf::from);
        let place = target.join("guards");
        let copy = Self { root: place.join("workspace"), target: place.join("target") };
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&from)
            .output()
            .context("cannot run git")?;
        ensure!(listed.status.success(), "git ls-files failed");
        let listed = listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let files: BTreeSet<&Path> = listed
            .map(|name| Path::new(OsStr::from_bytes(name)))
            .filter(|file| from.join(file).is_symlink() || from.join(file).exists())
            .collect();
        fs::create_dir_all(&copy.root).with_context(|| format!("cannot create {}", copy.root.display()))?;
        copy.remove_others(Path::new(""), &files)?;
        for file in files {
            let (from, to) = (from.join(file), copy.root.join(file));
            bring(&from, &to).with_context(|| format!("cannot copy {}", file.display()))?;
        }
        Ok(copy)
    }

    /// Removes what the workspace no longer has.
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
        // Much is built and little is debugged here.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1");
        command
    }
}

/// Makes `to` what `from` is. A file that has the same content keeps its time, so that cargo does not build it again.
fn bring(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if from.is_symlink() {
        let aim = fs::read_link(from)?;
        if fs::read_link(to).ok().as_ref() != Some(&aim) {
            let _ = fs::remove_file(to);
            symlink(aim, to)?;
        }
    } else if fs::read(to).ok() != Some(fs::read(from)?) {
        fs::copy(from, to)?;
        // `copy` keeps nothing but the content and the rights: the time is now, which cargo goes by.
    }
    Ok(())
}
