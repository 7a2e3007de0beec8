//! The newest servers, on a Debian machine: packages of the distribution's unstable suite, unpacked into a folder and run by `chroot`.
//!
//! MySQL comes from here, because Debian's stable releases have MariaDB alone, and the packages of the two exclude each other. The folder also
//! has PostgreSQL, Valkey and PgBouncer, newer than those of the machine: [`is_wanted`].
//!
//! The packages are unpacked and not installed: no script of theirs runs, so nothing is started and nothing outside the folder changes. Filling
//! the folder is the task of the `xtask` program; tests only look for it.

use std::path::{Path, PathBuf};

/// The packages of the folder. `base-files` has `/lib` and `/bin`, `dash` and `coreutils` the programs of `initdb` and xtask.
pub const PACKAGES: &[&str] = &[
    "base-files",
    "coreutils",
    "dash",
    "mysql-server-core",
    "mysql-client-core",
    "postgresql",
    "valkey-server",
    "pgbouncer",
];

/// The account in the folder that the servers run as. It has the same number on every Debian machine.
pub(super) const ACCOUNTS: &[&str] = &["nobody"];

/// Set to `newest`, PostgreSQL and Redis servers come from the folder, too, instead of from the machine's own programs.
pub const VARIABLE: &str = "NOTIFY_TEST_SERVERS";

/// True if this run uses the newest servers.
#[must_use]
pub fn is_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|wanted| wanted == "newest")
}

/// The folder, whether or not it is there. It stays between runs.
///
/// In the user's cache and not below `target/`: all clones of the repository share it, and `cargo clean` need not remove what takes a
/// minute to unpack. The number changes with [`PACKAGES`].
#[must_use]
pub fn place() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
    Some(cache.join("solid-notify").join("debian-unstable-1"))
}

/// The folder, where it is there and this process may use it: `chroot` is for root.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    place().filter(|folder| rustix::process::geteuid().is_root() && folder.is_dir())
}

/// A program in the folder, as it is called inside: `/usr/sbin/mysqld`.
pub(super) fn program(folder: &Path, path: &str) -> Option<PathBuf> {
    folder.join(path.trim_start_matches('/')).symlink_metadata().is_ok().then(|| PathBuf::from(path))
}
