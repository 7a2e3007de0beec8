//! The report of a run: JSON lines while it runs, and a table at its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{Table, presets::UTF8_BORDERS_ONLY};
use serde::Serialize;

use crate::databases::Product;
use crate::run::{Plan, RAW};
use crate::targets::{Target, Yields};
use crate::workloads::{Figures, Workload};

/// The result of one workload on one database.
#[derive(Debug, Serialize)]
pub struct Line {
    db: Product,
    workload: Workload,
    #[serde(flatten)]
    figures: Figures,
    target: Option<Target>,
    /// Set where the target is reached without the cost of a guarantee.
    #[serde(skip_serializing_if = "Option::is_none")]
    yields: Option<Yields>,
    /// Whether the target is reached; none where no target is compared.
    ok: Option<bool>,
}

impl Line {
    /// Compares the target, unless the run is a quick one, or one that looks for the cost of the tables.
    pub fn new(db: Product, workload: Workload, figures: Figures, plan: Plan) -> Self {
        let target = Target::of(db, workload);
        let ok = target.filter(|_| !plan.quick && !plan.like_ours).map(|target| target.is_reached(&figures));
        Self { db, workload, figures, target, yields: None, ok }
    }

    /// True if a ratio to raw SQL is missed. Then the tables may be the reason.
    pub fn misses_ratio(&self) -> bool {
        self.ok == Some(false)
            && matches!(self.target, Some(Target::Ratio(_)))
            && matches!(&self.figures, Figures::Compared(compared) if compared.against == RAW)
    }

    /// Marks the line as yielding to a guarantee where the target allows that.
    pub fn yielding(mut self, like_ours: Option<&Figures>) -> Self {
        if self.ok == Some(false) {
            self.yields = self.target.and_then(|target| target.yields(&self.figures, like_ours));
            self.ok = Some(self.yields.is_some());
        }
        self
    }
}

/// The environment of a run.
#[derive(Debug, Serialize)]
pub struct Environment {
    /// The version of this crate.
    pub bench: &'static str,
    /// True for an optimised build; the figures of another one mean nothing.
    pub optimised: bool,
    /// Logical processors.
    pub cores: usize,
    /// The processor's name, if known.
    pub processor: Option<String>,
    /// The operating system and its architecture.
    pub system: String,
    /// Pairs of repetitions.
    pub repetitions: usize,
    /// True for a two-hundredth of everything.
    pub quick: bool,
    /// True where the raw side has tables like ours.
    pub like_ours: bool,
    /// The version and the durability settings of each server.
    pub databases: BTreeMap<String, BTreeMap<String, String>>,
}

impl Environment {
    /// Returns the environment of this machine.
    pub fn new(plan: Plan, databases: BTreeMap<String, BTreeMap<String, String>>) -> Self {
        let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find(|line| line.starts_with("model name"));
        Self {
            bench: env!("CARGO_PKG_VERSION"),
            optimised: !cfg!(debug_assertions),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: model.and_then(|line| line.split(": ").nth(1)).map(str::to_owned),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            repetitions: plan.repetitions,
            quick: plan.quick,
            like_ours: plan.like_ours,
            databases,
        }
    }
}

/// The report of a run.
pub struct Report {
    json: Option<File>,
    lines: Vec<Line>,
}

impl Report {
    /// Starts the report with the environment.
    ///
    /// # Errors
    /// Fails where the file cannot be written.
    pub fn begin(json: Option<&Path>, environment: &Environment) -> Result<Self> {
        let create = |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        let mut report = Self { json: json.map(create).transpose()?, lines: Vec::new() };
        report.write(&serde_json::json!({ "environment": environment }))?;
        Ok(report)
    }

    /// Adds a result and writes it to the file at once, because a later workload may fail.
    ///
    /// # Errors
    /// Fails where the file cannot be written.
    pub fn add(&mut self, line: Line) -> Result<()> {
        self.write(&line)?;
        self.lines.push(line);
        Ok(())
    }

    fn write(&mut self, value: &impl Serialize) -> Result<()> {
        if let Some(file) = &mut self.json {
            writeln!(file, "{}", serde_json::to_string(value)?)?;
        }
        Ok(())
    }

    /// Prints the table and which targets were missed; returns how many.
    pub fn end(&self) -> usize {
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY);
        table.set_header(["db", "workload", "ours", "raw", "ratio [low..high]", "target", ""]);
        for line in &self.lines {
            let [ours, raw, ratio] = cells(&line.figures);
            let target = line.target.map_or_else(String::new, |target| target.to_string());
            let result = match (line.ok, line.yields) {
                (_, Some(yields)) => format!("yields: {:.3}", yields.left),
                (Some(true), None) => "ok".to_owned(),
                (Some(false), None) => "MISSED".to_owned(),
                (None, None) => String::new(),
            };
            table.add_row([line.db.to_string(), line.workload.to_string(), ours, raw, ratio, target, result]);
        }
        println!("{table}");
        for (line, yields) in self.lines.iter().filter_map(|line| Some((line, line.yields?))) {
            println!("{} on {} yields to {}: {:.3} is left", line.workload, line.db, yields.to, yields.left);
        }
        let missed = self.lines.iter().filter(|line| line.ok == Some(false));
        let missed: Vec<String> = missed.map(|line| format!("{} on {}", line.workload, line.db)).collect();
        if self.lines.iter().all(|line| line.ok.is_none()) {
            println!("missed: no target was checked");
        } else {
            println!("missed: {}", if missed.is_empty() { "none".to_owned() } else { missed.join(", ") });
        }
        missed.len()
    }
}

/// Returns our figure, that of the other side, and how they compare.
fn cells(figures: &Figures) -> [String; 3] {
    match figures {
        Figures::Compared(it) => [
            format!("{:.0}/s", it.ours),
            format!("{:.0}/s", it.raw),
            format!("{:.3} [{:.3}..{:.3}] {:.1} %", it.ratio, it.ratio_low, it.ratio_high, it.confidence * 100.0),
        ],
        Figures::Latency(it) => [
            format!("{:.2} / {:.2} ms", it.p50_ms, it.p99_ms),
            format!("{:.2} / {:.2} ms", it.raw_p50_ms, it.raw_p99_ms),
            "p50 / p99".to_owned(),
        ],
        Figures::Rate(it) => [
            format!("{:.0}/s", it.ours),
            String::new(),
            format!("[{:.0}..{:.0}] {:.1} %", it.low, it.high, it.confidence * 100.0),
        ],
        Figures::Backlog(it) => [
            format!("{:.0}/s, {:.0} MiB", it.rate, it.rss_mib),
            String::new(),
            format!("memory {}, rate {}", slope(it.rss_slope_mib, " MiB"), slope(it.rate_slope, "")),
        ],
    }
}

fn slope(slope: Option<f64>, unit: &str) -> String {
    slope.map_or_else(|| "?".to_owned(), |slope| format!("{slope:.2}{unit}"))
}
