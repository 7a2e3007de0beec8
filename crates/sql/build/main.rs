//! Renders the `.sql` files below `src` for each dialect, and writes a struct for each statement. An error names the file and the line.

mod sql;

use std::path::{Path, PathBuf};
use std::{env, fs, process};

fn main() {
    if let Err(problem) = generate() {
        eprintln!("{problem}");
        process::exit(1);
    }
}

/// Writes one file of Rust with a module for each `.sql` file.
fn generate() -> Result<(), String> {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build");
    let mut paths = Vec::new();
    find(Path::new("src"), &mut paths)?;
    paths.sort();
    let mut files = Vec::new();
    for path in &paths {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        files.push(sql::parse::parse(&path.display().to_string(), &text)?);
    }
    let library = sql::render::Library::new(&files)?;
    library.all_are_used()?;
    let named: Vec<(String, &sql::parse::File)> = paths
        .iter()
        .map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
        .zip(&files)
        .collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    write(&out.join("statements.rs"), &sql::write::rust(&named, &library)?)
}

fn find(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            find(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "sql") {
            paths.push(path);
        }
    }
    Ok(())
}

/// Writes a file, unless it has the text already: a file that changes is compiled again.
fn write(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
