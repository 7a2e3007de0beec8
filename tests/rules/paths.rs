//! Paths in the documents: each file or folder that a page names in code font, and each file that cargo-mutants leaves out, exists.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Adds the files below a folder, relative to the root. Folders of builds and of git are left out.
fn collect(folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_left_out = path.ends_with("target") || path.ends_with(".git");
        if path.is_dir() && !is_left_out {
            collect(&path, files);
        } else if path.is_file() {
            files.push(path.strip_prefix(root()).unwrap().display().to_string());
        }
    }
}

fn all_files() -> Vec<String> {
    let mut files = Vec::new();
    collect(&root(), &mut files);
    files
}

/// Whether a file has this path, or this folder if the path ends with `/`. Documents may leave out the first folders of a path,
/// and `src`: `sql/claim/due.rs` is `crates/sql/src/claim/due.rs`.
fn exists(path: &str, files: &[String]) -> bool {
    let end = format!("/{path}");
    files
        .iter()
        .flat_map(|file| [format!("/{file}"), format!("/{}", file.replace("src/", ""))])
        .any(|file| if path.ends_with('/') { file.contains(&end) } else { file.ends_with(&end) })
}

/// Returns the spans in code font that are paths of sources, outside of blocks.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    let spans = prose.flat_map(|part| part.lines()).flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| {
        let extensions = ["rs", "sql", "lua", "toml", "md"];
        let name = span.rsplit('/').next().unwrap_or_default();
        let is_file = name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && extensions.contains(&end));
        let is_path = span.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-/".contains(letter));
        is_path && !span.starts_with('/') && (is_file || name.is_empty())
    })
}

#[test]
fn every_path_in_a_document_exists() {
    let files = all_files();
    let mut lost = Vec::new();
    let mut count = 0;
    for page in files.iter().filter(|file| file.ends_with(".md")) {
        let text = fs::read_to_string(root().join(page)).unwrap();
        // Programs write into this folder.
        for path in paths(&text).filter(|path| !path.starts_with("target/")) {
            count += 1;
            if !exists(path, &files) {
                lost.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(count >= 200, "only {count} paths found");
    assert!(lost.is_empty(), "paths that do not exist:\n  {}", lost.join("\n  "));
}

#[test]
fn every_file_that_cargo_mutants_leaves_out_exists() {
    let files = all_files();
    let text = fs::read_to_string(root().join(".cargo/mutants.toml")).unwrap();
    let globs = text.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
    let mut lost = Vec::new();
    for glob in globs {
        let paths: Vec<String> = match glob.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)))
        {
            Some((head, (names, tail))) => names.split(',').map(|name| format!("{head}{name}{tail}")).collect(),
            None => vec![glob.to_owned()],
        };
        let folder = |path: &str| path.split_once('*').map_or_else(|| path.to_owned(), |(folder, _)| folder.to_owned());
        lost.extend(paths.into_iter().filter(|path| !exists(&folder(path), &files)));
    }
    assert!(lost.is_empty(), "globs without a file:\n  {}", lost.join("\n  "));
}
