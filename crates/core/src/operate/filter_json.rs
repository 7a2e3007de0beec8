//! A [`Filter`] as JSON, in the parameter of a bulk act. Conditions that do not narrow are left out.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::filter::Filter;
use crate::notice::Status;
use crate::store::{Only, TextSearch};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilterJson {
    statuses: Vec<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    /// As text, because JavaScript cannot read each number of 64 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedupe_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { statuses, definition, class, group, from, until, only } = self.clone();
        let group = group.map(|group| group.to_string());
        let Only { ids, tag, ordering_key, dedupe_key, text } = only;
        let text = text.map(|search| search.text);
        let json =
            FilterJson { statuses, definition, class, group, from, until, ids, tag, ordering_key, dedupe_key, text };
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = FilterJson::deserialize(deserializer)?;
        let FilterJson { statuses, definition, class, group, from, until, ids, tag, ordering_key, dedupe_key, text } =
            json;
        let group = group.map(|group| group.parse()).transpose().map_err(serde::de::Error::custom)?;
        let text = text.map(|text| TextSearch { text, in_param: true });
        Ok(Self {
            statuses,
            definition,
            class,
            group,
            from,
            until,
            only: Only { ids, tag, ordering_key, dedupe_key, text },
        })
    }
}
