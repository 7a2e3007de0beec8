//! The recipients of a definition's alerts, and the check that the handler of alerts can reach them. The check runs when a
//! definition is read, so that a misspelt name shows before the first alert.

use solid_notify_core::alert::recipients::{Entry, entries};
use solid_notify_core::built_in::is_built_in;
use solid_notify_core::definition::AlertTrigger;
use solid_notify_core::{ALERT_DEFINITION, AlertReason, NotifyDef};

use crate::definitions::Definition;

/// The recipients of alerts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recipients {
    /// Mail addresses.
    pub(crate) email: Vec<String>,
    /// Names of chats.
    pub(crate) alert_to: Vec<String>,
}

/// A column that lists recipients.
type Column = fn(&NotifyDef) -> Option<&String>;

/// `email` and `alert_to`.
const COLUMNS: [(&str, Column); 2] = [("email", |row| row.email.as_ref()), ("alert_to", |row| row.alert_to.as_ref())];

impl Recipients {
    /// Returns those of `definition` for alerts of a reason (`None`: for all); where its row has none in a column, those of `alerts`,
    /// the definition `notify.alert`. A reason that the row routes to no recipient goes where `alerts` says.
    pub(crate) fn of(definition: Option<&NotifyDef>, alerts: Option<&NotifyDef>, reason: Option<AlertReason>) -> Self {
        let merged = COLUMNS.map(|(_, column)| {
            let own = listed(definition, column);
            for_reason(if own.is_empty() { listed(alerts, column) } else { own }, reason)
        });
        let [email, alert_to] = match merged.iter().all(Vec::is_empty) {
            true => COLUMNS.map(|(_, column)| for_reason(listed(alerts, column), reason)),
            false => merged,
        };
        Self { email, alert_to }
    }
}

fn listed(of: Option<&NotifyDef>, column: Column) -> Vec<Entry<'_>> {
    entries(of.and_then(column))
}

fn for_reason(entries: Vec<Entry<'_>>, wanted: Option<AlertReason>) -> Vec<String> {
    let fits = |entry: &Entry<'_>| entry.reason.is_none() || wanted.is_none() || entry.reason == wanted;
    let mut all: Vec<String> = Vec::new();
    for entry in entries.into_iter().filter(fits) {
        // One who is named for all reasons and for this one gets the alert once.
        if !all.iter().any(|known| known == entry.to) {
            all.push(entry.to.to_owned());
        }
    }
    all
}

/// Returns an entry that looks like one for a reason, but names none.
fn misspelt(row: &NotifyDef) -> Option<String> {
    let is_word = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    COLUMNS.iter().find_map(|(column, list)| {
        let entry = entries(list(row)).into_iter().find(|entry| {
            entry.reason.is_none() && entry.to.split_once('=').is_some_and(|(name, _)| is_word(name.trim()))
        })?;
        let known = AlertReason::ALL.map(AlertReason::as_str).join(", ");
        Some(format!("`{column}` has the entry `{}`, whose reason is not known; known are: {known}", entry.to))
    })
}

/// Logs why the alerts of `definition` cannot reach their recipients, if the handler of `alerts` says so.
pub(crate) fn check(definition: &Definition, alerts: Option<&Definition>) {
    let Some(ready) = alerts.and_then(Definition::ready) else { return };
    let row = &definition.row;
    let never = definition.policy().is_none_or(|policy| policy.alert_trigger == AlertTrigger::Never);
    // The row of alerts raises none, but has recipients for the others.
    if never && row.name != ALERT_DEFINITION {
        return;
    }
    // Built-in definitions without recipients need no line of their own: those of the application have one.
    if is_built_in(&row.name) && Recipients::of(Some(row), None, None) == Recipients::default() {
        return;
    }
    let Recipients { email, alert_to } = Recipients::of(Some(row), alerts.map(|alerts| &*alerts.row), None);
    let checked = ready.handler.check_recipients(&email, &alert_to);
    if let Some(problem) = misspelt(row).or_else(|| checked.err()) {
        tracing::error!(definition = %row.name, %problem, "the alerts of this definition cannot reach their recipients");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AlertReason::{Backlog, DeadLetters, FinalFailure};

    #[test]
    fn lists_are_read_as_people_write_them() {
        let to = |list: &str| for_reason(entries(Some(&list.to_owned())), None);
        assert_eq!(to(" a@b.c, d@e.f;\n g@h.i ,"), ["a@b.c", "d@e.f", "g@h.i"]);
        assert_eq!(to(r#""Doe, Jane" <a@b.c>, d@e.f"#), [r#""Doe, Jane" <a@b.c>"#, "d@e.f"]);
        assert_eq!(to("final_failure = a@b.c, bounce+x=y@d.e, final_failure="), ["a@b.c", "bounce+x=y@d.e"]);
        assert!(entries(None).is_empty());
    }

    #[test]
    fn entry_with_a_reason_gets_the_alerts_of_that_reason_only() {
        let row = NotifyDef::new("sync").email("final_failure=night@x, all@x").alert_to("dead_letters=ops");
        let of = |reason| {
            let Recipients { email, alert_to } = Recipients::of(Some(&row), None, Some(reason));
            (email.join(" "), alert_to.join(" "))
        };
        assert_eq!(of(FinalFailure), ("night@x all@x".to_owned(), String::new()));
        assert_eq!(of(DeadLetters), ("all@x".to_owned(), "ops".to_owned()));
        assert_eq!(of(Backlog), ("all@x".to_owned(), String::new()));
    }

    #[test]
    fn reason_that_the_row_routes_nowhere_goes_where_the_row_of_alerts_says() {
        let row = NotifyDef::new("sync").email("final_failure=night@x");
        let alerts = NotifyDef::new("notify.alert").email("backlog=team@x, all@x").alert_to("dead_letters=ops");
        let of = |reason| {
            let Recipients { email, alert_to } = Recipients::of(Some(&row), Some(&alerts), Some(reason));
            (email.join(" "), alert_to.join(" "))
        };
        assert_eq!(of(FinalFailure), ("night@x".to_owned(), String::new()));
        assert_eq!(
            of(DeadLetters),
            (String::new(), "ops".to_owned()),
            "the row has addresses, so the others' are not added"
        );
        assert_eq!(of(Backlog), ("team@x all@x".to_owned(), String::new()));
        let none = NotifyDef::new("sync");
        assert_eq!(Recipients::of(Some(&none), Some(&alerts), Some(Backlog)).email, ["team@x", "all@x"]);
    }

    #[test]
    fn recipient_of_two_entries_gets_an_alert_once() {
        let row = NotifyDef::new("sync").email("a@x, final_failure=a@x; a@x").alert_to("backlog=ops, ops, dev");
        let of = |reason| Recipients::of(Some(&row), None, reason);
        let expected = Recipients { email: vec!["a@x".into()], alert_to: vec!["ops".into(), "dev".into()] };
        for reason in [Some(FinalFailure), Some(Backlog), None] {
            assert_eq!(of(reason), expected, "{reason:?}");
        }
    }

    #[test]
    fn misspelt_reason_is_named() {
        let of = |list: &str| misspelt(&NotifyDef::new("sync").email(list));
        assert!(of("final_failur=a@b.c").unwrap().starts_with("`email` has the entry `final_failur=a@b.c`"));
        assert_eq!(of("final_failure=a@b.c, bounce+x=y@d.e"), None);
    }
}
