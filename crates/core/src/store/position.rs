//! [`Position`]: where a page of a list ended.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The position of a notice in a list, after which the next page begins. Notices added or removed meanwhile do not invalidate
/// it. Its text form can be used in a URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The notice's time in the store's exact format, which sorts as text.
    time: String,
    /// The notice's id, which sorts notices of the same time.
    id: i64,
}

impl Position {
    /// Creates a position; only stores need it.
    pub fn new(time: impl Into<String>, id: i64) -> Self {
        Self { time: time.into(), id }
    }

    /// Returns the time in the store's format.
    pub fn time(&self) -> &str {
        &self.time
    }

    /// Returns the id.
    pub fn id(&self) -> i64 {
        self.id
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.id, self.time.replace(' ', "T"))
    }
}

impl serde::Serialize for Position {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Position {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::Invalid { what: "position", problem: format!("{text:?}: expected one that a page ended with") };
        let (id, time) = text.split_once('_').ok_or_else(wrong)?;
        let plausible = time == "infinity" || time.bytes().all(|byte| byte.is_ascii_digit() || b"-:.T".contains(&byte));
        if !plausible || time.is_empty() || time.len() > 40 {
            return Err(wrong());
        }
        let id = id.parse().map_err(|_| wrong())?;
        Ok(Self { time: time.replace('T', " "), id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_being_written_down() {
        for time in ["2026-11-21 10:42:07.123456", "infinity", "00000001763721727123456789"] {
            let position = Position::new(time, -7);
            assert_eq!(position.to_string().parse::<Position>().ok(), Some(position));
        }
        for wrong in ["", "7", "x_2026", "7_", "7_now()", "7_2026'"] {
            assert!(wrong.parse::<Position>().is_err(), "{wrong}");
        }
    }
}
