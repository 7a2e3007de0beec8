//! Notices and definitions as they are stored, and their conversion to the core's types.

use std::collections::HashMap;

use solid_notify_core::definition::{ColumnValue, NotifyDef};
use solid_notify_core::notice::{
    ClaimedNotice, LastResponse, NoticeRecord, OwnLimits, Status, millis_from_time, time_from_millis,
};

/// The words of a reply; `None`: the word is missing.
pub(super) type Words = Vec<Option<Vec<u8>>>;

/// Reads a text, which people may have damaged.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn word(words: &Words, at: usize) -> Option<String> {
    words.get(at)?.as_deref().map(lossy)
}

pub(super) fn number(words: &Words, at: usize) -> i64 {
    word(words, at).and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// Reads a score in milliseconds; `None` for infinity.
pub(super) fn score(text: &str) -> Option<i64> {
    let score = text.parse::<f64>().ok().filter(|score| score.is_finite())?;
    Some(score as i64)
}

/// Reads a notice from the script function `seen`.
pub(super) fn claimed(def_id: i64, words: &Words) -> ClaimedNotice {
    let create_time = time_from_millis(number(words, 9));
    ClaimedNotice {
        id: number(words, 15),
        def_id,
        param: word(words, 4).unwrap_or_default(),
        param_is_left: words.get(4).is_some_and(Option::is_none),
        description: word(words, 5),
        errors: word(words, 6),
        status: Status::from_code(number(words, 0)).unwrap_or(Status::Sending),
        fence: number(words, 1),
        failures: number(words, 2),
        crashes: number(words, 3),
        worker: word(words, 7).unwrap_or_default(),
        last_call_time: word(words, 8).map_or(create_time, |_| time_from_millis(number(words, 8))),
        create_time,
        trace_context: word(words, 10),
        ordering_key: word(words, 11),
        tag: word(words, 14),
        own: own_limits(number_if_there(words, 12), number_if_there(words, 13)),
    }
}

pub(super) fn number_if_there(words: &Words, at: usize) -> Option<i64> {
    word(words, at)?.parse().ok()
}

pub(super) fn own_limits(max_tries: Option<i64>, expires_at: Option<i64>) -> OwnLimits {
    OwnLimits::new(max_tries, expires_at.map(time_from_millis))
}

/// A notice with all its fields.
pub(super) struct Stored {
    pub(super) id: i64,
    pub(super) def_id: i64,
    fields: HashMap<String, Vec<u8>>,
    /// Its score, as Redis formats it.
    pub(super) score: String,
}

impl Stored {
    /// `None` for a notice that does not exist.
    pub(super) fn new(id: i64, def_id: i64, fields: HashMap<String, Vec<u8>>, score: String) -> Option<Self> {
        (!fields.is_empty()).then_some(Self { id, def_id, fields, score })
    }

    fn text(&self, field: &str) -> Option<String> {
        self.fields.get(field).map(|bytes| lossy(bytes))
    }

    fn number(&self, field: &str) -> Option<i64> {
        self.text(field)?.parse().ok()
    }

    /// Its status; `None` where an edit by hand made it unreadable.
    pub(super) fn status(&self) -> Option<Status> {
        Status::from_code(self.number("status")?)
    }

    pub(super) fn fence(&self) -> i64 {
        self.number("fence").unwrap_or_default()
    }

    /// What lets it act, as JSON, if its definition is built in.
    pub(super) fn authority(&self) -> Option<String> {
        self.text("authority")
    }

    pub(super) fn claimed(&self, status: Status) -> ClaimedNotice {
        let record = self.record(status);
        ClaimedNotice {
            id: self.id,
            def_id: self.def_id,
            param: record.param,
            param_is_left: false,
            description: record.description,
            errors: self.text("errors"),
            status,
            fence: record.fence,
            failures: record.failures,
            crashes: record.crashes,
            worker: record.worker.unwrap_or_default(),
            last_call_time: record.last_call_time.unwrap_or(record.create_time),
            create_time: record.create_time,
            trace_context: record.trace_context,
            ordering_key: record.ordering_key,
            tag: record.tag,
            own: record.own,
        }
    }

    pub(super) fn record(&self, status: Status) -> NoticeRecord {
        let time = |field: &str| self.number(field).map(time_from_millis);
        let param = self.text("param").unwrap_or_default();
        let created = time("create_time").unwrap_or_else(|| time_from_millis(0));
        let mut record = NoticeRecord::new(self.id, self.def_id, status, param, created);
        record.description = self.text("description");
        record.errors = self.text("errors").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        record.fence = self.fence();
        record.failures = self.number("failures").unwrap_or_default();
        record.crashes = self.number("crashes").unwrap_or_default();
        (record.worker, record.last_call_time) = (self.text("worker"), time("last_call_time"));
        record.last_class = self.text("last_class");
        (record.trace_context, record.ordering_key, record.dedupe_key) =
            (self.text("trace_context"), self.text("ordering_key"), self.text("dedupe_key"));
        record.unique_until_ended = self.text("dedupe_until_ended").is_some();
        record.tag = self.text("tag");
        record.own = own_limits(self.number("max_tries"), self.number("expires_at"));
        record.parent_id = self.number("parent_id");
        record.end_reason = self.text("end_reason");
        record.response = LastResponse::from_stored(self.text("response").as_deref());
        let at = score(&self.score).map(time_from_millis);
        match status.is_final() {
            true => record.finish_time = at,
            false => record.next_call_time = at,
        }
        record.with_progress()
    }
}

/// Returns whether a flag of a definition is set.
pub(super) fn is_true(flag: &str) -> bool {
    matches!(flag.trim(), "true" | "1" | "yes" | "on")
}

/// Reads a definition from its hash. A missing field has its default. An unreadable number becomes one that is not valid, so that
/// the definition is reported as invalid. `None` for a hash without a name.
pub(super) fn definition(id: i64, fields: &HashMap<Vec<u8>, Vec<u8>>) -> Option<NotifyDef> {
    let text = |field: &str| fields.get(field.as_bytes()).map(|bytes| lossy(bytes));
    // Not those of a built-in definition: a null column has no field.
    let defaults = NotifyDef::plain(text("name")?).values();
    let values = NotifyDef::COLUMNS.iter().zip(defaults).map(|(column, default)| match (text(column), default) {
        (None, default) => default,
        (Some(text), ColumnValue::Text(_)) => ColumnValue::Text(Some(text)),
        (Some(text), ColumnValue::Int(_)) => ColumnValue::Int(Some(text.trim().parse().unwrap_or(i64::MIN))),
        (Some(text), ColumnValue::Bool(_)) => ColumnValue::Bool(is_true(&text)),
    });
    let mut row = NotifyDef::from_values(id, values.collect())?;
    let time = |field: &str| text(field)?.parse().ok().map(time_from_millis);
    (row.create_time, row.update_time, row.delete_time) =
        (time("create_time"), time("update_time"), time("delete_time"));
    Some(row)
}

/// The fields of a definition's hash; a column that is null has none.
pub(super) fn fields(row: &NotifyDef) -> Vec<(String, String)> {
    let columns = NotifyDef::COLUMNS.iter().zip(row.values()).filter_map(|(column, value)| {
        let text = match value {
            ColumnValue::Text(text) => text?,
            ColumnValue::Int(number) => number?.to_string(),
            ColumnValue::Bool(flag) => flag.to_string(),
        };
        Some(((*column).to_owned(), text))
    });
    let times = [("create_time", row.create_time), ("update_time", row.update_time), ("delete_time", row.delete_time)];
    let times =
        times.into_iter().filter_map(|(field, time)| Some((field.to_owned(), millis_from_time(time?).to_string())));
    columns.chain(times).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(fields: &[(String, String)]) -> HashMap<Vec<u8>, Vec<u8>> {
        fields.iter().map(|(field, value)| (field.clone().into_bytes(), value.clone().into_bytes())).collect()
    }

    #[test]
    fn a_definition_comes_back_as_it_was_written() {
        let mut row = NotifyDef::new("sync").enabled(false).max_retry_times(-1).email("").handler("h");
        (row.id, row.create_time, row.delete_time) = (7, Some(time_from_millis(1)), Some(time_from_millis(2)));
        assert_eq!(definition(7, &hash(&fields(&row))), Some(row));
    }

    #[test]
    fn a_null_column_of_a_built_in_definition_stays_null() {
        let mut row = NotifyDef::new("notify.alert");
        (row.id, row.max_retry_times, row.retry_rules) = (7, None, None);
        assert_eq!(definition(7, &hash(&fields(&row))), Some(row));
    }

    #[test]
    fn a_missing_field_has_its_default_and_a_wrong_number_is_an_error() {
        let only = |pairs: &[(&str, &str)]| {
            hash(&pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>())
        };
        let mut named = NotifyDef::new("sync");
        named.id = 3;
        assert_eq!(definition(3, &only(&[("name", "sync")])), Some(named));
        assert_eq!(definition(3, &only(&[("timeout", "1s")])), None);
        let wrong = definition(3, &only(&[("name", "sync"), ("max_concurrency", "many")])).unwrap();
        assert_eq!(wrong.policy().unwrap_err()[0].column, "max_concurrency");
    }
}
