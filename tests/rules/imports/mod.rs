//! Files of a crate import downwards only: no file needs, over any number of imports, a file that needs it. The same holds of the
//! folders of a crate; the files beside them stand between these.
//!
//! `modules.rs` reads the modules of a crate and finds the file that defines a name. A re-export is no need of its own: who
//! imports a name by it needs the file that defines the name.

mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use modules::Crate;

/// The files that each file needs.
type Needs = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_files_of_a_crate_import_each_other() {
    let mut circles = Vec::new();
    for (name, needs) in crates() {
        circles.extend(circles_in(&needs).iter().map(|circle| format!("{name}:{}", drawn(circle, &needs))));
    }
    assert!(circles.is_empty(), "{} circles of imports:\n  {}", circles.len(), circles.join("\n  "));
}

/// Returns the crates by the names of their folders, each with what its files need.
fn crates() -> Vec<(String, Needs)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("crates");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), Crate::read(&entry.path().join("src")).needs())
    };
    std::fs::read_dir(crates).unwrap().map(read).collect()
}

#[test]
fn a_circle_over_a_re_export_and_a_macro_is_found() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; pub use a::A; pub use b::B;"),
        ("a.rs", "use crate::B; pub struct A(B);"),
        ("b.rs", "pub struct B; fn f() { vec![super::c::f()]; }"),
        ("c.rs", "pub fn f() -> crate::A { loop {} } #[cfg(test)] mod tests { use crate::D; }"),
        ("d.rs", "use crate::a::A;"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let needs = Crate::read(folder.path()).needs();
    assert_eq!(circles_in(&needs), [["a.rs", "b.rs", "c.rs"]]);
}

#[test]
fn a_circle_over_a_name_that_a_macro_declares_is_found() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "made! { A: one, two }  fn f(_: crate::b::B) {}"),
        ("b.rs", "use crate::a::A; pub struct B(A);"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    assert_eq!(circles_in(&Crate::read(folder.path()).needs()), [["a.rs", "b.rs"]]);
}

#[test]
fn no_folders_of_a_crate_import_each_other() {
    let mut circles = Vec::new();
    for (name, needs) in crates() {
        let folders = folders_of(&needs);
        circles.extend(circles_in(&folders).iter().map(|circle| format!("{name}:{}", drawn(circle, &folders))));
    }
    assert!(circles.is_empty(), "{} circles of folders:\n  {}", circles.len(), circles.join("\n  "));
}

/// Returns which folders below the root of a crate need each other directly. Files beside the folders count for none, and so does the
/// folder of shortcuts: the plain paths ask for them, and they use the statements of the plain paths.
fn folders_of(needs: &Needs) -> Needs {
    let folder =
        |file: &str| file.split_once('/').map(|(folder, _)| folder.to_owned()).filter(|folder| folder != "shortcuts");
    let mut folders = Needs::new();
    for (file, needed) in needs {
        let Some(of) = folder(file) else { continue };
        let others = needed.iter().filter_map(|file| folder(file)).filter(|other| *other != of);
        folders.entry(of.clone()).or_default().extend(others);
    }
    folders
}

/// Returns what each file of a circle needs of the others.
fn drawn(circle: &[String], needs: &Needs) -> String {
    let within =
        |file: &String| circle.iter().filter(|other| needs[file].contains(*other)).cloned().collect::<Vec<_>>();
    circle.iter().map(|file| format!("\n    {file} -> {}", within(file).join(", "))).collect()
}

/// Returns the groups of files each of which needs every other one.
fn circles_in(needs: &Needs) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        needs.keys().map(|file| (file, reachable(needs, file))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (file, far) in &reached {
        if far.contains(*file) && !circles.iter().any(|circle| circle.contains(file)) {
            let back = far.iter().filter(|other| reached.get(**other).is_some_and(|others| others.contains(file)));
            circles.push(back.map(|other| (*other).clone()).collect());
        }
    }
    circles
}

fn reachable<'a>(needs: &'a Needs, from: &str) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = needs.get(from).into_iter().flatten().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(needs.get(file).into_iter().flatten());
        }
    }
    reached
}
