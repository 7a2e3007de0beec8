//! `add`: adds a notice in a transaction of its own.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use solid_notify::NewNotice;

use crate::exit::{Exit, Outcome};
use crate::session::Session;
use crate::{read, times};

/// What to add.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The name of the definition
    definition: String,
    /// The parameter, JSON; @FILE reads a file, - the standard input
    #[arg(default_value = "null")]
    param: String,
    /// Send it at this time: 2026-11-21T12:00:00Z, or 2h (in two hours)
    #[arg(long, value_parser = times::future, value_name = "TIME", conflicts_with = "delay")]
    at: Option<DateTime<Utc>>,
    /// Send it after this time, by the clock of the store: 90s
    #[arg(long, value_parser = times::duration, value_name = "DURATION")]
    delay: Option<Duration>,
    /// A description for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// What it is about: order:42
    #[arg(long)]
    tag: Option<String>,
    /// Notices with the same key are sent one after the other
    #[arg(long, value_name = "KEY")]
    ordering_key: Option<String>,
    /// Add nothing while a notice with this key has not been claimed
    #[arg(long, value_name = "KEY", conflicts_with = "unique_until_ended")]
    unique_until_claimed: Option<String>,
    /// Add nothing while a notice with this key has not ended
    #[arg(long, value_name = "KEY")]
    unique_until_ended: Option<String>,
    /// How often it may be tried, instead of what its definition says
    #[arg(long, value_name = "NUMBER")]
    max_tries: Option<u32>,
    /// Do not send it from this time on
    #[arg(long, value_parser = times::future, value_name = "TIME")]
    expires_at: Option<DateTime<Utc>>,
}

/// Adds the notice.
pub(crate) async fn add(session: &Session, add: Add) -> Outcome {
    let mut notice = NewNotice::new(add.definition.as_str(), read::json(&add.param)?)?;
    if let Some(at) = add.at {
        notice = notice.at(at);
    }
    if let Some(delay) = add.delay {
        notice = notice.delay(delay);
    }
    if let Some(text) = add.description {
        notice = notice.description(text);
    }
    if let Some(tag) = add.tag {
        notice = notice.tag(tag);
    }
    if let Some(key) = add.ordering_key {
        notice = notice.ordering_key(key);
    }
    if let Some(key) = add.unique_until_claimed {
        notice = notice.unique_until_claimed(key);
    }
    if let Some(key) = add.unique_until_ended {
        notice = notice.unique_until_ended(key);
    }
    if let Some(tries) = add.max_tries {
        notice = notice.max_tries(tries);
    }
    if let Some(time) = add.expires_at {
        notice = notice.expires_at(time);
    }
    session.change(&format!("add a notice of {:?}", add.definition))?;
    let receipt = session.outbox.add(notice).await?;
    let (id, duplicate) = (receipt.id(), receipt.is_duplicate());
    let result = serde_json::json!({ "id": id, "duplicate": duplicate });
    match duplicate {
        false => session.changed(&result, Exit::Done, format!("added notice {id}")),
        true => session.changed(
            &result,
            Exit::Unchanged,
            format!("the notice {id} has this key already: nothing was added"),
        ),
    }
}
