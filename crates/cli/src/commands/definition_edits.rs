//! `def create|edit|preview|pause|resume|delete|rollback|retime`: changes of one definition.

use solid_notify::definition::Updated;
use solid_notify::operate::Rate;
use solid_notify::{Error, NotifyDef};

use crate::act::text_of_bulk;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::session::{Session, done_if};

/// Sets columns from `column=value`; `column=` sets it to null, or to an empty text where null is not possible.
pub(crate) fn with_columns(mut row: NotifyDef, columns: &[String]) -> Outcome<NotifyDef> {
    for assignment in columns {
        let Some((column, value)) = assignment.split_once('=') else {
            return Err(Failure::usage(format!("{assignment:?} is no column=value"))
                .next("write it as timeout=10s; retry_interval='[5s,5m,1h]' in quotes for the shell"));
        };
        let column = column.trim();
        let set = |value: Option<&str>| row.clone().set(column, value);
        row = match value {
            "" => set(None).or_else(|_| set(Some("")))?,
            value => set(Some(value))?,
        };
    }
    Ok(row)
}

/// Creates a definition.
pub(crate) async fn create(session: &Session, name: &str, target_of: Option<&str>, columns: &[String]) -> Outcome {
    let new = match target_of {
        Some(parent) => NotifyDef::target(parent, name),
        None => NotifyDef::new(name),
    };
    let new = with_columns(new, columns)?;
    session.change(&format!("create the definition {:?}", new.name))?;
    let name = new.name.clone();
    let created = session.operator.create_definition(new).await?;
    if let Updated::Stored(row) = &created
        && let Some(problem) = session.outbox.engine().problem_of_config(row)
    {
        output::note(format!(
            "the handler of {name:?} needs a handler_config: {problem}. Its notices wait until it has one, or targets with one each"
        ));
    }
    report(session, &created, &name, "created")
}

/// Prints what became of an edit.
fn report(session: &Session, updated: &Updated, name: &str, done: &str) -> Outcome {
    match updated {
        Updated::Stored(row) => session.changed(updated, Exit::Done, format!("definition {}: {done}", row.name)),
        Updated::Conflict(_) if done == "created" => {
            let text = format!(
                "there is a definition {name:?} already: nothing was changed; `solid-notify def edit` changes it"
            );
            session.changed(updated, Exit::Unchanged, text)
        }
        Updated::Conflict(_) => {
            let text = format!(
                "another editor changed the definition {name:?}, or has taken the name: nothing was changed; look at it and try again"
            );
            session.changed(updated, Exit::Unchanged, text)
        }
        _ => session.changed(updated, Exit::NotFound, format!("the definition {name:?} is gone")),
    }
}

/// Shows what an edit would do to the live notices.
pub(crate) async fn preview(session: &Session, name: &str, columns: &[String]) -> Outcome {
    let seen = session.operator.definition(name).await?;
    let new = with_columns(seen.clone(), columns)?;
    let preview = session.operator.preview_edit(&seen, &new).await?;
    session.out.show(&preview, || match preview.changes.is_empty() {
        true => "nothing would change".to_owned(),
        false => preview.to_string(),
    })?;
    Ok(Exit::Done)
}

/// Changes columns of a definition, after showing what that does.
pub(crate) async fn edit(session: &Session, name: &str, columns: &[String]) -> Outcome {
    let seen = session.operator.definition(name).await?;
    let new = with_columns(seen.clone(), columns)?;
    store(session, &seen, new, "edited").await
}

/// Switches a definition on or off.
pub(crate) async fn enable(session: &Session, name: &str, enabled: bool) -> Outcome {
    let seen = session.operator.definition(name).await?;
    let new = seen.clone().enabled(enabled);
    store(session, &seen, new, if enabled { "resumed" } else { "paused" }).await
}

async fn store(session: &Session, seen: &NotifyDef, new: NotifyDef, done: &str) -> Outcome {
    if seen.differences(&new).is_empty() {
        let text = format!("the definition {:?} has these values already", seen.name);
        return session.changed(&serde_json::json!({ "result": "unchanged" }), Exit::Unchanged, text);
    }
    if !session.out.json {
        output::note(session.operator.preview_edit(seen, &new).await?.to_string());
    }
    session.change(&format!("change the definition {:?}", seen.name))?;
    let updated = session.operator.edit_definition(seen, new).await?;
    report(session, &updated, &seen.name, done)
}

/// Deletes a definition. Its live notices are sent until they end.
pub(crate) async fn delete(session: &Session, name: &str) -> Outcome {
    let seen = session.operator.definition(name).await?;
    if seen.delete_time.is_some() {
        let text = format!("the definition {name:?} is deleted already");
        return session.changed(&serde_json::json!({ "result": "unchanged" }), Exit::Unchanged, text);
    }
    session.great_change(&format!("delete the definition {name:?}; its live notices are sent until they end"))?;
    let deleted = session.operator.delete_definition(&seen).await?;
    report(session, &deleted, name, "deleted")
}

/// Restores a version of a definition.
pub(crate) async fn rollback(session: &Session, name: &str, version: i64) -> Outcome {
    let seen = session.operator.definition(name).await?;
    let new = session.operator.at_version(&seen, version).await.map_err(|error| match error {
        Error::Invalid { problem, .. } if problem.contains("has no version") => {
            Failure::new(Exit::NotFound, problem).next(format!("`solid-notify def versions {name}` lists the versions"))
        }
        other => other.into(),
    })?;
    if seen.differences(&new).is_empty() {
        let text = format!("the definition {name:?} is as in version {version} already");
        return session.changed(&serde_json::json!({ "result": "unchanged" }), Exit::Unchanged, text);
    }
    if !session.out.json {
        output::note(session.operator.preview_edit(&seen, &new).await?.to_string());
    }
    session.change(&format!("roll the definition {name:?} back to version {version}"))?;
    let updated = session.operator.roll_back(&seen, version).await?;
    report(session, &updated, name, "rolled back")
}

/// Gives waiting retries the times that the intervals have now.
pub(crate) async fn retime(session: &Session, name: &str, rate: Rate) -> Outcome {
    let row = session.operator.definition(name).await?;
    session.change(&format!("change the times of the waiting retries of {:?}", row.name))?;
    let done = session.operator.retime(&row, rate).await?;
    session.changed(&done, done_if(done.changed > 0), text_of_bulk(&done))
}
