//! The recipients of a definition's alerts, and the check that the handler of alerts can reach them. The check runs when a
//! definition is read, so that a misspelt name shows before the first alert.

use solid_notify_core::NotifyDef;
use solid_notify_core::built_in::is_built_in;
use solid_notify_core::definition::AlertTrigger;

use crate::definitions::Definition;

/// The recipients of alerts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recipients {
    /// Mail addresses.
    pub(crate) email: Vec<String>,
    /// Names of chats.
    pub(crate) alert_to: Vec<String>,
}

impl Recipients {
    /// Returns those of `definition`; where its row has none in a column, those of `alerts`, the definition `notify.alert`.
    pub(crate) fn of(definition: Option<&Definition>, alerts: Option<&Definition>) -> Self {
        let listed = |list: fn(&NotifyDef) -> Option<&String>| {
            let names = |of: &Definition| names(list(&of.row));
            let own = definition.map(names).filter(|own| !own.is_empty());
            own.or_else(|| alerts.map(names)).unwrap_or_default()
        };
        Self { email: listed(|row| row.email.as_ref()), alert_to: listed(|row| row.alert_to.as_ref()) }
    }
}

/// Splits a list that people write: entries are separated by commas, semicolons or lines.
fn names(list: Option<&String>) -> Vec<String> {
    let entries = list.map(String::as_str).unwrap_or_default().split([',', ';', '\n']);
    entries.map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

/// Logs why the alerts of `definition` cannot reach their recipients, if the handler of `alerts` says so.
pub(crate) fn check(definition: &Definition, alerts: Option<&Definition>) {
    let Some(ready) = alerts.and_then(Definition::ready) else { return };
    if definition.policy().is_none_or(|policy| policy.alert_trigger == AlertTrigger::Never) {
        return;
    }
    // Built-in definitions without recipients need no line of their own: those of the application have one.
    if is_built_in(&definition.row.name) && Recipients::of(Some(definition), None) == Recipients::default() {
        return;
    }
    let Recipients { email, alert_to } = Recipients::of(Some(definition), alerts);
    if let Err(problem) = ready.handler.check_recipients(&email, &alert_to) {
        tracing::error!(definition = %definition.row.name, %problem, "the alerts of this definition cannot reach their recipients");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_people_write_them() {
        assert_eq!(names(Some(&" a@b.c, d@e.f;\n g@h.i ,".to_owned())), ["a@b.c", "d@e.f", "g@h.i"]);
        assert!(names(None).is_empty());
    }
}
