//! [`Check`]: the columns of a definition that are checked one by one.

use std::str::FromStr;
use std::time::Duration;

use super::{ColumnValue, NotifyDef, Problem};
use crate::built_in::is_built_in;
use crate::limit::{Breaker, Quota, Rate};
use crate::retry::RetryInterval;
use crate::retry::duration;

/// The longest text of a column, in bytes: as long as a `text` of MySQL. Each node reads all definitions.
const LONGEST_TEXT: usize = 65_535;

/// Collects all invalid columns, so that one check reports all of them.
pub(super) struct Check {
    pub(super) problems: Vec<Problem>,
}

impl Check {
    pub(super) fn wrong(
        &mut self,
        column: &'static str,
        value: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) {
        self.problems.push(Problem::new(column, value, expected));
    }

    pub(super) fn value<T, E: std::fmt::Display>(
        &mut self,
        column: &'static str,
        parsed: Result<T, E>,
        text: &str,
    ) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong(column, text, error);
                None
            }
        }
    }

    /// `Some(None)`: the column is empty.
    pub(super) fn optional<T: FromStr<Err = String>>(
        &mut self,
        column: &'static str,
        text: Option<&str>,
    ) -> Option<Option<T>> {
        match text.filter(|text| !text.trim().is_empty()) {
            None => Some(None),
            Some(text) => self.value(column, text.parse(), text).map(Some),
        }
    }

    pub(super) fn name(&mut self, column: &'static str, text: &str) {
        let length = text.chars().count();
        if length == 0 || length > 200 || text.contains('\0') {
            self.wrong(column, text, "a name of 1 to 200 characters without NUL");
        }
    }

    pub(super) fn handler(&mut self, def: &NotifyDef) {
        let Some(handler) = &def.handler else { return };
        self.name("handler", handler);
        // A deleted definition has another name, and its notices are still sent.
        if is_built_in(handler) && *handler != def.name && def.delete_time.is_none() {
            self.wrong(
                "handler",
                handler,
                "the handler of an application or a channel; this one is for the definition of its name",
            );
        }
    }

    /// Without the values: a configuration may contain a secret in the wrong place.
    pub(super) fn lengths(&mut self, def: &NotifyDef) {
        for (column, value) in NotifyDef::COLUMNS.iter().zip(def.values()) {
            let ColumnValue::Text(Some(text)) = value else { continue };
            if text.len() > LONGEST_TEXT {
                let expected = format!("a text of at most {LONGEST_TEXT} bytes; it has {} bytes", text.len());
                self.wrong(column, "…", expected);
            }
        }
    }

    pub(super) fn encryption(&mut self, def: &NotifyDef) {
        if def.encrypt_param && is_built_in(&def.name) {
            self.wrong("encrypt_param", true, "false, because sweepers add the notices of a built-in definition");
        }
    }

    pub(super) fn target(&mut self, def: &NotifyDef) {
        match (def.target_of, &def.schedule, &def.target_filter) {
            (Some(_), Some(schedule), _) => {
                self.wrong("schedule", schedule, "null: a target gets notices of its definition")
            }
            (None, _, Some(filter)) => self.wrong("target_filter", filter, "null, because `target_of` is null"),
            _ => {}
        }
    }

    pub(super) fn runbook(&mut self, text: Option<&str>) {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let blank = text.contains(|letter: char| letter.is_whitespace() || letter.is_control());
        if blank || rest.is_none_or(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#', ':'])) {
            self.wrong(
                "runbook",
                text,
                "an http or https URL without blanks, such as `https://wiki.example.org/orders`",
            );
        }
    }

    pub(super) fn duration(&mut self, column: &'static str, text: &str) -> Option<Duration> {
        self.duration_or(column, text, "a duration such as `30s` or `1h 30m`")
    }

    pub(super) fn duration_or(&mut self, column: &'static str, text: &str, expected: &str) -> Option<Duration> {
        match duration::read(text) {
            Ok(duration) => Some(duration),
            Err(generally) if generally == duration::EXPECTED => {
                self.wrong(column, text, expected);
                None
            }
            Err(exactly) => {
                self.wrong(column, text, format!("{expected} ({exactly})"));
                None
            }
        }
    }

    /// `Some(None)`: the column is empty.
    pub(super) fn optional_duration(&mut self, column: &'static str, text: Option<&str>) -> Option<Option<Duration>> {
        match text.map(str::trim).filter(|text| !text.is_empty()) {
            None => Some(None),
            Some(text) => self.duration(column, text).map(Some),
        }
    }

    pub(super) fn at_least_one(&mut self, column: &'static str, value: i64) -> Option<usize> {
        let number = usize::try_from(value).ok().filter(|number| *number >= 1);
        if number.is_none() {
            self.wrong(column, value, "1 or more");
        }
        number
    }

    /// `Some(None)`: never.
    pub(super) fn dead_alert_count(&mut self, value: i64) -> Option<Option<usize>> {
        let Ok(number) = usize::try_from(value) else {
            self.wrong("dead_alert_count", value, "1 or more, or 0 for no alert");
            return None;
        };
        Some((number > 0).then_some(number))
    }

    /// `Some(None)`: no limit over all nodes.
    pub(super) fn quota(&mut self, def: &NotifyDef) -> Option<Option<Quota>> {
        let text = def.rate_limit.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let rate = text.and_then(|text| text.parse::<Rate>().ok());
        if let (Some(text), None) = (text, rate) {
            self.wrong("rate_limit", text, "a number of at least 1 and a period: `100/1m`, or `5` (per second)");
        }
        let total = def.max_concurrency_total.map(|most| self.at_least_one("max_concurrency_total", most));
        let failures = def.breaker_failures.map(|failures| self.at_least_one("breaker_failures", failures));
        let pause = self.duration("breaker_pause", &def.breaker_pause)?;
        let breaker = failures.flatten().map(|failures| {
            let failures = u32::try_from(failures).unwrap_or(u32::MAX);
            Breaker { failures, pause }
        });
        let quota = Quota { rate, total: total.flatten(), breaker };
        Some((quota != Quota { rate: None, total: None, breaker: None }).then_some(quota))
    }

    /// `Some(None)`: no limit.
    pub(super) fn max_retries(&mut self, column: Option<i64>, interval: Option<&RetryInterval>) -> Option<Option<u32>> {
        match column {
            None => interval.map(|interval| Some(interval.default_retries())),
            Some(-1) => Some(None),
            Some(times) => {
                let number = u32::try_from(times).ok();
                if number.is_none() {
                    self.wrong(
                        "max_retry_times",
                        times,
                        "0 or more, -1 for no limit, or null for what retry_interval implies",
                    );
                }
                number.map(Some)
            }
        }
    }
}
