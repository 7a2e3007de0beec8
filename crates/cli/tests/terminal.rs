//! The program on a terminal: questions and their answers, `top`, and `run` until a signal.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use rexpect::process::{Signal, WaitStatus};
use rexpect::session::{PtySession, spawn_command};
use tempfile::TempDir;

/// No test needs as long as this. A busy machine may.
const LIMIT_MS: u64 = 60_000;

/// A folder with a database whose context is a production context.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { folder: tempfile::tempdir().unwrap() };
        let url = format!("sqlite://{}?mode=rwc", site.folder.path().join("notify.db").display());
        site.succeeds(&["context", "add", "shop", &url, "--production"]);
        site.succeeds(&["context", "use", "shop"]);
        site.succeeds(&["--yes", "migrate"]);
        let config = r#"handler_config={"url":"https://erp.example.org/"}"#;
        site.succeeds(&["--yes", "def", "create", "sync", "handler=webhook", config]);
        site
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_solid-notify"));
        command.args(arguments).env_remove("SOLID_NOTIFY_URL").env("SOLID_NOTIFY_LOG", "off").env("TERM", "xterm");
        command.env("SOLID_NOTIFY_CONTEXTS", self.folder.path().join("contexts.toml"));
        command
    }

    /// Runs a command without a terminal. Returns what it printed.
    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a command on a terminal, whose size would be zero.
    fn on_a_terminal(&self, arguments: &[&str]) -> PtySession {
        let program = self.command(arguments);
        let mut command = Command::new("sh");
        command
            .args(["-c", "stty rows 30 cols 120; exec \"$@\"", "sh"])
            .arg(program.get_program())
            .args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        spawn_command(command, Some(LIMIT_MS)).unwrap()
    }

    fn is_enabled(&self) -> bool {
        self.succeeds(&["def", "export"]).contains("[sync]") && !self.succeeds(&["def", "export"]).contains("enabled")
    }
}

/// Returns the exit code.
fn ended(session: &mut PtySession) -> i32 {
    session.exp_eof().unwrap();
    match session.process().wait().unwrap() {
        WaitStatus::Exited(_, code) => code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn change_of_a_production_context_is_done_after_yes_alone() {
    let site = Site::new();
    for (answer, code, enabled) in [("n", 7, true), ("", 7, true), ("please", 7, true), ("Y", 0, false)] {
        let mut session = site.on_a_terminal(&["def", "pause", "sync"]);
        session.exp_string("in the production context \"shop\". Continue? [y/N]").unwrap();
        session.send_line(answer).unwrap();
        assert_eq!((ended(&mut session), site.is_enabled()), (code, enabled), "{answer:?}");
    }
}

#[test]
fn top_draws_the_screen_and_ends_by_q() {
    let site = Site::new();
    for key in ["q", "\u{3}"] {
        let mut session = site.on_a_terminal(&["top"]);
        session.exp_string("minute,").unwrap();
        session.exp_string("sync").unwrap();
        session.send("f").unwrap();
        session.flush().unwrap();
        session.exp_string("frozen").unwrap();
        session.send(key).unwrap();
        session.flush().unwrap();
        assert_eq!(ended(&mut session), 0);
    }
}

#[test]
fn run_says_how_to_end_it_and_prints_its_tally_after_a_signal() {
    let site = Site::new();
    for signal in [Some(Signal::SIGTERM), None] {
        let mut session = site.on_a_terminal(&["--yes", "run"]);
        session.exp_string("runs; Ctrl-C stops it").unwrap();
        match signal {
            Some(signal) => session.process_mut().signal(signal).unwrap(),
            None => session.send_control('c').unwrap(),
        }
        session.exp_string("dead letters: 0").unwrap();
        assert_eq!(ended(&mut session), 0);
    }
}
