//! Packages that examples in Python and Node.js need: installs those of their lock files into `target/tools`.
//!
//! Which programs the examples need, and what to install, is left to [`crate::receivers`], [`crate::services`] and
//! [`crate::deploy`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::run::workspace_root;

/// One installation at a time, because tests of the same process may ask for the same packages.
static INSTALLING: Mutex<()> = Mutex::new(());

/// A folder of examples: a folder for each language.
pub(crate) struct Examples(pub(crate) &'static str);

impl Examples {
    /// Returns a command that runs a program in Python; installs its packages when they are missing.
    pub(crate) fn python(&self, python: &Path, file: &str) -> Result<Command> {
        let packages = self.python_packages(python)?;
        let mut program = Command::new(python);
        program.arg(self.sources("python").join(file)).env("PYTHONPATH", packages);
        Ok(program)
    }

    /// Returns the folder of the packages in Python; installs them when they are missing. Their programs are in its folder `bin`.
    pub(crate) fn python_packages(&self, python: &Path) -> Result<PathBuf> {
        let folder = self.installed("python", &["requirements.txt"], |folder| {
            let mut install = Command::new(python);
            install.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--root-user-action=ignore",
            ]);
            install.args(["--require-hashes", "--only-binary", ":all:", "--requirement", "requirements.txt"]);
            install.arg("--target").arg(folder.join("packages"));
            install
        })?;
        Ok(folder.join("packages"))
    }

    /// Returns a command that runs a program in Node.js, as [`Examples::python`].
    pub(crate) fn node(&self, node: &Path, npm: &Path, file: &str) -> Result<Command> {
        let packages = self.installed("node", &["package.json", "package-lock.json"], |_| {
            let mut install = Command::new(npm);
            install.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
            install
        })?;
        let mut program = Command::new(node);
        program.arg(self.sources("node").join(file)).env("NODE_PATH", packages.join("node_modules"));
        Ok(program)
    }

    /// The folder of a language.
    pub(crate) fn sources(&self, language: &str) -> PathBuf {
        workspace_root().join("examples").join(self.0).join(language)
    }

    /// Returns the folder with the packages of these lists; runs `install` there when the lists have changed since the last time.
    fn installed(&self, language: &str, lists: &[&str], install: impl FnOnce(&Path) -> Command) -> Result<PathBuf> {
        let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = workspace_root().join("target/tools").join(self.0).join(language);
        let done = folder.join("installed");
        let mut wanted = String::new();
        for list in lists {
            let path = self.sources(language).join(list);
            wanted += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        }
        if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
            return Ok(folder);
        }
        let _ = fs::remove_dir_all(&folder);
        let cannot = || format!("cannot install packages into {}", folder.display());
        fs::create_dir_all(&folder).with_context(cannot)?;
        for list in lists {
            fs::copy(self.sources(language).join(list), folder.join(list)).with_context(cannot)?;
        }
        let output = install(&folder).current_dir(&folder).output().with_context(cannot)?;
        if !output.status.success() {
            bail!(
                "{}: connect to the network and try again\n{}",
                cannot(),
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        fs::write(done, wanted).with_context(cannot)?;
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_files_name_no_host_and_have_hashes() -> Result<()> {
        for examples in ["receivers", "services", "deploy"].map(Examples) {
            let pip = fs::read_to_string(examples.sources("python").join("requirements.txt"))?;
            assert!(!pip.contains("://") && pip.contains("--hash=sha256:"));
        }
        for examples in ["receivers", "services"].map(Examples) {
            let npm = fs::read_to_string(examples.sources("node").join("package-lock.json"))?;
            assert!(!npm.contains("://") && npm.contains("\"integrity\": \"sha512-"));
        }
        Ok(())
    }
}
