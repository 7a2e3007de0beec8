//! `alerts list|silence|unsilence|ack`.

use chrono::{DateTime, Utc};
use clap::Subcommand;
use solid_notify::alert::AlertReason;

use crate::exit::{Exit, Outcome};
use crate::session::{Session, done_if};
use crate::table::{self, Rows, cell, time};
use crate::times;

/// Commands for alerts.
#[derive(Debug, Subcommand)]
pub(crate) enum Alerts {
    /// List alerts that are not over, and silences
    List {
        /// How many
        #[arg(long, short = 'n', default_value_t = 100, value_name = "NUMBER")]
        limit: usize,
    },
    /// Send no alerts of a definition until a time
    Silence {
        definition: String,
        /// Until when: 2h (for two hours), or 2026-11-21T12:00:00Z
        #[arg(long, value_parser = times::future, value_name = "TIME")]
        until: DateTime<Utc>,
        /// Why, for those who miss the alerts
        #[arg(long, short)]
        reason: String,
        #[command(flatten)]
        kind: Kind,
    },
    /// End a silence now
    Unsilence {
        definition: String,
        #[command(flatten)]
        kind: Kind,
    },
    /// Take care of an alert: no further one of it is sent until the problem is over
    Ack {
        definition: String,
        #[command(flatten)]
        kind: Kind,
    },
}

/// Which alerts of a definition.
#[derive(Debug, clap::Args)]
pub(crate) struct Kind {
    /// Only alerts of this reason, such as final_failure or backlog
    #[arg(long = "alert", value_parser = kind, value_name = "REASON")]
    kind: Option<AlertReason>,
}

fn kind(text: &str) -> Result<AlertReason, String> {
    AlertReason::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = AlertReason::ALL.into_iter().map(AlertReason::as_str).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Runs a command for alerts.
pub(crate) async fn run(session: &Session, command: Alerts) -> Outcome {
    let operator = &session.operator;
    match command {
        Alerts::List { limit } => {
            let alerts = operator.open_alerts(limit).await?;
            session.out.show(&alerts, || {
                let mut rows = Rows::new(&["definition", "reason", "since", "#suppressed", "state", "message"]);
                for alert in &alerts {
                    let state = match (&alert.silenced_until, &alert.acknowledged_by) {
                        (Some(until), _) => format!("silenced until {}", time(*until)),
                        (None, Some(who)) => format!("acked by {who}"),
                        (None, None) => "open".to_owned(),
                    };
                    let (suppressed, message) = (alert.suppressed.to_string(), cell(&alert.message));
                    let reason = alert.reason.as_str().to_owned();
                    let definition = table::definition(&alert.definition, alert.def_id);
                    rows.row([definition, reason, cell(alert.since), suppressed, state, message]);
                }
                rows.text("no open alerts")
            })?;
            Ok(Exit::Done)
        }
        Alerts::Silence { definition, until, reason, kind } => {
            session.change(&format!("silence alerts of {definition:?}"))?;
            let silenced = operator.silence(&definition, kind.kind, until, &reason).await?;
            let text = match silenced {
                true => format!("no alerts of {definition} until {}", time(until)),
                false => format!("{} has passed: nothing was changed", time(until)),
            };
            report(session, silenced, text)
        }
        Alerts::Unsilence { definition, kind } => {
            session.change(&format!("end silences of {definition:?}"))?;
            let ended = operator.unsilence(&definition, kind.kind).await?;
            report(session, ended, if ended { "alerts are sent again" } else { "there is no such silence" }.to_owned())
        }
        Alerts::Ack { definition, kind } => {
            session.change(&format!("ack alerts of {definition:?}"))?;
            let acked = operator.acknowledge(&definition, kind.kind).await?;
            let none = "there is no open alert that is not acked already";
            report(
                session,
                acked,
                if acked { "acked: no further alert until the problem is over" } else { none }.to_owned(),
            )
        }
    }
}

fn report(session: &Session, changed: bool, text: String) -> Outcome {
    let result = serde_json::json!({ "result": if changed { "applied" } else { "unchanged" } });
    session.changed(&result, done_if(changed), text)
}
