//! The published packages: each has all files that its sources include, depends only on published crates, and sets no feature that changes programs of
//! users.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Runs cargo without a network and returns its printout.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).arg("--offline").current_dir(root()).output().unwrap();
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The crates that are published, by name, as cargo sees them.
fn published() -> BTreeMap<String, Value> {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let named = packages.filter(|package| package["publish"].is_null());
    let published: BTreeMap<_, _> = named.map(|p| (p["name"].as_str().unwrap().to_owned(), p.clone())).collect();
    assert!(published.len() >= 4, "{:?}", published.keys());
    published
}

fn folder(package: &Value) -> PathBuf {
    Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned()
}

fn listed(name: &str) -> Vec<PathBuf> {
    cargo(&["package", "--list", "--allow-dirty", "--package", name]).lines().map(PathBuf::from).collect()
}

/// The files that a source text includes, relative to its own folder. The README is named by cargo, and a crate's root includes it.
fn includes<'a>(file: &Path, text: &'a str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in ["include_str!(", "include_bytes!(", "include!("] {
        for (at, _) in text.match_indices(name) {
            let rest = &text[at + name.len()..];
            if rest.starts_with(r#"concat!(env!("CARGO_MANIFEST_DIR"), "/", env!("CARGO_PKG_README"))"#) {
                found.push("../README.md");
                continue;
            }
            // What a build script writes is made from files that cargo lists, too.
            if rest.starts_with(r#"concat!(env!("OUT_DIR"), "#) {
                continue;
            }
            let path = rest.strip_prefix('"').and_then(|rest| rest.split('"').next());
            found.push(path.unwrap_or_else(|| panic!("{}: cannot read this {name}…)", file.display())));
        }
    }
    found
}

/// Returns `path` without `..`, or `None` where it leaves the package.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    Some(normal)
}

#[test]
fn every_package_has_in_it_what_its_sources_include() {
    let mut count = 0;
    for (name, package) in published() {
        let list = listed(&name);
        for file in list.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
            let text = fs::read_to_string(folder(&package).join(file)).unwrap();
            for included in includes(file, &text) {
                let target = inside(&file.parent().unwrap().join(included));
                let there = target.as_ref().is_some_and(|target| list.contains(target));
                assert!(there, "{name}: {} includes {included:?}, which is not in the package", file.display());
                count += 1;
            }
        }
    }
    assert!(count >= 4, "only {count} includes were found");
}

#[test]
fn the_sql_package_has_the_migrations_in_it() {
    let list = listed("solid-notify-sql");
    for dialect in ["postgres", "mysql", "sqlite"] {
        for name in ["0001_notify.sql", "0002_notify_add.sql", "0003_notify_ack.sql", "0004_notify_views.sql"] {
            let file = Path::new("migrations").join(dialect).join(name);
            assert!(list.contains(&file), "{} is missing", file.display());
        }
    }
}

#[test]
fn every_package_names_a_version_of_what_it_needs_and_says_what_it_is() {
    let published = published();
    for (name, package) in &published {
        for dependency in package["dependencies"].as_array().unwrap() {
            // The package omits dependencies of tests alone, unless they have a version.
            if dependency["path"].is_null() || (dependency["kind"] == "dev" && dependency["req"] == "*") {
                continue;
            }
            let needed = dependency["name"].as_str().unwrap();
            let needed_package =
                published.get(needed).unwrap_or_else(|| panic!("{name} needs {needed}, which is not published"));
            assert_eq!(
                dependency["req"].as_str().unwrap().trim_start_matches('^'),
                needed_package["version"].as_str().unwrap(),
                "{name} needs another version of {needed} than the one beside it"
            );
        }
        for field in ["description", "license", "rust_version"] {
            assert!(package[field].is_string(), "{name} has no {field}");
        }
    }
}

/// The packages as a registry would get them.
#[test]
fn the_packed_files_are_those_of_the_repository() {
    let target = tempfile::tempdir().unwrap();
    let published = published();
    let mut arguments =
        vec!["package", "--no-verify", "--allow-dirty", "--target-dir", target.path().to_str().unwrap()];
    for name in published.keys() {
        arguments.extend(["--package", name]);
    }
    cargo(&arguments);
    for (name, package) in &published {
        let unpacked = format!("{name}-{}", package["version"].as_str().unwrap());
        let archive = target.path().join("package").join(format!("{unpacked}.crate"));
        let tar = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(target.path()).status().unwrap();
        assert!(tar.success(), "{}", archive.display());
        let mut compared = 0;
        for file in listed(name) {
            let packed = target.path().join(&unpacked).join(&file);
            assert!(packed.is_file(), "{} is no file", packed.display());
            // Cargo writes these itself, and copies the README from the root.
            if ["Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json", "README.md"]
                .iter()
                .any(|own| file == Path::new(own))
            {
                continue;
            }
            assert_eq!(
                fs::read(&packed).unwrap(),
                fs::read(folder(package).join(&file)).unwrap(),
                "{name}: {}",
                file.display()
            );
            compared += 1;
        }
        assert!(compared > 0, "{name} has no files");
    }
    let front = format!("solid-notify-{}", published["solid-notify"]["version"].as_str().unwrap());
    let readme = target.path().join(front).join("README.md");
    assert_eq!(fs::read(readme).unwrap(), fs::read(root().join("README.md")).unwrap());
}

/// The features of a dependency are united into the programs of users, where `arbitrary_precision` would change how every `serde_json::Value` reads
/// its numbers.
#[test]
fn no_package_makes_serde_json_keep_all_digits() {
    let version = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let arguments = ["metadata", "--all-features", "--format-version", "1", "--filter-platform", host];
    let metadata: Value = serde_json::from_str(&cargo(&arguments)).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap().iter();
    let of_serde_json: Vec<_> = nodes.filter(|node| node["id"].as_str().unwrap().contains("#serde_json@")).collect();
    assert!(!of_serde_json.is_empty());
    for node in of_serde_json {
        let features = node["features"].as_array().unwrap();
        assert!(
            !features.is_empty() && !features.contains(&"arbitrary_precision".into()),
            "{}: {features:?}",
            node["id"]
        );
    }
}
