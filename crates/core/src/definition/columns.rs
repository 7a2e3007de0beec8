//! The columns of `notify_def`: the struct, its setters and the stores' statements are made from this one list.
//!
//! Parsing the values is left to [`super::Policy`].

use chrono::{DateTime, Utc};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::built_in;
use crate::retry::DEFAULT_INTERVAL;

/// A column's value on its way to or from a store. Exhaustive, because each store converts every kind of value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnValue {
    /// A text, or null.
    Text(Option<String>),
    /// A whole number, or null.
    Int(Option<i64>),
    /// A flag.
    Bool(bool),
}

/// A Rust type that a column can have. The setters name it, but other crates cannot reach it.
#[allow(unreachable_pub)]
pub trait Column: Sized {
    /// What the setter takes: the type without its `Option`.
    type Inner;
    /// A value of the right kind; its content does not matter.
    const KIND: ColumnValue;
    fn wrap(inner: Self::Inner) -> Self;
    fn get(&self) -> ColumnValue;
    fn from_value(value: ColumnValue) -> Option<Self>;
}

macro_rules! column_type {
    ($ty:ty, $inner:ty, $kind:expr, $value:ident => $wrap:expr, $from:pat => $to:expr, $get:expr) => {
        impl Column for $ty {
            type Inner = $inner;
            const KIND: ColumnValue = $kind;
            fn wrap($value: $inner) -> Self {
                $wrap
            }
            fn get(&self) -> ColumnValue {
                let get: fn(&Self) -> ColumnValue = $get;
                get(self)
            }
            fn from_value(value: ColumnValue) -> Option<Self> {
                match value {
                    $from => Some($to),
                    _ => None,
                }
            }
        }
    };
}

use ColumnValue::{Bool, Int, Text};
column_type!(String, String, Text(None), v => v, Text(Some(v)) => v, |v| Text(Some(v.clone())));
column_type!(Option<String>, String, Text(None), v => Some(v), Text(v) => v, |v| Text(v.clone()));
column_type!(i64, i64, Int(None), v => v, Int(Some(v)) => v, |v| Int(Some(*v)));
column_type!(Option<i64>, i64, Int(None), v => Some(v), Int(v) => v, |v| Int(*v));
column_type!(bool, bool, Bool(false), v => v, Bool(v) => v, |v| Bool(*v));

macro_rules! notify_def {
    ($($(#[$doc:meta])* $column:ident: $ty:ty = $default:expr,)*) => {
        /// A row of `notify_def`: how the notices of one name are sent, resent and reported.
        ///
        /// Durations are text as people write it (`"30s"`, `"1h 30m"`, [humantime](https://docs.rs/humantime)).
        ///
        /// ```
        /// use solid_notify_core::NotifyDef;
        /// let def = NotifyDef::new("sync_to_omp").retry_interval("[5s,5m,1h,1d]").timeout("10s");
        /// assert_eq!(def.max_concurrency, 20);
        /// assert!(def.policy().is_ok());
        /// ```
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct NotifyDef {
            /// The id that the database gave; 0 before it is stored.
            pub id: i64,
            /// The unique name that `add_notice` uses, 1 to 200 characters.
            pub name: String,
            $($(#[$doc])* pub $column: $ty,)*
            /// When the row was created, by the database's clock.
            pub create_time: Option<DateTime<Utc>>,
            /// When `update` last changed it.
            pub update_time: Option<DateTime<Utc>>,
            /// When it was deleted. A deleted definition takes no new notices; those in flight run to their end.
            pub delete_time: Option<DateTime<Utc>>,
        }

        impl NotifyDef {
            /// Returns a definition with the defaults, which are those of the table. A built-in definition (`notify.alert`,
            /// `notify.purge`, `notify.dead_letters`, `notify.bulk`) begins with the values that the library creates it with.
            pub fn new(name: impl Into<String>) -> Self {
                let name = name.into();
                built_in::row(&name).unwrap_or_else(|| Self::plain(name))
            }

            /// Returns a definition with the defaults of the table, whatever its name. For stores.
            #[doc(hidden)]
            pub fn plain(name: impl Into<String>) -> Self {
                Self {
                    id: 0,
                    name: name.into(),
                    $($column: $default,)*
                    create_time: None,
                    update_time: None,
                    delete_time: None,
                }
            }

            $(
                #[doc = concat!("Sets the column `", stringify!($column), "`.")]
                #[must_use]
                pub fn $column(mut self, value: impl Into<<$ty as Column>::Inner>) -> Self {
                    self.$column = <$ty as Column>::wrap(value.into());
                    self
                }
            )*

            /// The names of the columns that people edit, the name first.
            pub const COLUMNS: &'static [&'static str] = &["name", $(stringify!($column),)*];

            /// The kind of each of [`Self::COLUMNS`].
            pub const KINDS: &'static [ColumnValue] = &[Text(None), $(<$ty as Column>::KIND,)*];

            /// The values of [`Self::COLUMNS`].
            pub fn values(&self) -> Vec<ColumnValue> {
                vec![self.name.get(), $(self.$column.get(),)*]
            }

            /// Adds [`Self::COLUMNS`] and their values to an object.
            pub(crate) fn write_columns<M: SerializeMap>(&self, object: &mut M) -> Result<(), M::Error> {
                object.serialize_entry("name", &self.name)?;
                $(object.serialize_entry(stringify!($column), &self.$column)?;)*
                Ok(())
            }

            /// A row from the values of [`Self::COLUMNS`] in a table; `None` where one is of the wrong kind. Numbers of older
            /// conventions become words.
            pub fn from_values(id: i64, values: Vec<ColumnValue>) -> Option<Self> {
                let mut values = values.into_iter();
                let mut def = Self::plain(String::from_value(values.next()?)?);
                def.id = id;
                $(def.$column = Column::from_value(values.next()?)?;)*
                Some(def.in_words())
            }
        }
    };
}

notify_def! {
    /// The registered handler that sends its notices; none: the handler with the definition's name.
    handler: Option<String> = None,
    /// A description for people.
    description: Option<String> = None,
    /// `false`: notices are accepted, but nothing is sent and nothing is counted.
    enabled: bool = true,
    /// The timetable by which it adds notices itself: see [`super::Schedule`]; none: never.
    schedule: Option<String> = None,
    /// What to do with ticks that passed while no sweeper ran: `once`, `all` or `none`.
    schedule_missed: String = "once".to_owned(),
    /// When its notices may be sent: see [`super::SendWindow`]; none: always.
    send_window: Option<String> = None,
    /// When to retry: see [`crate::retry`].
    retry_interval: String = DEFAULT_INTERVAL.to_owned(),
    /// Retries after the first attempt; none: what `retry_interval` implies; -1: no limit.
    max_retry_times: Option<i64> = None,
    /// The longest interval; none: no cap.
    max_retry_interval: Option<String> = None,
    /// Exceptions for certain error classes, as JSON: see [`super::RetryRules`].
    retry_rules: Option<String> = None,
    /// How long one attempt may take.
    timeout: String = "30s".to_owned(),
    /// When to alert: `final_failure`, `each_failure`, `never` or `after_failures`.
    alert_trigger_type: String = "final_failure".to_owned(),
    /// The number of failures of one notice at which `after_failures` alerts.
    alert_trigger_fail_times: i64 = 3,
    /// The minimum time between two alerts of one definition and reason.
    alert_cooldown: String = "5m".to_owned(),
    /// The mail addresses for alerts, separated by commas.
    email: Option<String> = None,
    /// The chat targets of alerts.
    alert_to: Option<String> = None,
    /// Alerts when the oldest due notice is older than this.
    backlog_alert_age: Option<String> = None,
    /// Alerts when there are at least this many dead letters; 0: never.
    dead_alert_count: i64 = 100,
    /// Whether a delivery counts only when the receiver has acked it.
    need_confirm: bool = false,
    /// How long to wait for an ack; `0`: without limit.
    max_confirm_delay: String = "0".to_owned(),
    /// How many of its notices one node sends at the same time.
    max_concurrency: i64 = 20,
    /// How many attempts may begin in a period, over all nodes: `100/1m`; none: no limit.
    rate_limit: Option<String> = None,
    /// How many of its notices all nodes together send at the same time; none: no limit.
    max_concurrency_total: Option<i64> = None,
    /// How many failures in a row, over all nodes, open the circuit; none: it never opens.
    breaker_failures: Option<i64> = None,
    /// How long an open circuit waits before a probe is sent.
    breaker_pause: String = "1m".to_owned(),
    /// How long succeeded notices stay in history: a duration, `none` or `forever`.
    keep_history: String = "30d".to_owned(),
    /// Settings of the handler, in the handler's own format.
    handler_config: Option<String> = None,
    /// Who is responsible for it, for people. Its alerts name the owner.
    owner: Option<String> = None,
    /// The URL (`http` or `https`) of what to do when it fails. Its alerts have it.
    runbook: Option<String> = None,
    /// The parts of the parameter that people must not see, as JSON: see [`super::Mask`]; none: they see all of it.
    mask: Option<String> = None,
    /// Whether parameters are stored encrypted: see [`crate::cipher::ParamCipher`].
    encrypt_param: bool = false,
    /// The id of the definition whose notices are passed on to this one; none: it is no target.
    target_of: Option<i64> = None,
    /// Which of them it gets: see [`super::TargetFilter`]; none: all of them.
    target_filter: Option<String> = None,
}

impl NotifyDef {
    /// The handler that sends its notices.
    pub fn handler_name(&self) -> &str {
        self.handler.as_deref().unwrap_or(&self.name)
    }

    /// The columns in which `self` and `other` differ, as (column, own value, other's value); ids and times apart.
    pub fn differences(&self, other: &Self) -> Vec<(&'static str, ColumnValue, ColumnValue)> {
        let pairs = self.values().into_iter().zip(other.values());
        let named = Self::COLUMNS.iter().zip(pairs);
        named.filter(|(_, (own, others))| own != others).map(|(column, (own, others))| (*column, own, others)).collect()
    }
}

/// A column that differs: its name, its value before, its value after.
pub type Difference = (&'static str, ColumnValue, ColumnValue);

/// Writes the changed columns of a definition.
pub(crate) fn as_changes<S: Serializer>(list: &[Difference], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Change<'a> {
        column: &'static str,
        before: &'a ColumnValue,
        after: &'a ColumnValue,
    }
    let mut out = serializer.serialize_seq(Some(list.len()))?;
    for (column, before, after) in list {
        out.serialize_element(&Change { column, before, after })?;
    }
    out.end()
}

impl Serialize for ColumnValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Int(number) => number.serialize(serializer),
            Self::Bool(flag) => flag.serialize(serializer),
        }
    }
}

impl Serialize for NotifyDef {
    /// Writes id, columns and times as one object.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("id", &self.id)?;
        self.write_columns(&mut object)?;
        object.serialize_entry("create_time", &self.create_time)?;
        object.serialize_entry("update_time", &self.update_time)?;
        object.serialize_entry("delete_time", &self.delete_time)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_rows_are_inverse() {
        let def = NotifyDef::new("a").timeout("1s").max_retry_times(7).enabled(false).email("a@b.c");
        let back = NotifyDef::from_values(0, def.values()).unwrap();
        assert_eq!(back, def);
        assert_eq!(def.values().len(), NotifyDef::COLUMNS.len());
        assert_eq!(NotifyDef::KINDS.len(), NotifyDef::COLUMNS.len());
    }

    #[test]
    fn differences_name_the_column_and_both_values() {
        let differences = NotifyDef::new("a").differences(&NotifyDef::new("a").timeout("1s"));
        let text = |s: &str| ColumnValue::Text(Some(s.to_owned()));
        assert_eq!(differences, [("timeout", text("30s"), text("1s"))]);
    }
}
