//! The examination of a store: what every store has in common. What a store says of its own server is in [`BrowseStore::examine`].
//!
//! [`BrowseStore::examine`]: crate::store::BrowseStore::examine

use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};

use super::{Filter, Operator};
use crate::alert::ALERT_DEFINITION;
use crate::definition::names_its_column;
use crate::error::Result;
use crate::finding::Finding;
use crate::notice::rfc3339;
use crate::outbox::DefinitionState;
use crate::store::{PauseScope, SeenNode};

/// Clocks may differ by this much before a person must know. Sweepers raise an alert at 30 s.
const CLOCK: TimeDelta = TimeDelta::seconds(2);

/// Dead letters of this age have been overlooked.
const OLD_DEAD_LETTER: TimeDelta = TimeDelta::days(3);

/// First sends and retries that have been due for as long as this are late.
const LATE: TimeDelta = TimeDelta::minutes(5);

impl Operator {
    /// Examines the store, its server, the definitions and the nodes. Returns all findings, the worst first; what is well is among
    /// them. It changes nothing, and reads catalogues and settings, so it takes some milliseconds.
    ///
    /// A check that fails is a finding itself, so there is no error. A store that does not answer has one finding.
    pub async fn examine(&self) -> Vec<Finding> {
        let asked = (Instant::now(), Utc::now());
        let now = match self.stores().send.now().await {
            Ok(now) => now,
            Err(error) => {
                let remedy = "check the URL, the server, the network and the account";
                return vec![Finding::problem("connection", error.to_string(), "nothing is sent or added", remedy)];
            }
        };
        let took = asked.0.elapsed();
        let mut findings = vec![Finding::fine("connection", format!("the store answers in {} ms", took.as_millis()))];
        findings.push(clock(now - asked.1 - half(took), half(took)));
        match self.stores().browse.examine().await {
            Ok(found) => findings.extend(found),
            Err(error) => findings.push(Finding::unknown("server", error.to_string())),
        }
        findings.extend(self.definitions_and_nodes().await.unwrap_or_else(|error| {
            let remedy = "if tables are missing, `solid-notify migrate` creates them";
            vec![Finding::problem(
                "definitions",
                error.to_string(),
                "definitions cannot be read, so nothing is sent",
                remedy,
            )]
        }));
        findings
            .extend(self.notices().await.unwrap_or_else(|error| vec![Finding::unknown("notices", error.to_string())]));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }

    async fn definitions_and_nodes(&self) -> Result<Vec<Finding>> {
        let states: Vec<DefinitionState> =
            self.outbox.definitions().await?.into_iter().filter(|state| state.deleted().is_none()).collect();
        let mut findings = Vec::new();
        for state in states.iter().filter(|state| !state.problems.is_empty() || !state.refused_by.is_empty()) {
            let name = &state.row.name;
            let why: Vec<String> = match state.problems.is_empty() {
                false => state.problems.iter().map(ToString::to_string).collect(),
                true => {
                    let named = state
                        .refused_by
                        .iter()
                        .map(|refusal| &refusal.problem)
                        .find(|problem| names_its_column(problem));
                    vec![named.cloned().unwrap_or_else(|| "a node refuses its handler_config".to_owned())]
                }
            };
            let remedy = format!("solid-notify def show {name}; solid-notify def edit {name} COLUMN=VALUE");
            let meaning = "its notices are kept and not sent";
            findings.push(Finding::problem("definitions", format!("{name}: {}", why.join("; ")), meaning, remedy));
        }
        if findings.is_empty() {
            findings.push(Finding::fine("definitions", format!("{} definitions are valid", states.len())));
        }
        if let Some(paused) = self.paused().await? {
            let meaning = match paused.scope {
                PauseScope::Retries => "no node retries anything; first attempts go on",
                _ => "no node sends anything",
            };
            findings.push(Finding::problem("pause", paused.to_string(), meaning, "solid-notify resume-all"));
        }
        findings.extend(self.handlers(&states).await?);
        Ok(findings)
    }

    /// Compares the handlers that definitions need with those that living nodes have.
    async fn handlers(&self, states: &[DefinitionState]) -> Result<Vec<Finding>> {
        let nodes = self.nodes().await?;
        if nodes.is_empty() {
            let remedy = "start the application's sweeper, or `solid-notify serve`";
            return Ok(vec![Finding::problem("nodes", "no sweeper runs", "nothing is sent", remedy)]);
        }
        let without = states.iter().filter(|state| state.in_force().enabled && !state.is_handled_by(&nodes));
        let others: Vec<&str> =
            without.map(|state| state.row.name.as_str()).filter(|name| *name != ALERT_DEFINITION).collect();
        let mut findings = vec![Finding::fine("nodes", format!("{} sweepers were seen lately", nodes.len()))];
        if !others.is_empty() {
            let found = format!("no living node has the handlers of {}", others.join(", "));
            let remedy =
                "register the handler in a sweeper, or name a channel: solid-notify def edit NAME handler=webhook";
            findings.push(Finding::problem("handlers", found, "their notices wait, and count no try", remedy));
        }
        if let Some(alerts) = states.iter().find(|state| state.row.name == ALERT_DEFINITION) {
            findings.extend(self.alerts(alerts, &nodes).await?);
        }
        Ok(findings)
    }

    /// Returns the finding where no node sends alerts.
    async fn alerts(&self, alerts: &DefinitionState, nodes: &[SeenNode]) -> Result<Option<Finding>> {
        let (why, remedy) = match alerts.in_force().enabled {
            true if alerts.is_handled_by(nodes) => return Ok(None),
            true => (
                "no living node sends them",
                "the table [alerts] of `solid-notify serve`, or AlertChannels in the application",
            ),
            false => ("notify.alert is paused", "solid-notify def resume notify.alert"),
        };
        let waiting = self.preview(&Filter::waiting().definition(ALERT_DEFINITION)).await?.total;
        let found = if waiting.count == 0 { why.to_owned() } else { format!("{why}, and {waiting} wait") };
        Ok(Some(Finding::warning("alerts", found, "alerts wait, and reach no person", remedy)))
    }

    async fn notices(&self) -> Result<Vec<Finding>> {
        let now = self.stores().send.now().await?;
        let mut findings = Vec::new();
        let dead = self.preview(&Filter::dead_letters()).await?;
        findings.push(match dead.oldest {
            Some(oldest) if now - oldest > OLD_DEAD_LETTER => Finding::warning(
                "dead_letters",
                format!("{}, the oldest from {}", dead.total, rfc3339(oldest)),
                "a receiver never got these notices, and no one has decided about them",
                "solid-notify dead groups; then solid-notify dead retry, or dead purge",
            ),
            _ => Finding::fine("dead_letters", dead.total.to_string()),
        });
        let late = self.snapshot().await?.into_iter().filter(|row| {
            row.taken.as_ref().and_then(|(counts, _)| counts.oldest_due).is_some_and(|due| now - due > LATE)
        });
        let states = self.outbox.definitions().await?;
        let is_paused = |name: &String| {
            states.iter().any(|state| state.row.name == *name && state.deleted().is_none() && !state.in_force().enabled)
        };
        let (paused, late): (Vec<String>, Vec<String>) = late.map(|row| row.definition).partition(is_paused);
        findings.extend(backlog(&late, &paused));
        Ok(findings)
    }
}

/// Judges the definitions whose notices are late, and those of them that are paused.
fn backlog(late: &[String], paused: &[String]) -> Vec<Finding> {
    let found = |names: &[String]| format!("due for more than {} min: {}", LATE.num_minutes(), names.join(", "));
    let mut findings = Vec::new();
    if !paused.is_empty() {
        findings.push(Finding::warning(
            "backlog",
            format!("of paused definitions, {}", found(paused)),
            "a person or a receiver paused these definitions, so their notices wait",
            "solid-notify audit --def NAME shows who did; solid-notify def resume NAME",
        ));
    }
    if !late.is_empty() {
        findings.push(Finding::warning(
            "backlog",
            found(late),
            "a limit, a closed window, an open circuit or too few sweepers hold notices up",
            "solid-notify msg list --def NAME; solid-notify msg explain ID",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::fine("backlog", "nothing has been due for long"));
    }
    findings
}

/// Judges the difference of the clocks, which is known to within `doubt`: half of the time that the store took to answer.
fn clock(offset: TimeDelta, doubt: TimeDelta) -> Finding {
    let found = format!("this machine's clock differs from the store's by {} ms", offset.num_milliseconds());
    match offset.abs() > CLOCK + doubt {
        true => Finding::warning(
            "clock",
            found,
            "sending follows the store's clock, so cadence is right; the times in this machine's logs are not",
            "synchronise the clocks: chronyc tracking, timedatectl",
        ),
        false => Finding::fine("clock", found),
    }
}

fn half(took: Duration) -> TimeDelta {
    TimeDelta::from_std(took / 2).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn backlog_of_a_paused_definition_names_that_cause() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let found = |late, paused| -> Vec<(Severity, String)> {
            let findings = backlog(&names(late), &names(paused));
            findings.into_iter().map(|finding| (finding.severity, finding.found)).collect()
        };
        assert_eq!(found(&[], &[]), [(Severity::Fine, "nothing has been due for long".to_owned())]);
        let (a, b) = (
            "due for more than 5 min: a".to_owned(),
            "of paused definitions, due for more than 5 min: b, c".to_owned(),
        );
        assert_eq!(found(&["a"], &[]), [(Severity::Warning, a.clone())]);
        assert_eq!(found(&["a"], &["b", "c"]), [(Severity::Warning, b), (Severity::Warning, a)]);
    }

    #[test]
    fn a_clock_is_judged_in_both_directions() {
        for (seconds, doubt, severity) in [
            (0, 0, Severity::Fine),
            (2, 0, Severity::Fine),
            (3, 0, Severity::Warning),
            (-3, 0, Severity::Warning),
            (-4, 2, Severity::Fine),
            (5, 2, Severity::Warning),
        ] {
            let found = clock(TimeDelta::seconds(seconds), TimeDelta::seconds(doubt));
            assert_eq!(found.severity, severity, "{seconds} {doubt}");
        }
    }
}
