//! The figures of all sides: a table for each database and workload, and lines of JSON.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use serde::Serialize;

use crate::databases::Product;
use crate::statistics::{Median, median};
use crate::workloads::Workload;

/// The figures of one side.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The side.
    pub name: &'static str,
    /// Messages, or samples.
    pub count: usize,
    /// The rates of the rounds that count.
    pub rates: Vec<f64>,
    /// The median time and the 99th percentile, in milliseconds.
    pub times: Option<(f64, f64)>,
    /// The reason why there are no figures.
    pub error: Option<String>,
}

impl Row {
    /// Returns a row without figures.
    pub fn new(name: &'static str) -> Self {
        Self { name, count: 0, rates: Vec::new(), times: None, error: None }
    }

    /// The median of the ratios to `ours` within the rounds, with its interval.
    fn ratio(&self, ours: &Self) -> Option<Median> {
        let ratios: Vec<f64> = self.rates.iter().zip(&ours.rates).map(|(rate, ours)| rate / ours).collect();
        median(&ratios)
    }
}

/// A line of JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    db: Product,
    workload: Workload,
    side: &'a str,
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    /// The ratio to ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    to_ours: Option<Median>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The report.
pub struct Table {
    json: Option<File>,
}

impl Table {
    /// Starts the report.
    ///
    /// # Errors
    /// Fails where the file cannot be written.
    pub fn begin(json: Option<&Path>) -> Result<Self> {
        let create = |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        Ok(Self { json: json.map(create).transpose()? })
    }

    /// Prints the rows of a workload, ours first, and writes them.
    ///
    /// # Errors
    /// Fails where the file cannot be written.
    pub fn add(&mut self, db: Product, workload: Workload, rows: &[Row]) -> Result<()> {
        let mut table = comfy_table::Table::new();
        table.load_style(UTF8_BORDERS_ONLY);
        table.set_header(["db", "workload", "side", "count", "figure", "to ours [low..high]"]);
        let ours = rows.first();
        for row in rows {
            let rate = median(&row.rates).map(|median| median.value);
            let to_ours = ours.and_then(|ours| row.ratio(ours));
            let figure = match (&row.error, rate, row.times) {
                (Some(error), ..) => format!("failed: {}", error.lines().next().unwrap_or_default()),
                (None, Some(rate), _) => format!("{rate:.0}/s"),
                (None, None, Some((p50, p99))) => format!("{p50:.2} / {p99:.2} ms"),
                (None, None, None) => String::new(),
            };
            let ratio =
                to_ours.map_or_else(String::new, |it| format!("{:.3} [{:.3}..{:.3}]", it.value, it.low, it.high));
            table.add_row([&db.to_string(), &workload.to_string(), row.name, &row.count.to_string(), &figure, &ratio]);
            if let Some(file) = &mut self.json {
                let line = Line {
                    db,
                    workload,
                    side: row.name,
                    count: row.count,
                    rate,
                    to_ours,
                    p50_ms: row.times.map(|times| times.0),
                    p99_ms: row.times.map(|times| times.1),
                    error: row.error.as_deref(),
                };
                writeln!(file, "{}", serde_json::to_string(&line)?)?;
            }
        }
        println!("{table}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_the_median_within_rounds() {
        let ours = Row { rates: vec![10.0, 20.0, 40.0], ..Row::new("ours") };
        let peer = Row { rates: vec![5.0, 5.0, 30.0], ..Row::new("peer") };
        assert_eq!(peer.ratio(&ours).map(|median| (median.value, median.low, median.high)), Some((0.5, 0.25, 0.75)));
        assert_eq!(Row::new("failed").ratio(&ours), None);
    }
}
