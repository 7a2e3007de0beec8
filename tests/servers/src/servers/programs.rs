//! Finds installed programs. Each database product gives their names and further folders.

use std::path::{Path, PathBuf};

/// The folders of `PATH`, followed by those that servers are installed to but which an ordinary
/// user's `PATH` lacks.
pub(crate) fn usual_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = ["/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin"];
    std::env::split_paths(&path).chain(others.map(PathBuf::from)).filter(|folder| folder.is_absolute()).collect()
}

/// The folders `PARENT/PREFIX*/bin`, newest version first.
pub(crate) fn versioned_folders(parent: &str, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort_by_key(|name| std::cmp::Reverse(version_in(name)));
    names.iter().map(|name| Path::new(parent).join(name).join("bin")).collect()
}

/// The first of these programs, in the first of these folders that has one.
pub(crate) fn find(folders: &[PathBuf], names: &[&str]) -> Option<PathBuf> {
    folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name))).find(|path| path.is_file())
}

/// The numbers in a name, for sorting: `postgresql@9.6` is older than `postgresql@17`.
pub(super) fn version_in(name: &str) -> Vec<u64> {
    name.split(|character: char| !character.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_numbers_not_by_letters() {
        assert!(version_in("postgresql@17") > version_in("postgresql@9.6"));
        assert!(version_in("15") > version_in("9.6"));
        assert!(version_in("mariadb@10.11") > version_in("mariadb@10.6"));
    }

    #[test]
    fn the_newest_version_comes_first() -> anyhow::Result<()> {
        let parent = tempfile::tempdir()?;
        for version in ["9.6", "17", "15"] {
            std::fs::create_dir(parent.path().join(version))?;
        }
        let folders = versioned_folders(&parent.path().to_string_lossy(), "");
        let expected = ["17", "15", "9.6"].map(|version| parent.path().join(version).join("bin"));
        assert_eq!(folders, expected);
        Ok(())
    }
}
