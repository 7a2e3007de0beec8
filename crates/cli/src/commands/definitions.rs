//! `def list|show|versions`: reading definitions.

use solid_notify::NotifyDef;
use solid_notify::definition::{ColumnValue, DefinitionState, Difference};

use crate::exit::{Exit, Failure, Outcome};
use crate::session::Session;
use crate::table::{Fields, Rows, cell, time};

/// Lists definitions.
pub(crate) async fn list(session: &Session, deleted: bool) -> Outcome {
    let mut states = session.outbox.definitions().await?;
    states.retain(|state| deleted || state.deleted().is_none());
    session.out.show(&states, || {
        let mut rows = Rows::new(&["name", "handler", "state", "retry interval", "timeout", "owner"]);
        for state in &states {
            // A target has what it inherits.
            let row = state.in_force();
            let (interval, timeout) = (row.retry_interval.clone(), row.timeout.clone());
            rows.row([
                row.name.clone(),
                cell(&row.handler),
                word(state).to_owned(),
                interval,
                timeout,
                cell(&row.owner),
            ]);
        }
        rows.text("no definitions; `solid-notify def create NAME` creates one")
    })?;
    Ok(Exit::Done)
}

/// Returns the state of a definition in one word.
fn word(state: &DefinitionState) -> &'static str {
    match state {
        _ if state.deleted().is_some() => "deleted",
        _ if !state.problems.is_empty() => "invalid",
        _ if !state.refused_by.is_empty() => "refused",
        _ if !state.in_force().enabled => "paused",
        _ => "enabled",
    }
}

/// Shows a definition: the columns that differ from a new one, or all of them, and what is wrong with it.
pub(crate) async fn show(session: &Session, name: &str, all: bool) -> Outcome {
    let row = session.operator.definition(name).await?;
    let found = session.outbox.definitions().await?.into_iter().find(|state| state.row.id == row.id);
    let Some(state) = found else {
        return Err(Failure::new(Exit::NotFound, format!("the definition {name:?} was deleted meanwhile")));
    };
    session.out.show(&state, || {
        let row = &state.row;
        let mut fields = Fields::default();
        fields.add("name", &row.name).add("id", row.id).add("state", word(&state));
        let in_force = state.in_force();
        let (changed, inherited) = (in_force.differences(&NotifyDef::new(&row.name)), in_force.differences(row));
        let is_in = |list: &[Difference], column: &str| list.iter().any(|(name, ..)| *name == column);
        for (column, value) in NotifyDef::COLUMNS.iter().zip(in_force.values()).skip(1) {
            if all || is_in(&changed, column) {
                let from = if is_in(&inherited, column) { " (inherited)" } else { "" };
                fields.add(column, format!("{}{from}", shown(&value)));
            }
        }
        fields.add("create_time", row.create_time).add("update_time", row.update_time);
        for problem in &state.problems {
            fields.add("problem", problem.to_string());
        }
        for refusal in &state.refused_by {
            fields.add("refused", format!("by node {}: {}", refusal.node, refusal.problem));
        }
        fields.text()
    })?;
    Ok(Exit::Done)
}

/// Returns the value of a column for people.
pub(crate) fn shown(value: &ColumnValue) -> String {
    match value {
        ColumnValue::Text(Some(text)) => text.clone(),
        ColumnValue::Int(Some(number)) => number.to_string(),
        ColumnValue::Bool(flag) => flag.to_string(),
        ColumnValue::Text(None) | ColumnValue::Int(None) => "null".to_owned(),
    }
}

/// Lists the versions of a definition, the latest first.
pub(crate) async fn versions(session: &Session, name: &str) -> Outcome {
    let versions = session.operator.versions(name).await?;
    session.out.show(&versions, || {
        let mut rows = Rows::new(&["#version", "time", "by", "act", "columns"]);
        for version in &versions {
            let columns: Vec<&str> = version.differences.iter().map(|(column, ..)| *column).collect();
            let number = version.version.to_string();
            rows.row([number, time(version.time), version.who.clone(), version.act.clone(), cell(columns.join(", "))]);
        }
        rows.text("no versions")
    })?;
    Ok(Exit::Done)
}
