//! The bench runs on each database and prints its figures: as a program, a two-hundredth of everything, once.
//!
//! A test cannot check speed; `run --check` does that.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use serde_json::Value;

/// The workloads that Redis has.
const ON_REDIS: &[&str] = &["enqueue_tx", "drain", "latency", "steady"];

/// The workloads and a figure that each must print.
const WORKLOADS: &[(&str, &str)] = &[
    ("enqueue_tx", "ratio"),
    ("drain", "ratio"),
    ("drain_no_history", "ratio"),
    ("latency", "p99_ms"),
    ("steady", "ratio"),
    ("backlog", "rss_mib"),
    ("held_xmin", "ratio"),
    ("dead_target", "ratio"),
    ("add_many", "ours"),
];

macro_rules! on_each_database {
    ($($module:ident: $database:literal),+) => {
        $(mod $module {
            #[test]
            fn quick_run_reports_every_figure() {
                super::quick_run_reports_every_figure($database);
            }
        })+
    };
}
on_each_database!(
    sqlite: "sqlite", normal_sqlite: "sqlite_normal", postgres: "postgres", mariadb: "mariadb", mysql: "mysql", redis: "redis"
);

fn quick_run_reports_every_figure(database: &str) {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("results.json");
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["run", "--quick", "--check", "--db", database, "--json"])
        .arg(&json)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.trim_end().ends_with("missed: no target was checked"), "{told}");

    let text = std::fs::read_to_string(&json).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let environment = &lines.next().unwrap()["environment"];
    assert!(environment["cores"].as_u64().unwrap() > 0);
    assert!(environment["databases"][database]["server_version"].is_string(), "{environment}");
    let results: Vec<Value> = lines.collect();
    for (workload, figure) in WORKLOADS {
        let found = results.iter().find(|line| line["db"] == *database && line["workload"] == *workload);
        let expected = match database {
            "postgres" => true,
            "redis" => ON_REDIS.contains(workload),
            _ => *workload != "held_xmin",
        };
        assert_eq!(found.is_some(), expected, "{workload} on {database}: {text}");
        if let Some(line) = found {
            assert!(line[figure].as_f64().unwrap() > 0.0, "{line}");
            assert!(line["ok"].is_null(), "a quick run judges nothing: {line}");
        }
    }
}

#[test]
fn quick_run_of_webhooks_reports_both_figures() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(["webhook", "--quick", "--check"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    for figure in ["throughput, to the bare loop: ", "median delivery time with hanging targets, to that without: "] {
        let line =
            told.lines().find_map(|line| line.strip_prefix(figure)).unwrap_or_else(|| panic!("{figure}: {told}"));
        assert!(line.split(' ').next().unwrap().parse::<f64>().unwrap() > 0.0, "{line}");
    }
}

/// The peers' program is not compiled with the workspace, so a script stands in for it: one peer has figures, another one fails.
#[cfg(unix)]
#[test]
fn quick_run_of_peers_reports_every_side_and_failure() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("peers");
    let script = "#!/bin/sh\nif [ $2 = river_bench ]; then echo 'no such table' >&2; exit 1; fi\n\
        echo '{\"rate\": 5.5, \"p50_ms\": 1.5, \"p99_ms\": 2.5}'\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let json = directory.path().join("results.json");
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["peers", "--quick", "--db", "sqlite", "--peer", "river", "--workload", "drain,latency", "--program"])
        .arg(&program)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&json).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sides: Vec<_> = lines.iter().map(|line| line["side"].as_str().unwrap()).collect();
    assert_eq!(sides[..4], ["ours", "raw", "river_readme", "river_bench"], "{text}");
    assert_eq!(sides.len(), 8, "{text}");
    assert!(lines[0]["rate"].as_f64().unwrap() > 0.0 && lines[1]["rate"].as_f64().unwrap() > 0.0, "{text}");
    assert_eq!(lines[2]["rate"], 5.5, "{text}");
    assert_eq!(lines[3]["error"], "no such table", "{text}");
    assert_eq!((&lines[6]["p50_ms"], &lines[6]["p99_ms"]), (&Value::from(1.5), &Value::from(2.5)), "{text}");
}
