//! Prints a [`Report`] for a terminal: its totals, a table over time, and the alerts.

use std::fmt;
use std::time::Duration;

use super::report::{Bucket, Ending, Report};

/// The most rows of the table.
const ROWS: usize = 24;
/// The most alerts that are listed.
const ALERTS: usize = 12;
/// The length of the longest bar.
const BAR: u64 = 24;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.totals;
        let until = plain(self.until);
        write!(f, "{:?} simulated with seed {}: ", self.definition, self.seed)?;
        match self.ending {
            Ending::AllEnded => writeln!(f, "all notices had ended after {until}")?,
            Ending::Horizon => writeln!(f, "{} notices were still live after {until}, the horizon", totals.live)?,
            Ending::TooManyAttempts => {
                writeln!(
                    f,
                    "stopped after {until} and {} attempts; {} notices were live",
                    totals.attempts(),
                    totals.live
                )?;
            }
        }
        for outage in &self.outages {
            let (from, end) = (plain(outage.from), plain(outage.end()));
            writeln!(f, "outage from {from} to {end} ({})", outage.class)?;
        }
        writeln!(f)?;
        let mut line = |name: &str, value: String| writeln!(f, "{name:<14} {value}");
        line("added", totals.added.to_string())?;
        let (first, again) = (totals.first_sends, totals.retries);
        line("attempts", format!("{} ({first} first sends, {again} retries)", totals.attempts()))?;
        let crashes = if totals.crashes > 0 { format!(" ({} crashes)", totals.crashes) } else { String::new() };
        line("failures", format!("{}{crashes}", totals.failures))?;
        line("succeeded", totals.succeeded.to_string())?;
        line("dead letters", totals.dead_letters.to_string())?;
        line("alerts", format!("{} ({} outcomes suppressed by the cool-down)", totals.alerts, totals.suppressed))?;
        if let Some(peak) = self.peak_retries {
            line("peak", format!("{} retries a second at {}", peak.count, plain(peak.at)))?;
        }
        if !self.outages.is_empty() {
            let drained = self.drained_after.map(plain).unwrap_or_else(|| "not".to_owned());
            line("drained", format!("{drained} after the outage"))?;
        }
        self.table(f)?;
        self.alerts(f)
    }
}

impl Report {
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let together = self.series.len().div_ceil(ROWS).max(1);
        let length = self.bucket * u32::try_from(together).unwrap_or(u32::MAX);
        let rows: Vec<Bucket> = self.series.chunks(together).map(Bucket::sum).collect();
        let most = rows.iter().map(|row| row.retries).max().unwrap_or(0).max(1);
        writeln!(f, "\nin each {}, with ! where there was an outage:", plain(length))?;
        writeln!(
            f,
            "{:>9}  {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  retries",
            "from", "first", "retries", "failed", "dead", "live", "waiting"
        )?;
        for (index, row) in rows.iter().enumerate() {
            let from = length * u32::try_from(index).unwrap_or(u32::MAX);
            let outage = self.outages.iter().any(|outage| outage.from < from + length && from < outage.end());
            let (mark, bar) = (if outage { '!' } else { ' ' }, "#".repeat((row.retries * BAR).div_ceil(most) as usize));
            let line = format!(
                "{:>9}{mark} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {bar}",
                short(from),
                row.first_sends,
                row.retries,
                row.failures,
                row.dead_letters,
                row.live,
                row.waiting
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn alerts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.alerts.is_empty() {
            writeln!(f, "\nalerts:")?;
        }
        for sent in self.alerts.iter().take(ALERTS) {
            writeln!(f, "{:>9}  {}", short(sent.at), sent.alert.title())?;
        }
        match self.totals.alerts.saturating_sub(ALERTS as u64) {
            0 => Ok(()),
            more => writeln!(f, "           and {more} more"),
        }
    }
}

/// Formats a time for reading, without parts that are too small for it: `2h 5m`, `300ms`.
fn plain(time: Duration) -> String {
    let time = if time < Duration::from_secs(1) { time } else { Duration::from_secs(time.as_secs()) };
    humantime::format_duration(time).to_string()
}

/// Formats a time for a column: `2:05:00`, `1d 02:05`.
fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    if days > 0 {
        format!("{days}d {hours:02}:{minutes:02}")
    } else {
        format!("{hours}:{minutes:02}:{:02}", seconds % 60)
    }
}
