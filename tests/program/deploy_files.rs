//! The files of `examples/deploy` pass the checkers of their formats, and each checker refuses a file with a mistake.

use std::path::Path;
use std::process::{Command, Output};

use test_servers::deploy::{checker, file, systemd_analyze};

const UNIT: &str = "solid-notify.service";
const CONFIG: &str = "solid-notify.toml";
const PROGRAM: &str = env!("CARGO_BIN_EXE_notify-program");

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

/// Runs a checker over a text in a file of this name.
fn run(mut command: Command, name: &str, text: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    command.arg(path).output().unwrap()
}

/// Asserts that a checker accepts a file, and refuses it once `right` has become `wrong`.
fn assert_checked(command: impl Fn() -> Command, name: &str, [right, wrong]: [&str; 2]) {
    let good = text(name).replace("/usr/local/bin/solid-notify serve", &format!("{PROGRAM} serve"));
    let output = run(command(), name, &good);
    assert!(is_accepted(&output), "{name}: {output:?}");
    assert!(good.contains(right), "{name} has no {right}");
    let output = run(command(), name, &good.replacen(right, wrong, 1));
    assert!(!is_accepted(&output), "{name} with {wrong}: {output:?}");
}

/// systemd reports what it does not know, and does not fail.
fn is_accepted(output: &Output) -> bool {
    output.status.success() && !String::from_utf8_lossy(&output.stderr).contains(", ignoring")
}

mod deploy {
    use super::*;

    #[test]
    fn systemd_accepts_the_unit_and_rates_it_as_confined() {
        // A page of the manual is found where the program is installed.
        let verify = || {
            let mut command = systemd_analyze().unwrap();
            command.args(["verify", "--man=no"]);
            command
        };
        assert_checked(verify, UNIT, ["Type=notify", "Type=notified"]);
        assert_checked(verify, UNIT, ["WatchdogSec=30", "WatchdogSec=seldom"]);
        // From 0 (confined) to 100; a service without settings has 96.
        let rate = || {
            let mut command = systemd_analyze().unwrap();
            command.args(["security", "--offline=true", "--threshold=15"]);
            command
        };
        assert_checked(rate, UNIT, ["DynamicUser=yes", "User=root"]);
    }

    #[test]
    fn dockerfile_passes_its_linter() {
        let lint = || checker("hadolint").unwrap();
        assert_checked(lint, "Dockerfile", ["rust:1.95-bookworm", "rust:latest"]);
    }

    #[test]
    fn compose_file_fits_its_specification() {
        let check = || {
            let mut command = checker("check-jsonschema").unwrap();
            command.args(["--builtin-schema", "vendor.compose-spec"]);
            command
        };
        assert_checked(check, "compose.yaml", ["stop_grace_period", "stop_grace_periods"]);
    }

    #[test]
    fn kubernetes_manifest_fits_the_schemas_of_its_kinds() {
        let check = || {
            let mut command = checker("kubernetes-validate").unwrap();
            command.arg("--strict");
            command
        };
        assert_checked(check, "kubernetes.yaml", ["livenessProbe", "livelinessProbe"]);
    }
}

#[test]
fn configuration_is_accepted_by_the_program_and_is_that_of_kubernetes() {
    let check = || {
        let mut command = Command::new(PROGRAM);
        command.env("SHOP_PASSWORD", "secret").env("TOKEN_KEY", "x".repeat(32)).args(["serve", "--check", "--config"]);
        command
    };
    assert_checked(check, CONFIG, ["shutdown_grace", "shutdown_grase"]);
    let manifest = text("kubernetes.yaml");
    let copied: Vec<&str> = manifest.lines().skip_while(|line| !line.ends_with("toml: |")).skip(1).collect();
    let copied = copied.iter().take_while(|line| **line != "---").map(|line| line.trim_start());
    assert_eq!(copied.collect::<Vec<_>>().join("\n"), text(CONFIG).trim_end());
}

/// systemd kills a service that it hears nothing of for this long. Threads of databases are silent after 10 s.
#[test]
fn unit_uses_the_watchdog() {
    let seconds = text(UNIT).lines().find_map(|line| line.strip_prefix("WatchdogSec=")?.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| (20..=60).contains(&seconds)), "{seconds:?}");
}

#[test]
fn program_is_where_the_files_look_for_it() {
    let built = "target/dist/solid-notify /usr/local/bin/solid-notify";
    assert!(text("Dockerfile").contains(built));
    assert!(text(UNIT).contains("ExecStart=/usr/local/bin/solid-notify serve"));
    assert!(Path::new(&file("../../Cargo.lock")).exists(), "the build of the image is --locked");
}
