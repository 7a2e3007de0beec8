//! Installs database programs on Debian and its relatives, without starting their services.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::run;

/// Whether programs can be installed: as root, with `apt-get`.
pub(crate) fn is_possible() -> bool {
    rustix::process::geteuid().is_root()
        && Path::new("/etc/debian_version").exists()
        && Path::new("/usr/bin/apt-get").exists()
}

/// Installs all these packages in one go, because two package managers cannot run at once.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    eprintln!("installing {} with apt-get", packages.join(" and "));
    let _policy = NoServices::declare(Path::new("/usr/sbin/policy-rc.d"))?;
    apt_get(&["update", "--quiet"])?;
    let mut arguments = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    arguments.extend(packages);
    apt_get(&arguments)
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    // Another package manager may be running; and a question would wait for an answer for ever.
    command.args(["-o", "DPkg::Lock::Timeout=120"]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    // Standard output is for the URLs that `cargo xtask servers` prints.
    command.stdout(std::io::stderr());
    let outcome = run(&mut command, None)?;
    if !outcome.succeeded() {
        bail!("apt-get {} failed ({outcome:?})", arguments.join(" "));
    }
    Ok(())
}

/// Forbids packages to start services, in Debian's way: a program that exits with 101. So the standard port stays free, and
/// no unwanted server runs. An existing program of the administrator stays.
struct NoServices<'a> {
    written: Option<&'a Path>,
}

impl<'a> NoServices<'a> {
    fn declare(path: &'a Path) -> Result<Self> {
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(path);
        match file {
            Ok(mut file) => {
                let policy = Self { written: Some(path) };
                file.write_all(b"#!/bin/sh\nexit 101\n").context("cannot forbid packages to start services")?;
                Ok(policy)
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(Self { written: None }),
            Err(error) => Err(error).context("cannot forbid packages to start services"),
        }
    }
}

impl Drop for NoServices<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.written
            && let Err(error) = fs::remove_file(path)
        {
            eprintln!("cannot remove {}, which forbids packages to start services: {error}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_removed_again_only_when_it_was_absent_before() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("policy-rc.d");
        let policy = NoServices::declare(&path)?;
        assert_eq!(Command::new("sh").arg(&path).status()?.code(), Some(101));
        drop(policy);
        assert!(!path.exists());

        fs::write(&path, "the administrator's")?;
        drop(NoServices::declare(&path)?);
        assert_eq!(fs::read_to_string(&path)?, "the administrator's");
        Ok(())
    }
}
