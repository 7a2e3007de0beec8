//! `def apply|diff|export`: all definitions as one TOML file.

use std::path::Path;

use solid_notify::NotifyDef;
use solid_notify::definition::{
    ALERT_DEFINITION, BULK_DEFINITION, DEAD_LETTERS_DEFINITION, Definitions, PURGE_DEFINITION,
};

use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, line};
use crate::read;
use crate::session::Session;

fn definitions(file: &Path, delete_missing: bool) -> Outcome<Definitions> {
    let text = read::text(file)?;
    let read = Definitions::from_toml(&text).map_err(|error| {
        let failure = Failure::from(error);
        Failure { message: format!("{}: {}", file.display(), failure.message), ..failure }
    })?;
    Ok(if delete_missing { read.delete_missing() } else { read })
}

/// Shows what `apply` would do. The program ends with 3 if that is something, so that a pipeline can tell.
pub(crate) async fn diff(session: &Session, file: &Path, delete_missing: bool) -> Outcome {
    let plan = session.outbox.plan_all(&definitions(file, delete_missing)?).await?;
    session.out.show(&plan, || plan.to_string())?;
    Ok(if plan.changes_nothing() { Exit::Done } else { Exit::Unchanged })
}

/// Creates and changes the definitions of a file.
pub(crate) async fn apply(session: &Session, file: &Path, delete_missing: bool) -> Outcome {
    let definitions = definitions(file, delete_missing)?;
    let plan = session.outbox.plan_all(&definitions).await?;
    if !plan.changes_nothing() {
        if !session.out.json {
            output::note(&plan);
        }
        match plan.delete.is_empty() {
            true => session.change("create and change these definitions")?,
            false => session.great_change("create, change and delete these definitions")?,
        }
    }
    let applied = session.operator.apply_plan(plan).await?;
    session.out.show(&applied, || applied.to_string())?;
    Ok(if applied.conflicts.is_empty() { Exit::Done } else { Exit::Unchanged })
}

/// Prints definitions as TOML, which `apply` reads.
pub(crate) async fn export(session: &Session, names: &[String]) -> Outcome {
    let mut rows: Vec<NotifyDef> = session.outbox.definitions().await?.into_iter().map(|state| state.row).collect();
    rows.retain(|row| row.delete_time.is_none());
    for name in names {
        // An unknown name is an error, not an export without it.
        session.operator.definition(name.as_str()).await?;
    }
    let built_in = [ALERT_DEFINITION, PURGE_DEFINITION, DEAD_LETTERS_DEFINITION, BULK_DEFINITION];
    match names.is_empty() {
        true => rows.retain(|row| {
            !built_in.contains(&row.name.as_str()) || !NotifyDef::new(&row.name).differences(row).is_empty()
        }),
        false => {
            rows.retain(|row| names.iter().any(|name| *name == row.name || row.name.starts_with(&format!("{name}/"))))
        }
    }
    let definitions = Definitions::of(rows)?;
    if session.out.json {
        session.out.show(definitions.rows(), String::new)?;
    } else {
        line(&definitions.to_toml())?;
    }
    Ok(Exit::Done)
}
