//! The documents name the metrics that there are, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use solid_notify::metrics::{ALL, Kind};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The names of metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !word(c)).filter(|word| word.starts_with("solid_notify_"));
    words.map(str::to_owned).collect()
}

/// The names under which Prometheus has them.
fn known() -> BTreeSet<String> {
    let series = ALL.iter().flat_map(|metric| {
        let suffixes: &[&str] = if metric.kind == Kind::Histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
        suffixes.iter().map(|suffix| format!("{}{suffix}", metric.name))
    });
    series.collect()
}

#[test]
fn the_list_of_metrics_names_all_of_them_and_no_other() {
    let page = named(&read("docs/src/metrics.md"));
    let all: BTreeSet<String> = ALL.iter().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(page, all);
    let text = read("docs/src/metrics.md");
    for metric in ALL {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{}`", metric.name))).unwrap();
        for label in metric.labels {
            assert!(row.contains(&format!("`{label}`")), "{row}");
        }
        let kind = format!("{:?}", metric.kind).to_lowercase();
        assert!(row.contains(&kind), "{row}: it is a {kind}");
    }
}

#[test]
fn the_dashboard_and_the_alert_rules_ask_for_metrics_that_there_are() {
    let dashboard = read("docs/src/grafana.json");
    let parsed: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(parsed["panels"].as_array().unwrap().len() >= 8);
    let rules = read("docs/src/prometheus-alerts.yml");
    for (file, text) in [("the dashboard", &dashboard), ("the alert rules", &rules)] {
        let unknown: Vec<String> = named(text).difference(&known()).cloned().collect();
        assert!(unknown.is_empty(), "{file} ask for {unknown:?}");
        assert!(named(text).len() >= 5, "{file} ask for little");
    }
    // Every node shows the whole snapshot: its sum over nodes says nothing.
    for gauge in ALL.iter().filter(|metric| metric.kind == Kind::Gauge) {
        for text in [&dashboard, &rules] {
            assert!(!text.contains(&format!("sum({}", gauge.name)), "a sum over nodes of {}", gauge.name);
        }
    }
}

#[test]
fn other_documents_name_only_metrics_that_there_are() {
    for file in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/src/limits.md", "docs/src/alerts.md"] {
        let names: BTreeSet<String> = ALL.iter().map(|metric| metric.name.to_owned()).collect();
        let unknown: Vec<String> =
            named(&read(file)).into_iter().filter(|name| !names.contains(name) && !known().contains(name)).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}");
    }
}

#[test]
fn the_name_of_a_metric_stands_in_one_file() {
    let mut folders = vec![root().join("crates")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("core/src/metrics.rs")
                && ALL.iter().any(|metric| fs::read_to_string(&path).unwrap().contains(&format!("{:?}", metric.name)))
            {
                found.push(path);
            }
        }
    }
    assert!(found.is_empty(), "{found:?}");
}
