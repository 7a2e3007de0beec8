//! Nodes: heartbeats with the alarms that they bring, the list of living nodes, and the database's time.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::{duration_millis, time_from_millis};
use solid_notify_core::store::{Alarm, ClusterView, NODE_LIVES, Node, SeenNode};

use crate::alerts;
use crate::connections::{Borrowed, Share};
use crate::dialect::Dialect;
use crate::dialect::fault::{conflict_pause, fault};
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, one_number, required_text};
use crate::dialect::statement::{Arg, Statement, json, statements};

/// How long the alarms of a heartbeat wait for their rows in all.
const ALARMS_WAIT: Duration = Duration::from_millis(500);
/// Nodes that were not seen for this long are deleted.
const NODE_MEMORY: Duration = Duration::from_secs(86_400);

columns! {
    Seen(kind: Kind):
    id = "id";
    handlers = "handlers";
    version = "version";
    clock_offset_ms = "clock_offset_ms";
    refused = "refused";
    problems = "problems";
    param_keys = "param_keys";
    start_time = kind.epoch("start_time");
    last_seen = kind.epoch("last_seen");
}

statements! {
    NodeStatements:
    time,
    beat,
    first_beat,
    nodes,
    forget_nodes,
    living_nodes,
}

impl NodeStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let seen = kind.was_seen("$2");
        Self {
            time: statement(format!("SELECT {}", kind.epoch_down(&now))),
            beat: statement(format!(
                "UPDATE notify_node SET last_seen = {now}, handlers = $3, version = $4, clock_offset_ms = $5, refused = $6, stopped = $7, problems = $8, param_keys = $9 WHERE id = $2"
            )),
            first_beat: statement(format!(
                "INSERT INTO notify_node (id, handlers, version, clock_offset_ms, refused, stopped, problems, param_keys, start_time, last_seen)
                 VALUES ($2, $3, $4, $5, $6, $7, $8, $9, {now}, {now})"
            )),
            nodes: statement(format!("SELECT handlers FROM notify_node WHERE {seen}")),
            forget_nodes: statement(format!("DELETE FROM notify_node WHERE NOT ({seen})")),
            living_nodes: statement(format!("SELECT {} FROM notify_node WHERE {seen} AND NOT stopped ORDER BY id", Seen::list(kind))),
        }
    }
}

pub(crate) async fn read_time<DB: Dialect>(on: &Share<DB>, now: Arg<'_>) -> sqlx::Result<DateTime<Utc>> {
    let mut conn = on.get().await?;
    let now = time::<DB>(&mut conn, now).await?;
    conn.done();
    Ok(now)
}

pub(crate) async fn time<DB: Dialect>(conn: &mut DB::Connection, now: Arg<'_>) -> sqlx::Result<DateTime<Utc>> {
    let rows = DB::fetch(conn, &NodeStatements::of(DB::KIND).time, &[now]).await?;
    Ok(time_from_millis(one_number::<DB>(&rows)?.unwrap_or(0)))
}

pub(crate) async fn beat<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, node: &Node) -> sqlx::Result<ClusterView> {
    let statements = NodeStatements::of(DB::KIND);
    let handlers = json(&node.handlers)?;
    let refused = if node.refused.is_empty() { None } else { Some(json(&node.refused)?) };
    let problems = if node.problems.is_empty() { None } else { Some(json(&node.problems)?) };
    let param_keys = if node.param_keys.is_empty() { None } else { Some(json(&node.param_keys)?) };
    let args = [
        now,
        node.id.as_str().into(),
        handlers.as_str().into(),
        node.version.as_str().into(),
        node.clock_offset_ms.into(),
        Arg::Text(refused.as_deref()),
        Arg::Bool(node.stopped),
        Arg::Text(problems.as_deref()),
        Arg::Text(param_keys.as_deref()),
    ];
    let mut conn = on.get().await?;
    if DB::execute(&mut conn, &statements.beat, &args).await?.rows == 0 {
        DB::execute(&mut conn, &statements.first_beat, &args).await?;
        DB::execute(&mut conn, &statements.forget_nodes, &[now, duration_millis(NODE_MEMORY).into()]).await?;
    }
    // Alarms are raised one by one, because other nodes lock such a row for a moment. The next heartbeat raises an alarm again whose row
    // stays locked.
    let until = Instant::now() + ALARMS_WAIT;
    let mut alarms_left = 0;
    for alarm in &node.alarms {
        while !try_alarm::<DB>(&mut conn, now, alarm).await? {
            if Instant::now() >= until {
                alarms_left += 1;
                break;
            }
            tokio::time::sleep(conflict_pause()).await;
        }
    }
    let lives = DB::fetch(&mut conn, &statements.nodes, &[now, duration_millis(NODE_LIVES).into()]).await?;
    let now = time::<DB>(&mut conn, now).await?;
    conn.done();
    // A list that an edit by hand made unreadable counts as no handlers.
    let of = |row: &DB::Row| DB::text(row, 0).ok().flatten().and_then(|list| serde_json::from_str(&list).ok());
    let handlers = lives.iter().filter_map(of).flat_map(|list: Vec<String>| list).collect();
    Ok(ClusterView { now, handlers, alarms_left })
}

/// Returns false where another session has locked the alert's row.
async fn try_alarm<DB: Dialect>(conn: &mut Borrowed<'_, DB>, now: Arg<'_>, alarm: &Alarm) -> sqlx::Result<bool> {
    let mut tx = conn.begin().await?;
    match alerts::apply::<DB>(&mut tx, now, std::iter::once(alarm)).await {
        Err(error) if fault::<DB>(&error) == FaultKind::Conflict => tx.rollback().await.map(|()| false),
        Err(error) => Err(error),
        Ok(()) => tx.commit().await.map(|()| true),
    }
}

pub(crate) async fn living<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    seen_within: Duration,
) -> sqlx::Result<Vec<SeenNode>> {
    let args = [now, duration_millis(seen_within).into()];
    let rows = on.rows(&NodeStatements::of(DB::KIND).living_nodes, &args).await?;
    rows.iter().map(read::<DB>).collect()
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<SeenNode> {
    const AT: Seen = Seen::AT;
    let handlers = serde_json::from_str(&required_text::<DB>(row, AT.handlers)?).unwrap_or_default();
    let refused = DB::text(row, AT.refused)?.and_then(|list| serde_json::from_str(&list).ok());
    let problems = DB::text(row, AT.problems)?.and_then(|list| serde_json::from_str(&list).ok());
    let param_keys = DB::text(row, AT.param_keys)?.and_then(|list| serde_json::from_str(&list).ok());
    let node = Node {
        version: required_text::<DB>(row, AT.version)?,
        clock_offset_ms: DB::int(row, AT.clock_offset_ms)?.unwrap_or(0),
        refused: refused.unwrap_or_default(),
        problems: problems.unwrap_or_default(),
        param_keys: param_keys.unwrap_or_default(),
        ..Node::new(required_text::<DB>(row, AT.id)?, handlers)
    };
    let time = |column| DB::int(row, column).map(|ms| time_from_millis(ms.unwrap_or(0)));
    Ok(SeenNode::new(node, time(AT.start_time)?, time(AT.last_seen)?))
}
