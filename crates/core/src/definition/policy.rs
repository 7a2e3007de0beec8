//! [`Policy`]: a definition's columns parsed and checked once, so that the send path meets no text.
//!
//! Whether a handler or a named strategy exists is not known here; a sweeper decides that for its own node.

use std::time::Duration;

use super::{NotifyDef, Problem};
use crate::retry::{RetryInterval, duration};

/// A definition that can be followed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// The definition's id.
    pub def_id: i64,
    /// Its name.
    pub name: String,
    /// The name of the handler that sends its notices.
    pub handler: String,
    /// False: nothing is sent.
    pub enabled: bool,
    /// When to retry.
    pub interval: RetryInterval,
    /// Retries after the first try; `None`: no limit.
    pub max_retries: Option<u32>,
    /// The longest interval before its jitter.
    pub max_interval: Option<Duration>,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Attempts at the same time on one node.
    pub max_concurrency: usize,
    /// What becomes of succeeded notices.
    pub keep_history: KeepHistory,
}

/// How long a succeeded notice stays in `notify_msg_history`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepHistory {
    /// It does not even enter it.
    Never,
    /// At least so long.
    For(Duration),
    /// Nobody purges it.
    Forever,
}

/// What a lease is longer than the attempt that it covers.
pub const LEASE_MARGIN: Duration = Duration::from_secs(30);

impl Policy {
    /// How long a claim holds: the attempt's time-out and 30 s.
    pub fn lease(&self) -> Duration {
        self.timeout.saturating_add(LEASE_MARGIN)
    }

    /// True where `tries` (failures and crashes) leave none over.
    pub fn is_exhausted(&self, tries: i64) -> bool {
        self.max_retries.is_some_and(|retries| tries > i64::from(retries))
    }
}

impl NotifyDef {
    /// Parses every column, or tells of each that is wrong.
    pub fn policy(&self) -> Result<Policy, Vec<Problem>> {
        let mut check = Check { problems: Vec::new() };
        check.name("name", &self.name);
        if let Some(handler) = &self.handler {
            check.name("handler", handler);
        }
        let interval =
            check.value("retry_interval", self.retry_interval.parse::<RetryInterval>(), &self.retry_interval);
        let max_retries = check.max_retries(self.max_retry_times, interval.as_ref());
        let max_interval = check.optional_duration("max_retry_interval", self.max_retry_interval.as_deref());
        let timeout = check.duration("timeout", &self.timeout);
        check.duration("alert_cooldown", &self.alert_cooldown);
        check.optional_duration("backlog_alert_age", self.backlog_alert_age.as_deref());
        check.at_least_one("alert_trigger_fail_times", self.alert_trigger_fail_times);
        const TRIGGERS: [&str; 4] = ["final_failure", "each_failure", "never", "after_failures"];
        if !TRIGGERS.contains(&self.alert_trigger_type.as_str()) {
            check.wrong("alert_trigger_type", &self.alert_trigger_type, format!("one of {}", TRIGGERS.join(", ")));
        }
        if self.max_confirm_delay.trim() != "0" {
            check.duration("max_confirm_delay", &self.max_confirm_delay);
        }
        if self.need_confirm {
            check.wrong(
                "need_confirm",
                true,
                "false: this release cannot wait for confirmations yet, so sending would be unsafe",
            );
        }
        let max_concurrency = check.at_least_one("max_concurrency", self.max_concurrency);
        let keep_history = match self.keep_history.trim() {
            "none" => Some(KeepHistory::Never),
            "forever" => Some(KeepHistory::Forever),
            text => check
                .duration_or("keep_history", text, "`none`, `forever` or a duration such as `30d`")
                .map(KeepHistory::For),
        };
        match (interval, max_retries, max_interval, timeout, max_concurrency, keep_history) {
            (
                Some(interval),
                Some(max_retries),
                Some(max_interval),
                Some(timeout),
                Some(max_concurrency),
                Some(keep_history),
            ) if check.problems.is_empty() => Ok(Policy {
                def_id: self.id,
                name: self.name.clone(),
                handler: self.handler_name().to_owned(),
                enabled: self.enabled,
                interval,
                max_retries,
                max_interval,
                timeout,
                max_concurrency,
                keep_history,
            }),
            _ => Err(check.problems),
        }
    }
}

/// Collects what is wrong, so that one look shows all of it.
struct Check {
    problems: Vec<Problem>,
}

impl Check {
    fn wrong(&mut self, column: &'static str, value: impl std::fmt::Display, expected: impl std::fmt::Display) {
        self.problems.push(Problem::new(column, value, expected));
    }

    fn value<T, E: std::fmt::Display>(&mut self, column: &'static str, parsed: Result<T, E>, text: &str) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong(column, text, error);
                None
            }
        }
    }

    fn name(&mut self, column: &'static str, text: &str) {
        let length = text.chars().count();
        if length == 0 || length > 200 || text.contains('\0') {
            self.wrong(column, text, "a name of 1 to 200 characters without NUL");
        }
    }

    fn duration(&mut self, column: &'static str, text: &str) -> Option<Duration> {
        self.duration_or(column, text, "a duration such as `30s` or `1h 30m`")
    }

    fn duration_or(&mut self, column: &'static str, text: &str, expected: &str) -> Option<Duration> {
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
    fn optional_duration(&mut self, column: &'static str, text: Option<&str>) -> Option<Option<Duration>> {
        match text.map(str::trim).filter(|text| !text.is_empty()) {
            None => Some(None),
            Some(text) => self.duration(column, text).map(Some),
        }
    }

    fn at_least_one(&mut self, column: &'static str, value: i64) -> Option<usize> {
        let number = usize::try_from(value).ok().filter(|number| *number >= 1);
        if number.is_none() {
            self.wrong(column, value, "1 or more");
        }
        number
    }

    /// `Some(None)`: no limit.
    fn max_retries(&mut self, column: Option<i64>, interval: Option<&RetryInterval>) -> Option<Option<u32>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::ColumnValue;

    #[test]
    fn a_definition_with_only_a_name_works() {
        let policy = NotifyDef::new("a").policy().unwrap();
        assert_eq!(policy.handler, "a");
        assert_eq!(policy.max_retries, Some(4));
        assert_eq!(policy.timeout, Duration::from_secs(30));
        assert_eq!(policy.lease(), Duration::from_secs(60));
        assert_eq!(policy.keep_history, KeepHistory::For(Duration::from_secs(30 * 86_400)));
    }

    #[test]
    fn retries_default_to_three_where_no_list_says_otherwise() {
        assert_eq!(NotifyDef::new("a").retry_interval("5m").policy().unwrap().max_retries, Some(3));
        assert_eq!(NotifyDef::new("a").retry_interval("5m").max_retry_times(0).policy().unwrap().max_retries, Some(0));
        assert_eq!(NotifyDef::new("a").max_retry_times(-1).policy().unwrap().max_retries, None);
    }

    #[test]
    fn every_wrong_column_is_named_with_its_value_and_what_would_be_right() {
        let def = NotifyDef::new("a")
            .retry_interval("[5s,5x]")
            .timeout("soon")
            .max_concurrency(0)
            .max_retry_times(-2)
            .max_retry_interval("x")
            .keep_history("sometimes")
            .alert_trigger_type("always")
            .alert_trigger_fail_times(0)
            .alert_cooldown("0s")
            .backlog_alert_age("?")
            .max_confirm_delay("later")
            .need_confirm(true)
            .handler("");
        let problems = def.policy().unwrap_err();
        let mut columns: Vec<_> = problems.iter().map(|problem| problem.column).collect();
        columns.sort_unstable();
        assert_eq!(
            columns,
            [
                "alert_cooldown",
                "alert_trigger_fail_times",
                "alert_trigger_type",
                "backlog_alert_age",
                "handler",
                "keep_history",
                "max_concurrency",
                "max_confirm_delay",
                "max_retry_interval",
                "max_retry_times",
                "need_confirm",
                "retry_interval",
                "timeout"
            ]
        );
        let timeout = problems.iter().find(|problem| problem.column == "timeout").unwrap().to_string();
        assert!(timeout.contains("\"soon\"") && timeout.contains("30s"), "{timeout}");
    }

    #[test]
    fn tries_are_one_more_than_the_retries() {
        let policy = NotifyDef::new("a").max_retry_times(2).policy().unwrap();
        assert!(!policy.is_exhausted(2));
        assert!(policy.is_exhausted(3));
        let endless = NotifyDef::new("a").max_retry_times(-1).policy().unwrap();
        assert!(!endless.is_exhausted(i64::MAX));
    }

    #[test]
    fn a_wrong_duration_is_told_as_exactly_as_it_can_be() {
        for (text, expected) in [
            ("soon", "a duration such as `30s` or `1h 30m`"),
            ("30", "a duration such as `30s` or `1h 30m` (a unit behind `30`, such as `30s`)"),
            ("0s", "a duration such as `30s` or `1h 30m` (a duration of at least 1ms)"),
            ("18446744073709551615s 1000ms", "a duration such as `30s` or `1h 30m` (a duration of at most 10 years)"),
        ] {
            let problems = NotifyDef::new("a").timeout(text).policy().unwrap_err();
            assert_eq!(problems[0].expected, expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_in_any_column_makes_a_policy_panic(
            texts in proptest::collection::vec(
                proptest::prop_oneof![".*", "[0-9]{1,20}(s|ms|y|d| |)[0-9]{0,20}(ns|ms|years|)", "\\PC{0,300}"],
                NotifyDef::COLUMNS.len(),
            )
        ) {
            let mut values = NotifyDef::new("a").values();
            for (value, text) in values.iter_mut().zip(texts) {
                if let ColumnValue::Text(column) = value {
                    *column = Some(text);
                }
            }
            let _ = NotifyDef::from_values(1, values).unwrap().policy();
        }
    }
}
