//! `cargo xtask api`: compares the public API of each crate with its snapshot in docs/api, or writes the snapshots.
//!
//! The snapshots let a reviewer see in a diff what changes for users. Whether a change breaks a user's program is left to the
//! reviewer. rustdoc writes the API as JSON, and the crate `public-api` makes one line of each item. Hidden items, blanket
//! implementations, derived implementations and those of auto traits are left out.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use public_api::{Builder, Error};

use test_servers::run::{target_dir, workspace_root};

use crate::output::Output;
use crate::test::{Lints, all_packages};

/// The crates that users depend on.
const CRATES: [&str; 12] = [
    "solid-notify",
    "solid-notify-core",
    "solid-notify-sql",
    "solid-notify-sweeper",
    "solid-notify-redis",
    "solid-notify-redis-connection",
    "solid-notify-timed",
    "solid-notify-channels",
    "solid-notify-ack-http",
    "solid-notify-simulate",
    "solid-notify-testkit",
    "solid-notify-conformance",
];

/// The folder of the snapshots.
const SNAPSHOTS: &str = "docs/api";

/// How the public API compares with the snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Same,
    Differs,
    /// rustdoc of the installed toolchain writes another JSON format than the crate `public-api` reads.
    UnknownFormat,
}

/// Compares the public API of each crate with its snapshot and prints the lines that differ. With `write` the snapshots become
/// the same.
pub(crate) fn api(write: bool, lints: Lints, output: &Output) -> Result<Comparison> {
    let documents = document(lints, output)?;
    let mut differs = false;
    for name in CRATES {
        let Some(current) = read(&documents.join(name).join(format!("{}.json", name.replace('-', "_"))), output)?
        else {
            return Ok(Comparison::UnknownFormat);
        };
        let file = format!("{SNAPSHOTS}/{name}.txt");
        let path = workspace_root().join(&file);
        let snapshot = match write {
            // The first run writes all of them.
            true => fs::read_to_string(&path).unwrap_or_default(),
            false => fs::read_to_string(&path)
                .with_context(|| format!("cannot read {file}; `cargo xtask api --write` writes it"))?,
        };
        let changes = changes(&snapshot, &current);
        if !changes.is_empty() {
            differs = true;
            let changes = changes.join("\n");
            output.line(&format!("{file}: - is in the snapshot only, + is in the code only\n{changes}"))?;
        }
        if write {
            fs::create_dir_all(workspace_root().join(SNAPSHOTS))
                .with_context(|| format!("cannot create {SNAPSHOTS}"))?;
            fs::write(&path, current).with_context(|| format!("cannot write {file}"))?;
        }
    }
    let (comparison, text) = match (differs, write) {
        (false, _) => (Comparison::Same, "the public API is the same as in docs/api"),
        (true, true) => (Comparison::Same, "wrote docs/api"),
        (true, false) => (
            Comparison::Differs,
            "the public API differs from docs/api; when this is intended, run `cargo xtask api --write`",
        ),
    };
    output.line(text)?;
    Ok(comparison)
}

/// Documents the libraries of the workspace as JSON, and returns the folder that has a folder for each package. A warning of rustdoc, such
/// as a broken link, is an error.
///
/// It is a run of the doc tests in which rustdoc documents instead of testing. The doc tests use the libraries that the tests have
/// compiled; `cargo doc` would check all dependencies once more. The lints must be those of the tests, or cargo compiles again.
fn document(lints: Lints, output: &Output) -> Result<PathBuf> {
    let target = target_dir();
    let folder = target.join("api");
    let mut doc = all_packages("test");
    lints.apply(&mut doc)?;
    doc.args(["--doc", "--quiet"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .env("RUSTDOC", documenting_rustdoc(&target, &folder)?);
    let outcome = output.run(&mut doc, None)?;
    if !outcome.succeeded() {
        bail!("rustdoc cannot document the workspace ({outcome:?}); its errors are above");
    }
    Ok(folder)
}

/// Returns a program that takes the arguments of a doc test, and documents the library as JSON into a folder of its package: two packages
/// have one library name. RUSTC_BOOTSTRAP lets the stable toolchain write JSON, which is unstable. In the environment of cargo the
/// variable would make build scripts run again, and after them most dependencies compile again.
fn documenting_rustdoc(target: &Path, folder: &Path) -> Result<PathBuf> {
    let program = target.join("documenting-rustdoc");
    let script = format!(
        r#"#!/bin/sh
previous=
for argument; do
    shift
    case "$previous $argument" in
        *" --test" | *" --test-run-directory" | "--test-run-directory "*) ;;
        *) set -- "$@" "$argument" ;;
    esac
    previous=$argument
done
RUSTC_BOOTSTRAP=1 exec rustdoc "$@" -Z unstable-options --output-format json --out-dir '{}'/"$CARGO_PKG_NAME"
"#,
        folder.display()
    );
    fs::create_dir_all(target)
        .and_then(|()| fs::write(&program, script))
        .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", program.display()))?;
    Ok(program)
}

/// Returns the API of a crate, one item per line, or `None` if the JSON has a format that is not known.
fn read(json: &Path, output: &Output) -> Result<Option<String>> {
    let builder = Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    match builder.omit_auto_derived_impls(true).build() {
        Ok(api) => Ok(Some(api.to_string())),
        // Valid JSON with other fields than the crate expects.
        Err(Error::SerdeJsonError(error)) if error.is_data() => {
            output.line(&format!(
                "rustdoc of this toolchain writes another JSON format than the crate `public-api` reads ({}: {error}); \
                 update this crate in xtask/Cargo.toml",
                json.display()
            ))?;
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", json.display())),
    }
}

/// Returns the lines that only one of the texts has, sorted, with `- ` for the snapshot and `+ ` for the code. A changed item is
/// one line of each.
fn changes(snapshot: &str, current: &str) -> Vec<String> {
    let mut counts = BTreeMap::<&str, i64>::new();
    snapshot.lines().for_each(|line| *counts.entry(line).or_default() -= 1);
    current.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    let mut changes = Vec::new();
    for (line, count) in counts {
        let sign = if count < 0 { '-' } else { '+' };
        changes.extend((0..count.abs()).map(|_| format!("{sign} {line}")));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_no_changes() {
        assert!(changes("", "").is_empty());
        assert!(changes("pub mod a\npub fn a::b()\n", "pub mod a\npub fn a::b()\n").is_empty());
        // Git on Windows checks out other ends of lines.
        assert!(changes("pub mod a\r\npub fn a::b()\r\n", "pub mod a\npub fn a::b()\n").is_empty());
    }

    #[test]
    fn a_changed_item_is_shown_as_it_was_and_as_it_is() {
        let snapshot = "pub mod a\npub fn a::b(u8)\npub fn a::removed()\n";
        let current = "pub mod a\npub fn a::added()\npub fn a::b(u16)\n";
        let expected = ["+ pub fn a::added()", "+ pub fn a::b(u16)", "- pub fn a::b(u8)", "- pub fn a::removed()"];
        assert_eq!(changes(snapshot, current), expected);
    }

    #[test]
    fn a_repeated_line_counts_each_time() {
        assert_eq!(changes("impl A\nimpl A\n", "impl A\n"), ["- impl A"]);
        assert_eq!(changes("", "impl A\nimpl A\n"), ["+ impl A", "+ impl A"]);
    }

    #[test]
    fn another_format_is_no_error_unlike_a_broken_file() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let json = folder.path().join("a.json");
        assert!(read(&json, &Output::Terminal).is_err());
        fs::write(&json, r#"{"root": 0"#)?;
        assert!(read(&json, &Output::Terminal).is_err());
        fs::write(&json, r#"{"format_version": 0}"#)?;
        assert_eq!(read(&json, &Output::Terminal)?, None);
        Ok(())
    }

    #[test]
    fn every_crate_of_the_library_is_compared() -> Result<()> {
        for entry in fs::read_dir(workspace_root().join("crates"))? {
            let manifest = fs::read_to_string(entry?.path().join("Cargo.toml"))?;
            assert!(CRATES.iter().any(|name| manifest.contains(&format!("\nname = \"{name}\"\n"))), "{manifest}");
        }
        Ok(())
    }
}
