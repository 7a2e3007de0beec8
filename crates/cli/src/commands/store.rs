//! `migrate`, `health`: the store itself.

use serde::Serialize;
use solid_notify::alert::ALERT_DEFINITION;
use solid_notify::definition::DefinitionState;
use solid_notify::operate::{Paused, SeenNode};
use solid_notify::{AnyOutbox, Filter};

use crate::contexts::shown;
use crate::exit::{Exit, Outcome};
use crate::session::Session;
use crate::table::Fields;

/// Creates the tables, or brings them up to date.
pub(crate) async fn migrate(session: &Session) -> Outcome {
    session.change("create or update the tables")?;
    session.outbox.migrate().await?;
    session.out.show(&serde_json::json!({ "result": "migrated" }), || "the tables are up to date".to_owned())?;
    Ok(Exit::Done)
}

/// What `health` finds.
#[derive(Serialize)]
struct Health {
    healthy: bool,
    store: String,
    nodes: Vec<SeenNode>,
    paused: Option<Paused>,
    definitions: usize,
    invalid_definitions: Vec<String>,
    refused_definitions: Vec<String>,
    without_handler: Vec<String>,
    open_circuits: Vec<String>,
    /// What keeps nodes from sending.
    not_sending: Vec<String>,
    /// Whether a node sends alerts to people.
    alerts_are_sent: bool,
    /// Alerts that are not sent yet.
    waiting_alerts: u64,
    /// Alerts that are not over. A silence is not one of them.
    open_alerts: usize,
    dead_letters: u64,
}

/// Shows whether the store answers, sweepers run, and what stands in the way of sending.
pub(crate) async fn health(session: &Session) -> Outcome {
    let outbox: &AnyOutbox = &session.outbox;
    let states: Vec<_> = outbox.definitions().await?.into_iter().filter(|state| state.deleted().is_none()).collect();
    let nodes = session.operator.nodes().await?;
    let names = |chosen: &dyn Fn(&DefinitionState) -> bool| {
        states.iter().filter(|state| chosen(state)).map(|state| state.row.name.clone()).collect::<Vec<_>>()
    };
    let is_alert = |state: &DefinitionState| state.row.name == ALERT_DEFINITION;
    let without_handler = names(&|state| state.in_force().enabled && !is_alert(state) && !state.is_handled_by(&nodes));
    let circuits = session.operator.circuits().await?;
    let mut health = Health {
        healthy: false,
        store: shown(&session.chosen.url),
        paused: session.operator.paused().await?,
        definitions: states.len(),
        invalid_definitions: names(&|state| !state.problems.is_empty()),
        refused_definitions: names(&|state| !state.refused_by.is_empty()),
        without_handler: if nodes.is_empty() { Vec::new() } else { without_handler },
        open_circuits: circuits.into_iter().filter(|at| at.open).map(|at| at.definition).collect(),
        not_sending: nodes
            .iter()
            .flat_map(|node| node.problems.iter().map(|why| format!("{}: {why}", node.id)))
            .collect(),
        alerts_are_sent: states
            .iter()
            .any(|state| is_alert(state) && state.in_force().enabled && state.is_handled_by(&nodes)),
        // The first sweeper creates the definition.
        waiting_alerts: match states.iter().any(is_alert) {
            true => count_of(session, &Filter::waiting().definition(ALERT_DEFINITION)).await?,
            false => 0,
        },
        open_alerts: session.operator.open_alerts(1000).await?.iter().filter(|alert| alert.since.is_some()).count(),
        dead_letters: count_of(session, &Filter::dead_letters()).await?,
        nodes,
    };
    let blocking = [
        &health.invalid_definitions,
        &health.refused_definitions,
        &health.without_handler,
        &health.open_circuits,
        &health.not_sending,
    ];
    health.healthy = !health.nodes.is_empty() && health.paused.is_none() && blocking.into_iter().all(Vec::is_empty);
    session.out.show(&health, || text(&health))?;
    Ok(if health.healthy { Exit::Done } else { Exit::Failed })
}

async fn count_of(session: &Session, filter: &Filter) -> Outcome<u64> {
    Ok(session.operator.counts(filter).await?.iter().map(|class| class.count.count).sum())
}

fn text(health: &Health) -> String {
    let list = |names: &[String]| Some(names.join(", ")).filter(|names| !names.is_empty());
    let mut fields = Fields::default();
    fields.add("store", &health.store).add("healthy", if health.healthy { "yes" } else { "no" });
    fields.add(
        "sweepers",
        match health.nodes.len() {
            0 => "none runs: nothing is sent; start one with the application, or `solid-notify run`".to_owned(),
            nodes => nodes.to_string(),
        },
    );
    fields.add("not sending", Some(health.not_sending.join("; ")).filter(|why| !why.is_empty()));
    fields.add("paused", health.paused.as_ref().map(|paused| format!("{paused}; `solid-notify resume-all` ends it")));
    fields.add("definitions", health.definitions);
    fields.add(
        "invalid",
        list(&health.invalid_definitions).map(|names| format!("{names}; `solid-notify def show NAME` shows why")),
    );
    fields.add(
        "refused",
        list(&health.refused_definitions).map(|names| format!("{names}; a node refuses their handler_config or holds notices back: `solid-notify def show NAME` shows why")),
    );
    fields.add(
        "without handler",
        list(&health.without_handler).map(|names| format!("{names}; no living node has their handlers")),
    );
    fields
        .add("open circuits", list(&health.open_circuits).map(|names| format!("{names}; `solid-notify circuit list`")));
    let unsent = (!health.alerts_are_sent && !health.nodes.is_empty()).then(|| {
        let waiting = match health.waiting_alerts {
            0 => String::new(),
            count => format!("; {count} wait"),
        };
        format!("no node sends them to people: `serve` does with [alerts]{waiting}")
    });
    fields.add("alerts", unsent);
    fields.add("open alerts", health.open_alerts).add("dead letters", health.dead_letters);
    fields.text()
}
