//! [`Policy`]: a definition's columns, parsed and checked once, so that the send path parses no text.
//!
//! It does not check whether a handler or a named strategy exists, because that differs between nodes; a sweeper checks it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::check::Check;
use super::{Mask, MissedTicks, NotifyDef, Problem, RetryRules, Rule, Schedule, SendWindow, TargetFilter};
use crate::class::ErrorClass;
use crate::limit::Quota;
use crate::notice::OwnLimits;
use crate::retry::RetryInterval;
use crate::retry::duration::FOREVER;

/// A valid definition in parsed form.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// The definition's id.
    pub def_id: i64,
    /// Its name.
    pub name: String,
    /// The name of the handler that sends its notices.
    pub handler: String,
    /// If false, no notice is sent.
    pub enabled: bool,
    /// The timetable by which it adds notices itself.
    pub schedule: Option<Schedule>,
    /// What to do with ticks that are found late.
    pub schedule_missed: MissedTicks,
    /// When its notices may be sent; none: always.
    pub window: Option<Arc<SendWindow>>,
    /// When to retry.
    pub interval: RetryInterval,
    /// Retries after the first attempt; `None`: no limit.
    pub max_retries: Option<u32>,
    /// The longest interval before its jitter.
    pub max_interval: Option<Duration>,
    /// Exceptions for certain error classes.
    pub rules: RetryRules,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How many of its notices one node sends at the same time.
    pub max_concurrency: usize,
    /// The limits over all nodes; `None`: the definition has none.
    pub quota: Option<Quota>,
    /// Whether and how long succeeded notices stay in history.
    pub keep_history: KeepHistory,
    /// Whether a delivery counts only when the receiver has acked it.
    pub need_confirm: bool,
    /// How long to wait for an ack; [`FOREVER`]: without limit.
    pub max_confirm_delay: Duration,
    /// When to alert.
    pub alert_trigger: AlertTrigger,
    /// The minimum time between two alerts of the same reason.
    pub alert_cooldown: Duration,
    /// Alerts when the oldest due notice is older than this.
    pub backlog_alert_age: Option<Duration>,
    /// Alerts when there are at least this many dead letters.
    pub dead_alert_count: Option<usize>,
    /// The parts of the parameter that people must not see; none: they see all of it.
    pub mask: Option<Arc<Mask>>,
    /// Whether parameters are stored encrypted.
    pub encrypt_param: bool,
    /// Which parameters it gets as a target; none: all.
    pub filter: Option<Arc<TargetFilter>>,
}

/// Which outcomes of attempts raise an alert. An overdue ack raises one with each trigger but `Never`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlertTrigger {
    /// Dead letters.
    FinalFailure,
    /// Every failed attempt.
    EachFailure,
    /// None.
    Never,
    /// Failed attempts of a notice that has failed at least this often, and dead letters.
    AfterFailures(i64),
}

/// How long a succeeded notice stays in `notify_msg_history`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeepHistory {
    /// It does not enter history.
    Never,
    /// At least this long.
    For(Duration),
    /// It is never purged.
    Forever,
}

/// How much longer a lease is than the attempt's timeout.
pub const LEASE_MARGIN: Duration = Duration::from_secs(30);

impl Policy {
    /// Returns the length of a lease: the attempt's timeout and 30 s.
    pub fn lease(&self) -> Duration {
        self.timeout.saturating_add(LEASE_MARGIN)
    }

    /// Returns true if `tries` (failures and crashes) use up `max_retry_times`; see also [`Self::is_exhausted_in`].
    pub fn is_exhausted(&self, tries: i64) -> bool {
        self.max_retries.is_some_and(|retries| tries > i64::from(retries))
    }

    /// Returns true if no try is left after `tries` (failures and crashes, this one included) for a notice whose attempt has
    /// just failed in `class`.
    pub fn is_exhausted_in(&self, class: ErrorClass, tries: i64) -> bool {
        match self.rules.of(class) {
            Some(Rule::Never) => true,
            Some(Rule::Tries(most)) => tries >= i64::from(*most),
            Some(Rule::Interval(_)) => self.is_exhausted(tries),
            None => !class.is_retried_by_default() || self.is_exhausted(tries),
        }
    }

    /// Returns false if no failure of `class` is retried, however many tries are left.
    pub fn retries(&self, class: ErrorClass) -> bool {
        match self.rules.of(class) {
            Some(rule) => *rule != Rule::Never,
            None => class.is_retried_by_default(),
        }
    }

    /// Returns how many tries a notice has in all that fails in `class` each time, if such failures are retried; `None`: no limit.
    pub fn max_tries_in(&self, class: Option<ErrorClass>) -> Option<i64> {
        match class.and_then(|class| self.rules.of(class)) {
            Some(Rule::Never) => Some(1),
            Some(Rule::Tries(most)) => Some(i64::from(*most)),
            Some(Rule::Interval(_)) | None => self.max_retries.map(|retries| i64::from(retries) + 1),
        }
    }

    /// Returns true if no try is left after `tries`, in whichever class the next attempt would fail.
    pub fn is_exhausted_in_all(&self, tries: i64) -> bool {
        let over = |rule: &Rule| !matches!(rule, Rule::Tries(most) if tries < i64::from(*most));
        self.is_exhausted(tries) && self.rules.0.iter().all(|(_, rule)| over(rule))
    }

    /// Returns this policy with the tries of a notice that has a limit of its own.
    pub fn within(&self, own: &OwnLimits) -> Cow<'_, Self> {
        match own.max_tries {
            None => Cow::Borrowed(self),
            Some(tries) => {
                let retries = u32::try_from(tries.saturating_sub(1).max(0)).unwrap_or(u32::MAX);
                Cow::Owned(Self { max_retries: Some(retries), ..self.clone() })
            }
        }
    }

    /// Returns the interval by which a failure of `class` is retried.
    pub fn interval_in(&self, class: ErrorClass) -> &RetryInterval {
        match self.rules.of(class) {
            Some(Rule::Interval(interval)) => interval,
            _ => &self.interval,
        }
    }
}

impl NotifyDef {
    /// Parses every column, or returns every invalid one.
    pub fn policy(&self) -> Result<Policy, Vec<Problem>> {
        let mut check = Check { problems: Vec::new() };
        check.lengths(self);
        if !check.problems.is_empty() {
            return Err(check.problems);
        }
        check.name("name", &self.name);
        check.handler(self);
        let schedule = check.optional::<Schedule>("schedule", self.schedule.as_deref());
        let schedule_missed = check.value("schedule_missed", self.schedule_missed.parse(), &self.schedule_missed);
        let window = check.optional::<SendWindow>("send_window", self.send_window.as_deref());
        let interval = self.retry_interval.parse::<RetryInterval>().map_err(|error| error.expected());
        let interval = check.value("retry_interval", interval, &self.retry_interval);
        let max_retries = check.max_retries(self.max_retry_times, interval.as_ref());
        let max_interval = check.optional_duration("max_retry_interval", self.max_retry_interval.as_deref());
        let rules = RetryRules::parse(self.retry_rules.as_deref());
        let rules = rules.unwrap_or_else(|problems| {
            check.problems.extend(problems);
            RetryRules::default()
        });
        let timeout = check.duration("timeout", &self.timeout);
        let alert_cooldown = check.duration("alert_cooldown", &self.alert_cooldown);
        let backlog_alert_age = check.optional_duration("backlog_alert_age", self.backlog_alert_age.as_deref());
        let dead_alert_count = check.dead_alert_count(self.dead_alert_count);
        check.at_least_one("alert_trigger_fail_times", self.alert_trigger_fail_times);
        let alert_trigger = check.alert_trigger(self);
        let max_confirm_delay = match self.max_confirm_delay.trim() {
            "0" => Some(FOREVER),
            text => check.duration_or("max_confirm_delay", text, "`0` (wait for ever) or a duration such as `1h`"),
        };
        let max_concurrency = check.at_least_one("max_concurrency", self.max_concurrency);
        let quota = check.quota(self);
        check.runbook(self.runbook.as_deref());
        let mask = check.optional::<Mask>("mask", self.mask.as_deref());
        check.encryption(self);
        let filter = check.optional::<TargetFilter>("target_filter", self.target_filter.as_deref());
        check.target(self);
        let keep_history = match self.keep_history.trim() {
            "none" => Some(KeepHistory::Never),
            "forever" => Some(KeepHistory::Forever),
            text => check
                .duration_or("keep_history", text, "`none`, `forever` or a duration such as `30d`")
                .map(KeepHistory::For),
        };
        let policy = || {
            Some(Policy {
                def_id: self.id,
                name: self.name.clone(),
                handler: self.handler_name().to_owned(),
                enabled: self.enabled,
                schedule: schedule?,
                schedule_missed: schedule_missed?,
                window: window?.map(Arc::new),
                interval: interval?,
                max_retries: max_retries?,
                max_interval: max_interval?,
                rules,
                timeout: timeout?,
                max_concurrency: max_concurrency?,
                quota: quota?,
                keep_history: keep_history?,
                need_confirm: self.need_confirm,
                max_confirm_delay: max_confirm_delay?,
                alert_trigger: alert_trigger?,
                alert_cooldown: alert_cooldown?,
                backlog_alert_age: backlog_alert_age?,
                dead_alert_count: dead_alert_count?,
                mask: mask?.map(Arc::new),
                encrypt_param: self.encrypt_param,
                filter: filter?.map(Arc::new),
            })
        };
        match policy() {
            Some(policy) if check.problems.is_empty() => Ok(policy),
            _ => Err(check.problems),
        }
    }
}

impl Check {
    fn alert_trigger(&mut self, def: &NotifyDef) -> Option<AlertTrigger> {
        match def.alert_trigger_type.as_str() {
            "final_failure" => Some(AlertTrigger::FinalFailure),
            "each_failure" => Some(AlertTrigger::EachFailure),
            "never" => Some(AlertTrigger::Never),
            "after_failures" => Some(AlertTrigger::AfterFailures(def.alert_trigger_fail_times)),
            other => {
                const EXPECTED: &str = "one of final_failure, each_failure, never, after_failures";
                self.wrong("alert_trigger_type", other, EXPECTED);
                None
            }
        }
    }
}
