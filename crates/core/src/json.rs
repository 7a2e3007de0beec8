//! How values that people see become JSON where serde's own form would lose a name or a unit: durations as text, pairs with names,
//! parameters as JSON.
//!
//! The types themselves derive `Serialize`; the chapter "JSON" of the book has the shape of each.

use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::cipher::{ENCRYPTED, is_encrypted};

/// Writes a duration as people write it in definitions: `5m 30s`.
pub(crate) fn duration<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

/// As [`duration`], or null.
pub(crate) fn optional_duration<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => duration(time, serializer),
        None => serializer.serialize_none(),
    }
}

/// Writes a number as text, because some readers round numbers of more than 53 bits.
pub(crate) fn text<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Writes a parameter as the JSON that it is, byte for byte; [`ENCRYPTED`] instead of one that is still encrypted; text that is no
/// JSON, of a row that was edited by SQL, as a string.
pub(crate) fn param<S: Serializer>(param: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match serde_json::from_str::<&RawValue>(param) {
        _ if is_encrypted(param) => serializer.serialize_str(ENCRYPTED),
        Ok(json) => json.serialize(serializer),
        Err(_) => serializer.serialize_str(param),
    }
}

/// Writes the two sides of a change with their names.
pub(crate) fn before_after<S: Serializer>(pair: &(u64, u64), serializer: S) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(2))?;
    object.serialize_entry("before", &pair.0)?;
    object.serialize_entry("after", &pair.1)?;
    object.end()
}
