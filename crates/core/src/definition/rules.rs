//! [`RetryRules`]: the column `retry_rules`, exceptions from the definition's retries for certain error classes.
//!
//! This module reads the column and says when the tries of a class are used up. Decisions about a notice are left to
//! [`crate::transition`].

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::Problem;
use crate::class::ErrorClass;
use crate::retry::RetryInterval;

const COLUMN: &str = "retry_rules";
/// The longest text that a problem repeats, in bytes.
const SHOWN: usize = 300;

/// The rules of a definition, by class. JSON in the column: an object from the name of a class to one of three forms.
///
/// | form | a failure of that class |
/// |---|---|
/// | `"never"` | makes a dead letter at once |
/// | a number of 1 or more | is retried while the notice has used fewer tries than that, whatever `max_retry_times` is |
/// | an interval, as in `retry_interval` | is retried after its delays, the first after the first try, as often as the definition says |
///
/// Where a class has no rule, the definition's interval and limit apply, except that `invalid`, `auth` and `not_found` are
/// `"never"` ([`ErrorClass::is_retried_by_default`]). `max_retry_interval` caps the delays of a rule, too.
///
/// ```
/// use solid_notify_core::{ErrorClass, NotifyDef, Rule};
///
/// let def = NotifyDef::new("sync_to_omp").retry_rules(r#"{ "busy": "exp(1m, x2, max 1h)", "timeout": 9, "crash": "never" }"#);
/// let policy = def.policy().unwrap();
/// assert_eq!(policy.rules.of(ErrorClass::Timeout), Some(&Rule::Tries(9)));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RetryRules(pub(super) Vec<(ErrorClass, Rule)>);

/// The rule for failures of one class.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Rule {
    /// Not retried: a dead letter at once.
    Never,
    /// This many tries in all, instead of `1 + max_retry_times`.
    Tries(u32),
    /// Delays of its own.
    Interval(RetryInterval),
}

impl RetryRules {
    /// Parses the column. Null, an empty text and white space are no rules.
    ///
    /// # Errors
    /// Every invalid entry, each with its place and what would be right.
    pub fn parse(column: Option<&str>) -> Result<Self, Vec<Problem>> {
        let Some(text) = column.filter(|text| !text.trim().is_empty()) else { return Ok(Self::default()) };
        let problem = |expected: String| Problem::new(COLUMN, crate::notice::clean_text(text, SHOWN), expected);
        let entries: Entries = serde_json::from_str(text).map_err(|error| {
            vec![problem(format!("a JSON object such as {{\"busy\": \"5m\", \"auth\": \"never\"}} ({error})"))]
        })?;
        let (mut rules, mut problems) = (Vec::new(), Vec::new());
        for (name, value) in entries.0 {
            let Some(class) = ErrorClass::from_name(&name) else {
                problems.push(problem(format!(
                    "instead of {} one of the classes {}, or a class of the application, whose name has a dot",
                    quoted(&name),
                    all_classes()
                )));
                continue;
            };
            if rules.iter().any(|(known, _)| *known == class) {
                problems.push(problem(format!("one rule for \"{class}\" and not two")));
            }
            match rule(&value) {
                Ok(rule) => rules.push((class, rule)),
                Err(expected) => problems.push(problem(format!("for \"{class}\" {expected}"))),
            }
        }
        if problems.is_empty() { Ok(Self(rules)) } else { Err(problems) }
    }

    /// Returns the rule of the row for a class; `None`: the class has its default.
    pub fn of(&self, class: ErrorClass) -> Option<&Rule> {
        self.0.iter().find(|(of, _)| *of == class).map(|(_, rule)| rule)
    }
}

/// Parses one rule. The error says what was expected.
fn rule(value: &Value) -> Result<Rule, String> {
    const FORMS: &str = "an interval such as \"5m\", a number of tries (1 or more), or \"never\"";
    match value {
        Value::String(text) if text.trim() == "never" => Ok(Rule::Never),
        Value::String(text) => match text.parse::<RetryInterval>() {
            Ok(interval) if interval.strategy().is_some() => {
                Err(format!("{FORMS}; a named strategy works in retry_interval only ({})", quoted(text)))
            }
            Ok(interval) => Ok(Rule::Interval(interval)),
            Err(error) => Err(format!("{FORMS} ({error})")),
        },
        Value::Number(number) => match number.as_u64().and_then(|number| u32::try_from(number).ok()) {
            Some(tries @ 1..) => Ok(Rule::Tries(tries)),
            _ => Err(format!("{FORMS}, and not {number}")),
        },
        _ => Err(format!("{FORMS}, and not {}", crate::notice::clean_text(&value.to_string(), 60))),
    }
}

/// Quotes a name as in JSON, cut to 60 bytes.
fn quoted(name: &str) -> String {
    format!("{:?}", crate::notice::clean_text(name, 60))
}

fn all_classes() -> String {
    ErrorClass::ALL.map(ErrorClass::as_str).join(", ")
}

/// The entries of an object in their order, duplicates included. A map would silently keep only the last one.
struct Entries(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NotifyDef;

    fn rules(text: &str) -> RetryRules {
        RetryRules::parse(Some(text)).unwrap()
    }

    #[test]
    fn nothing_and_white_space_are_no_rules() {
        for text in [None, Some(""), Some(" \n\t"), Some("{}")] {
            assert_eq!(RetryRules::parse(text), Ok(RetryRules::default()), "{text:?}");
        }
    }

    #[test]
    fn every_class_can_have_every_form() {
        let forms = [
            ("\"never\"", Rule::Never),
            ("7", Rule::Tries(7)),
            ("\"[5s,1h] ~10%\"", Rule::Interval("[5s,1h] ~10%".parse().unwrap())),
        ];
        for class in ErrorClass::ALL {
            for (form, rule) in &forms {
                let rules = rules(&format!("{{ \"{class}\" : {form} }}"));
                assert_eq!(rules.of(class), Some(rule), "{class} {form}");
                assert!(ErrorClass::ALL.iter().all(|other| *other == class || rules.of(*other).is_none()));
            }
        }
    }

    #[test]
    fn a_wrong_rule_is_reported_with_its_place_and_the_correction() {
        const FORMS: &str = "an interval such as \"5m\", a number of tries (1 or more), or \"never\"";
        for (text, expected) in [
            (
                "never",
                "a JSON object such as {\"busy\": \"5m\", \"auth\": \"never\"} (expected ident at line 1 column 2)",
            ),
            (
                "[]",
                "a JSON object such as {\"busy\": \"5m\", \"auth\": \"never\"} (invalid type: sequence, expected an object at line 1 column 0)",
            ),
            (
                "{\"aut\": \"never\"}",
                "instead of \"aut\" one of the classes network, timeout, deadlock, unavailable, busy, invalid, auth, not_found, crash, unacked, unknown, or a class of the application, whose name has a dot",
            ),
            ("{\"auth\": 1, \"auth\": 2}", "one rule for \"auth\" and not two"),
            (
                "{\"auth\": \"5x\"}",
                &format!(
                    "for \"auth\" {FORMS} (retry_interval \"5x\": expected a duration such as `5s` or `1h 30m`\n  5x\n  ^)"
                ),
            ),
            ("{\"auth\": 0}", &format!("for \"auth\" {FORMS}, and not 0")),
            ("{\"auth\": 2.5}", &format!("for \"auth\" {FORMS}, and not 2.5")),
            ("{\"auth\": -1}", &format!("for \"auth\" {FORMS}, and not -1")),
            ("{\"auth\": null}", &format!("for \"auth\" {FORMS}, and not null")),
            ("{\"auth\": [\"5m\"]}", &format!("for \"auth\" {FORMS}, and not [\"5m\"]")),
            (
                "{\"auth\": \"strategy:mine\"}",
                &format!("for \"auth\" {FORMS}; a named strategy works in retry_interval only (\"strategy:mine\")"),
            ),
        ] {
            let problems = RetryRules::parse(Some(text)).unwrap_err();
            assert_eq!(problems.len(), 1, "{text}");
            assert_eq!((problems[0].column, problems[0].value.as_str()), ("retry_rules", text));
            assert_eq!(problems[0].expected, expected, "{text}");
        }
        let all = NotifyDef::new("a").retry_rules(r#"{"a": 1, "b": 2, "busy": {}}"#).policy().unwrap_err();
        assert_eq!(all.len(), 3, "one look shows all of it: {all:?}");
    }

    #[test]
    fn a_class_without_a_rule_has_its_default() {
        let policy = NotifyDef::new("a").max_retry_times(2).policy().unwrap();
        for class in ErrorClass::ALL {
            let never = matches!(class, ErrorClass::Invalid | ErrorClass::Auth | ErrorClass::NotFound);
            assert_eq!(policy.is_exhausted_in(class, 1), never, "{class}");
            assert!(policy.is_exhausted_in(class, 3), "{class}");
        }
    }

    #[test]
    fn a_rule_may_allow_more_or_fewer_tries_than_the_definition() {
        let rules = r#"{"busy": 5, "timeout": 1, "auth": "1m", "crash": "never", "invalid": 2}"#;
        let policy = NotifyDef::new("a").max_retry_times(2).retry_rules(rules).policy().unwrap();
        for (class, last) in [
            (ErrorClass::Busy, 4),
            (ErrorClass::Timeout, 0),
            (ErrorClass::Auth, 2),
            (ErrorClass::Crash, 0),
            (ErrorClass::Invalid, 1),
            (ErrorClass::Network, 2),
            (ErrorClass::NotFound, 0),
        ] {
            let allowed = (1..20).take_while(|tries| !policy.is_exhausted_in(class, *tries)).count();
            assert_eq!(allowed, last, "{class}");
        }
        // A notice can be claimed while the most generous rule leaves a try.
        assert!(!policy.is_exhausted_in_all(4) && policy.is_exhausted_in_all(5));
    }

    #[test]
    fn an_endless_limit_stays_endless_beside_rules() {
        let def = NotifyDef::new("a").max_retry_times(-1).retry_rules(r#"{"busy": 2, "auth": "5m"}"#);
        let policy = def.policy().unwrap();
        assert!(!policy.is_exhausted_in_all(i64::MAX));
        assert!(!policy.is_exhausted_in(ErrorClass::Auth, i64::MAX));
        assert!(policy.is_exhausted_in(ErrorClass::Busy, 2) && policy.is_exhausted_in(ErrorClass::Invalid, 1));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_rules_panic(text in "\\PC{0,200}", key in "\\PC{0,30}", value in "\\PC{0,50}") {
            let _ = RetryRules::parse(Some(&text));
            let object = serde_json::json!({ key: value.clone(), "busy": value }).to_string();
            let _ = RetryRules::parse(Some(&object));
            let _ = RetryRules::parse(Some(&object.replace("\\u", "\\u00")));
        }

        #[test]
        fn no_number_makes_rules_panic(number in "-?[0-9]{1,30}(\\.[0-9]{1,5})?(e[0-9]{1,4})?") {
            let _ = RetryRules::parse(Some(&format!("{{\"busy\": {number}}}")));
        }
    }
}
