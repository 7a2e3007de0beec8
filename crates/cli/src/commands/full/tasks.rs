//! `task due|dead|revive|quarantine`: timed tasks on Redis.

use chrono::{DateTime, Utc};
use clap::Subcommand;
use serde_json::{Value, json};
use solid_notify::timed::{self, Redis, TimedTasks};

use crate::contexts::shown;
use crate::exit::{Exit, Failure, Outcome};
use crate::session::Session;
use crate::table::{Rows, time};

/// Commands for timed tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Count the tasks of a kind, and say when the next one is due
    Due { kind: String },
    /// List dead tasks, the latest first
    Dead {
        kind: String,
        /// How many, at most 500
        #[arg(long, short = 'n', default_value_t = 50, value_name = "NUMBER")]
        limit: usize,
    },
    /// Make dead tasks due at once, with no tries used
    Revive {
        kind: String,
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// List what was put aside because it is damaged
    Quarantine { kind: String },
}

/// Runs a command for timed tasks.
pub(crate) async fn run(session: &Session, command: Task) -> Outcome {
    let url = &session.chosen.url;
    if !url.starts_with("redis") {
        return Err(Failure::usage(format!("timed tasks are on Redis, and the store is {}", shown(url)))
            .next("give --url redis://HOST"));
    }
    let redis = Redis::connect(url).await.map_err(|error| Failure::new(Exit::Unreachable, error.to_string()))?;
    let tasks = TimedTasks::new(redis);
    match command {
        Task::Due { kind } => {
            let (counts, next) = (tasks.count(&kind).await?, tasks.next_due(&kind).await?);
            let (waiting, due, claimed) = (counts.waiting, counts.due, counts.claimed);
            let shown = json!({ "kind": kind, "waiting": waiting, "due": due, "claimed": claimed,
                "dead": counts.dead, "aside": counts.aside, "next_due": next });
            session.out.show(&shown, || {
                let mut rows = Rows::new(&["kind", "#waiting", "#due", "#claimed", "#dead", "#aside", "next due"]);
                let numbers = [waiting, due, claimed, counts.dead, counts.aside].map(|count| count.to_string());
                let [waiting, due, claimed, dead, aside] = numbers;
                rows.row([kind.clone(), waiting, due, claimed, dead, aside, at(next)]);
                rows.text("")
            })?;
        }
        Task::Dead { kind, limit } => {
            let dead = tasks.dead(&kind, limit).await?;
            let shown: Vec<Value> = dead
                .iter()
                .map(|task| {
                    let value = serde_json::from_str(&task.value).unwrap_or_else(|_| Value::from(task.value.as_str()));
                    json!({ "id": task.id, "died": task.died, "reason": task.reason, "tries": task.tries,
                        "value": value, "target": task.target })
                })
                .collect();
            session.out.show(&shown, || {
                let mut rows = Rows::new(&["id", "died", "#tries", "reason", "value"]);
                for task in &dead {
                    let tries = task.tries.to_string();
                    rows.row([task.id.clone(), time(task.died), tries, task.reason.clone(), task.value.clone()]);
                }
                rows.text("no dead tasks")
            })?;
        }
        Task::Revive { kind, ids } => {
            session.change(&format!("make {} tasks of the kind {kind:?} due", ids.len()))?;
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let revived = tasks.revive(&kind, &ids).await?;
            let exit = match revived {
                0 => Exit::NotFound,
                some if some < ids.len() => Exit::Unchanged,
                _ => Exit::Done,
            };
            let text = format!("{revived} of {} tasks were dead, and are due now", ids.len());
            return session.changed(&json!({ "asked": ids.len(), "revived": revived }), exit, text);
        }
        Task::Quarantine { kind } => {
            let aside = tasks.aside(&kind).await?;
            let detail = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
            let shown: Vec<Value> = aside.iter().map(|(id, text)| json!({ "id": id, "aside": detail(text) })).collect();
            session.out.show(&shown, || {
                let mut rows = Rows::new(&["id", "why"]);
                for (id, why) in &aside {
                    rows.row([id.clone(), why.clone()]);
                }
                rows.text("nothing was put aside")
            })?;
        }
    }
    Ok(Exit::Done)
}

impl From<timed::Error> for Failure {
    fn from(error: timed::Error) -> Self {
        let exit = match error {
            timed::Error::Redis(_) => Exit::Unreachable,
            _ => Exit::Invalid,
        };
        Self::new(exit, error.to_string())
    }
}

fn at(next: Option<DateTime<Utc>>) -> String {
    next.map_or_else(|| "-".to_owned(), time)
}
