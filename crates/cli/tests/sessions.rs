//! Sessions of the program on a terminal: each file of `cmd` is a document whose commands are run, and their output and exit codes compared.
//! Each has an SQLite database and a file of contexts of its own. `TRYCMD=overwrite` writes what the program prints.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

/// Runs the session of this name in a fresh folder.
fn run(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd").join(format!("{name}.md"));
    assert!(file.is_file(), "{} is missing", file.display());
    let cases = trycmd::TestCases::new();
    cases.default_bin_name("solid-notify").case(&file);
    cases.env("SOLID_NOTIFY_URL", format!("sqlite://{path}/notify.db?mode=rwc"));
    cases.env("SOLID_NOTIFY_CONTEXTS", format!("{path}/contexts.toml"));
    cases.env("SOLID_NOTIFY_WHO", "alice").env("SOLID_NOTIFY_LOG", "off").env("NO_COLOR", "1");
    // What a session reads by a reference to a secret.
    cases.env("SHOP_PASSWORD", "hunter2").env("DIR", &path);
    cases.insert_var("[DIR]", path).unwrap();
    cases.run();
}

/// Returns what the program prints as its help.
fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_solid-notify")).args(arguments).arg("--help").output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the commands that a help lists.
fn commands(help: &str) -> Vec<&str> {
    let list = help.split("Commands:\n").nth(1).unwrap_or_default().split("\n\n").next().unwrap_or_default();
    list.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[test]
fn the_book_lists_every_command_and_exit_code() {
    let book =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/program.md")).unwrap();
    let top = help(&[]);
    assert!(commands(&top).len() > 15, "{top}");
    for group in commands(&top) {
        let row = book.lines().filter(|line| line.starts_with('|') && line.contains(&format!("`{group}")));
        let rows: String = row.collect();
        assert!(!rows.is_empty(), "docs/src/program.md does not list {group}");
        for command in commands(&help(&[group])) {
            let listed = rows.contains(&format!("`{command}`")) || rows.contains(&format!("`{group} {command}`"));
            assert!(listed, "docs/src/program.md does not list {group} {command}");
        }
    }
    let codes = top.split("Exit codes:").nth(1).unwrap().lines().filter_map(|line| line.split_whitespace().next());
    let codes: Vec<&str> = codes.collect();
    assert_eq!(codes, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert!(codes.iter().all(|code| book.contains(&format!("\n| {code} | "))));
}

/// Runs a command on the store of this folder with the log that a person sees, and returns what it prints on the error stream.
fn log_of(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_solid-notify"));
    command
        .args(arguments)
        .env("SOLID_NOTIFY_URL", format!("sqlite://{}?mode=rwc", folder.join("notify.db").display()));
    command.env("SOLID_NOTIFY_CONTEXTS", folder.join("contexts.toml")).env("SOLID_NOTIFY_WHO", "alice");
    String::from_utf8(command.env_remove("SOLID_NOTIFY_LOG").output().unwrap().stderr).unwrap()
}

#[test]
fn purge_in_this_process_prints_no_line_for_each_notice() {
    let folder = tempfile::tempdir().unwrap();
    let log = |arguments: &[&str]| log_of(folder.path(), arguments);
    log(&["migrate"]);
    let config = r#"handler_config={"url":"http://127.0.0.1:9/"}"#;
    log(&["def", "create", "sync", "handler=webhook", "max_retry_times=0", config]);
    for order in ["1", "2"] {
        log(&["add", "sync", order]);
    }
    let sent = log(&["run", "--until-idle", "--allow-network", "127.0.0.0/8"]);
    assert!(sent.contains("no living node sends alerts"), "{sent}");
    let purged = log(&["dead", "purge", "--all", "--reason", "cleaning", "--here", "--yes"]);
    assert!(purged.contains("sync        dead letter") && !purged.contains("purged a"), "{purged}");
}

macro_rules! sessions {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        /// A file without a test would not be run.
        #[test]
        fn every_session_has_a_test() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd");
            let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut found: Vec<String> = files.filter_map(|file| Some(file.strip_suffix(".md")?.to_owned())).collect();
            found.sort_unstable();
            assert_eq!(found, [$(stringify!($name)),*]);
        }
    };
}

sessions!(adding, alerts, bulk, contexts, dead_letters, definitions, files, hostile, notices, observing, trials, usage);
