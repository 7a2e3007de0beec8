//! `bench count` on SQLite with few notices: it writes the file, passes on it, and fails on a file that says that a notice cost less.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, Output};

fn count(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(["count", "--db", "sqlite", "--work", "enqueue", "--quick", "--runs", "1", "--file"]).arg(file);
    command.args(arguments).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Halves the counter in the part of the work `enqueue`.
fn halved(text: &str, counter: &str) -> String {
    let start = text.find("[sqlite.enqueue]").unwrap();
    let line = text[start..].lines().find(|line| line.starts_with(counter)).unwrap();
    let value: f64 = line.split(" = ").nth(1).unwrap().parse().unwrap();
    assert!(value > 0.0, "{text}");
    text.replace(line, &format!("{counter} = {:?}", value / 2.0))
}

#[test]
fn counts_pass_on_their_own_file_and_fail_on_a_doctored_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("counts.toml");
    let written = count(&file, &["--write"]);
    assert!(written.status.success(), "{}", printed(&written));
    let text = std::fs::read_to_string(&file).unwrap();

    let passed = count(&file, &["--check"]);
    assert!(passed.status.success(), "{}", printed(&passed));

    std::fs::write(&file, halved(&text, "wal_bytes")).unwrap();
    let failed = count(&file, &["--check"]);
    let shown = printed(&failed);
    assert!(!failed.status.success(), "{shown}");
    assert!(shown.contains("GREW: sqlite enqueue wal_bytes was "), "{shown}");
}
