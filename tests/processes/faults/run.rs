//! One run: the database, the processes, the growing journal, and the calls that every fault needs.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use solid_notify::{NewNotice, NotifyDef, Outbox};
use sqlx::Pool;
use sqlx::pool::PoolOptions;
use tempfile::TempDir;
use test_support::journal::{Event, Journal, Reader};
use tokio::sync::Mutex;

use crate::faults::bench::Bench;
use crate::faults::evidence::{Evidence, Row};
use crate::faults::nodes::{Nodes, Role};

/// Alerts of what fails come and go as they do.
const NO_ALERT: &str = "def_id <> (SELECT id FROM notify_def WHERE name = 'notify.alert')";
/// The deadline of a wait for notices that stand still, or for the database. It only ends a run that hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// The live notices above which producers wait. A slow machine sends 25 a second on SQLite, and what is added then is sent well
/// within [`PATIENCE`].
const BACKLOG: usize = 400;
/// The deadline for the rest once nothing is added any more. It only ends a run that hangs.
const DRAINING: Duration = Duration::from_secs(300);
/// Claimed rows of processes that have ended.
const HELD_BY_THE_DEAD: &str = "status = 5 AND next_call_time > '2020-01-02 00:00:00'";

pub struct Run<B: Bench> {
    pub bench: B,
    pub outbox: Outbox<B::Db>,
    pub nodes: Mutex<Nodes>,
    pub journal: Journal,
    seen: Mutex<Seen>,
    /// Leases of the dead that were made to end.
    pub cut_off: AtomicUsize,
    /// Held by the fault that uses the proxy.
    pub weather: Mutex<()>,
    _directory: TempDir,
}

/// The events that were read from the journal.
struct Seen {
    reader: Reader,
    events: Vec<Event>,
    counts: RunCounts,
    /// The tokens of the definition that is edited.
    edited: HashSet<String>,
}

/// How much of each happened.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunCounts {
    pub committed: usize,
    pub unknown: usize,
    pub refused: usize,
    pub exhausted: usize,
    pub delivered: usize,
    pub failed: usize,
    pub called: usize,
    /// Calls for the definition that is edited.
    pub edited: usize,
}

impl Seen {
    fn refresh(&mut self) {
        for event in self.reader.fresh() {
            self.counts.add(&event);
            match &event {
                Event::Begun { token, def, .. } if def == "edited" => drop(self.edited.insert(token.clone())),
                Event::Called { token, .. } => self.counts.edited += usize::from(self.edited.contains(token)),
                _ => {}
            }
            self.events.push(event);
        }
    }
}

impl RunCounts {
    fn add(&mut self, event: &Event) {
        match event {
            Event::Committed { .. } => self.committed += 1,
            Event::Unknown { .. } => self.unknown += 1,
            Event::Refused { .. } => self.refused += 1,
            Event::Exhausted { .. } => self.exhausted += 1,
            Event::Ended { ok: true, .. } => self.delivered += 1,
            Event::Ended { ok: false, .. } => self.failed += 1,
            Event::Called { .. } => self.called += 1,
            Event::Begun { .. } | Event::RolledBack { .. } | Event::Killed { .. } | Event::Phase { .. } => {}
        }
    }
}

impl<B: Bench> Run<B> {
    pub async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bench = B::start(directory.path()).await;
        let pool: Pool<B::Db> = PoolOptions::new().max_connections(4).connect(&bench.url()).await.unwrap();
        let outbox = Outbox::new(pool);
        outbox.migrate().await.unwrap();
        for def in [
            NotifyDef::new("plain").retry_interval("[100ms,300ms]").max_retry_times(6),
            NotifyDef::new("keyed").retry_interval("20ms").max_retry_times(4),
            NotifyDef::new("edited").retry_interval("[100ms]").max_retry_times(3).handler("edited"),
        ] {
            outbox.define_if_missing(def.timeout("20s")).await.unwrap();
        }
        let path = directory.path().join("journal");
        let journal = Journal::open(&path);
        let seen = Seen {
            reader: Reader::open(&path),
            events: Vec::new(),
            counts: RunCounts::default(),
            edited: HashSet::new(),
        };
        let mut nodes = Nodes::new(directory.path(), bench.node_url());
        for role in [Role::Producer, Role::Sweeper, Role::Sweeper] {
            nodes.start(role);
        }
        Self {
            bench,
            outbox,
            nodes: Mutex::new(nodes),
            journal,
            seen: Mutex::new(seen),
            cut_off: AtomicUsize::new(0),
            weather: Mutex::new(()),
            _directory: directory,
        }
    }

    /// The least and the highest limits that the definitions ever have.
    pub fn limits() -> HashMap<String, RangeInclusive<i64>> {
        let limits = [("plain", 6..=6), ("keyed", 4..=4), ("edited", 2..=6)];
        limits.into_iter().map(|(name, limits)| (name.to_owned(), limits)).collect()
    }

    pub async fn counts(&self) -> RunCounts {
        let mut seen = self.seen.lock().await;
        seen.refresh();
        seen.counts
    }

    /// How many calls of handlers there were of notices that `wanted` says, by the token and the process.
    pub async fn calls(&self, wanted: impl Fn(&str, &str) -> bool) -> usize {
        self.counts().await;
        let seen = self.seen.lock().await;
        let called = |event: &&Event| matches!(event, Event::Called { token, node, .. } if wanted(token, node));
        seen.events.iter().filter(called).count()
    }

    /// Adds a notice over a connection that no fault of the network meets; returns its token, or none where another
    /// fault was in the way.
    pub async fn add(&self, by: &str, delay: Duration) -> Option<String> {
        let token = format!("{by}.{}.0", fastrand::u64(..));
        self.journal.add(&Event::Begun { token: token.clone(), def: "plain".into(), key: None });
        let mut tx = self.outbox.begin().await.ok()?;
        let id = NewNotice::new("plain", &token).unwrap().delay(delay).add(&mut tx).await.ok()?.id();
        tx.commit().await.ok()?;
        self.journal.add(&Event::Committed { token: token.clone(), id });
        Some(token)
    }

    /// Waits until `condition` holds.
    pub async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let began = Instant::now();
        while !condition().await {
            if began.elapsed() > PATIENCE {
                panic!("{}: {what}: it hangs, after {PATIENCE:?}\n{}", B::NAME, self.missing().await);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until notices are committed and sent again, and a moment more.
    pub async fn flows(&self) {
        let before = self.counts().await;
        self.until("notices flow", async || {
            let now = self.counts().await;
            now.committed > before.committed + 30 && now.delivered > before.delivered + 30
        })
        .await;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..300))).await;
    }

    /// Runs SQL, again where it met one of the faults.
    pub async fn sql(&self, sql: &str) -> u64 {
        let began = Instant::now();
        loop {
            match B::sql(self.outbox.pool(), sql).await {
                Ok(rows) => return rows,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{}: {sql}: {error}", B::NAME),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let began = Instant::now();
        loop {
            match B::rows(self.outbox.pool(), sql).await {
                Ok(rows) => return rows,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{}: {sql}: {error}", B::NAME),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The one number that `sql` selects as text.
    pub async fn number(&self, sql: &str) -> usize {
        one(&self.rows(sql).await)
    }

    /// Lets the leases of the dead end, for ever: what a process asked for last, a server may carry out after its death.
    /// A lease is longer than a test may wait, and runs by the database's clock.
    pub async fn bury(&self) {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let dead: Vec<String> =
                self.nodes.lock().await.dead().iter().map(|name| format!("worker LIKE '{name}-%'")).collect();
            if dead.is_empty() {
                continue;
            }
            let dead = dead.join(" OR ");
            let expire = format!(
                "UPDATE notify_msg SET next_call_time = '2020-01-01 00:00:00' WHERE {HELD_BY_THE_DEAD} AND ({dead})"
            );
            // An error is one of the faults; there is a next time.
            if let Ok(rows) = B::sql(self.outbox.pool(), &expire).await {
                self.cut_off.fetch_add(usize::try_from(rows).unwrap(), Ordering::Relaxed);
            }
        }
    }

    /// Holds the producers back while much is to be sent, as a slow machine may have it: otherwise each kill would cut
    /// off more than all sweepers can send until the next.
    pub async fn pace(&self) {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            // An error is one of the faults; there is a next time.
            if let Ok(rows) = B::rows(self.outbox.pool(), &live()).await {
                let order = if one(&rows) > BACKLOG { "hold" } else { "go" };
                self.nodes.lock().await.tell(order).await;
            }
        }
    }

    /// Fails as soon as a process ends by itself.
    pub async fn watch(&self) {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let fallen = self.nodes.lock().await.fallen();
            assert!(fallen.is_empty(), "{}: {}", B::NAME, fallen.join("\n"));
        }
    }

    /// Produces no more and waits until all is sent.
    pub async fn drain(&self) {
        self.nodes.lock().await.tell("quiet").await;
        let began = Instant::now();
        while self.number(&live()).await > 0 {
            if began.elapsed() > DRAINING {
                panic!("{}: not all is sent after {DRAINING:?}\n{}", B::NAME, self.missing().await);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn evidence(&self) -> Evidence {
        let columns = ["id", "status", "fence", "failures", "crashes"].map(|name| format!("CAST({name} AS char(20))"));
        let history = format!(
            "SELECT {}, param, errors FROM notify_msg_history WHERE {NO_ALERT} ORDER BY id",
            columns.join(", ")
        );
        let row = |row: Vec<Option<String>>| {
            let int = |column: usize| row[column].as_deref().unwrap().trim().parse().unwrap();
            Row {
                id: int(0),
                status: int(1),
                fence: int(2),
                failures: int(3),
                crashes: int(4),
                token: serde_json::from_str(row[5].as_deref().unwrap()).unwrap(),
                errors: row[6].as_deref().map_or_else(Vec::new, |text| serde_json::from_str(text).unwrap()),
            }
        };
        let history = self.rows(&history).await.into_iter().map(row).collect();
        let live = self.rows(&format!("SELECT CAST(id AS char(20)) FROM notify_msg WHERE {NO_ALERT}")).await;
        let live = live.iter().map(|row| row[0].as_deref().unwrap().trim().parse().unwrap()).collect();
        self.counts().await;
        Evidence::new(&self.seen.lock().await.events, history, live, Self::limits())
    }

    /// Describes the live notices and the reason for them, for a message.
    pub async fn missing(&self) -> String {
        let columns =
            ["id", "def_id", "status", "fence", "failures", "crashes", "worker", "next_call_time", "ordering_key"];
        let columns = columns.map(|name| format!("'{name} ', CAST({name} AS char(60))")).join(", ");
        let left = B::rows(
            self.outbox.pool(),
            &format!("SELECT {columns} FROM notify_msg WHERE {NO_ALERT} ORDER BY id LIMIT 25"),
        )
        .await;
        let count = B::rows(self.outbox.pool(), &live()).await;
        let lines = match left {
            Ok(rows) => {
                let line = |row: Vec<Option<String>>| {
                    row.into_iter()
                        .map(|cell| cell.map_or("- ".into(), |cell| format!("{} ", cell.trim())))
                        .collect::<String>()
                };
                rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
            }
            Err(error) => error.to_string(),
        };
        let nodes = self.nodes.lock().await;
        format!("in notify_msg ({count:?}), the first of them:\n{lines}\n{:?}\n{}", self.counts().await, nodes.logs())
    }
}

/// Selects how many notices are live.
fn live() -> String {
    format!("SELECT CAST(count(*) AS char(20)) FROM notify_msg WHERE {NO_ALERT}")
}

fn one(rows: &[Vec<Option<String>>]) -> usize {
    rows[0][0].as_deref().unwrap_or("0").trim().parse().unwrap()
}
