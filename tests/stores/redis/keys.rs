//! What is stored in Redis: "What is stored" in `docs/src/redis.md` and `docs/src/timed-tasks.md` lists each key with its type, and each field. A change of a name
//! there is a change of a contract, because people read the keys and programs of another version use them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use ::redis::{Commands, Connection, cmd};
use solid_notify::alert::AlertReason;
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::operate::{LastResponse, SeriesCounts};
use solid_notify::{Filter, Inbox, NewNotice, NotifyDef, Response, Status};
use solid_notify_conformance::{outcome, succeed};
use solid_notify_core::limit::Quota;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{
    Advanced, Alarm, Cause, Claim, ClaimWhat, LastTick, NamedTarget, Node, PassOn, Purge, SeriesRow, Settle, Tick,
    minute_of,
};
use solid_notify_core::transition::Next;
use solid_notify_redis::RedisOutbox;
use solid_notify_timed::{TaskLease, TaskOutcome};
use test_support::RedisServer;
use test_support::redis::OwnPrefix;

const SECOND: Duration = Duration::from_secs(1);
const KIND: &str = "remind";
const HOURLY: &str = "0 0 * * * *";

/// A row of a table of the chapter: type of the key, and all words that are marked as code in its text.
struct Row {
    kind: String,
    words: BTreeSet<String>,
}

/// The chapters that list keys, and the heading of the first list in each.
const CHAPTERS: [(&str, &str); 2] = [("redis.md", ""), ("timed-tasks.md", TIMED_TASKS)];
const TIMED_TASKS: &str = "Keys of timed tasks";

/// Returns the rows by heading and key.
fn documented() -> BTreeMap<(String, String), Row> {
    let mut rows = BTreeMap::new();
    for (file, first) in CHAPTERS {
        let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src").join(file);
        let text = std::fs::read_to_string(chapter).unwrap();
        let mut heading = first;
        for line in text[text.find("## What is stored").unwrap()..].lines() {
            if let Some(title) = line.strip_prefix("### ") {
                heading = title;
            }
            let Some((key, rest)) = line.strip_prefix("| `").and_then(|rest| rest.split_once("` | ")) else { continue };
            let (kind, holds) = rest.split_once(" | ").unwrap();
            let words = holds.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            rows.insert((heading.to_owned(), key.to_owned()), Row { kind: kind.to_owned(), words });
        }
    }
    assert_eq!(rows.len(), 50, "23 keys of a definition, 16 of the outbox, 11 of timed tasks");
    rows
}

/// Returns the heading and the listed form of a stored key: `{p#3}:notice:100003` is `notice:<id>` of a definition.
fn listed(prefix: &str, key: &str) -> (String, String) {
    let (braces, name) = key.split_once("}:").unwrap();
    let inside = braces.strip_prefix(&format!("{{{prefix}")).unwrap();
    let alerts = name.split_once(':').filter(|(first, _)| first.parse::<i64>().is_ok());
    let (heading, name) = match (inside, alerts) {
        ("#", Some((_, name))) => ("Keys of a definition", name),
        ("#", None) => ("Keys of the whole outbox", name),
        (kind, _) if kind.starts_with('#') => ("Keys of a definition", name),
        _ => (TIMED_TASKS, name),
    };
    let with_part = [
        ("notice:", "<id>"),
        ("status:", "<status>"),
        ("dead_letters:", "<class>"),
        ("error_group:", "<group>"),
        ("tagged:", "<status>:<tag>"),
        ("series:", "<hour>"),
        ("ready:", "<slice>"),
        ("definition:", "<id>"),
        ("versions:", "<id>"),
        ("outgoing:", "<target>"),
    ];
    let form = with_part.iter().find(|(start, _)| name.starts_with(start));
    (heading.to_owned(), form.map_or_else(|| name.to_owned(), |(start, part)| format!("{start}{part}")))
}

/// The words of a stored value: the fields of a hash that has fixed ones, and the fields of each JSON object.
fn words(connection: &mut Connection, key: &str, form: &str) -> BTreeSet<String> {
    let kind: String = cmd("TYPE").arg(key).query(connection).unwrap();
    let mut fields = BTreeSet::new();
    let texts: Vec<String> = match kind.as_str() {
        "hash" if ["notice:<id>", "definition:<id>", "tick", "check"].contains(&form) => {
            return connection.hkeys(key).unwrap();
        }
        "hash" => connection.hvals(key).unwrap(),
        "list" => connection.lrange(key, 0, -1).unwrap(),
        "string" => vec![connection.get(key).unwrap()],
        "stream" => {
            let entries: Vec<(String, Vec<String>)> =
                cmd("XRANGE").arg(key).arg("-").arg("+").query(connection).unwrap();
            let pairs = entries.iter().flat_map(|(_, words)| words.chunks(2));
            let (names, values): (Vec<_>, Vec<_>) = pairs.map(|pair| (pair[0].clone(), pair[1].clone())).unzip();
            fields.extend(names);
            values
        }
        _ => Vec::new(),
    };
    let objects = texts.iter().filter_map(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    fields.extend(objects.filter_map(|value| Some(value.as_object()?.keys().cloned().collect::<Vec<_>>())).flatten());
    fields
}

/// The alarm of a dead letter.
fn alarm(alert_def: i64, dead: &Settle) -> Alarm {
    Alarm {
        alert_def,
        // The last five digits of an id.
        def_id: dead.id % 100_000,
        definition: "sync".to_owned(),
        reason: AlertReason::FinalFailure,
        cooldown: SECOND,
        notice_id: Some(dead.id),
        description: None,
        class: dead.last_class.clone(),
        message: "refused".to_owned(),
        cause: Cause::default(),
        node: "node-1".to_owned(),
    }
}

struct World {
    own: OwnPrefix,
    outbox: RedisOutbox,
}

impl World {
    async fn define(&self, def: NotifyDef) -> i64 {
        let name = def.name.clone();
        self.outbox.define_if_missing(def).await.unwrap();
        let all = self.outbox.definitions().await.unwrap();
        all.into_iter().find(|state| state.row.name == name).unwrap().row.id
    }

    async fn add(&self, notice: NewNotice) -> i64 {
        notice.add(&mut self.outbox.clone()).await.unwrap().id()
    }

    async fn claim(&self, def_id: i64, status: Status, quota: Option<Quota>) -> Vec<ClaimedNotice> {
        let (what, worker) = (ClaimWhat::Slice(status), "worker-1".to_owned());
        let claim = Claim { def_id, what, limit: 1, lease: SECOND, worker, quota };
        self.outbox.engine().stores().send.claim(&claim).await.unwrap().notices
    }

    async fn settle(&self, settle: Settle) {
        self.outbox.engine().stores().send.settle(&[settle]).await.unwrap();
    }

    /// Writes a minute of the series, as a node does up to a minute after its last outcome.
    async fn write_series(&self, def_id: i64) {
        let (minute, counts) = (minute_of(self.own.clock.now()), SeriesCounts::from_values(1..));
        let row = SeriesRow { def_id, minute, counts };
        self.outbox.engine().stores().send.write_series("node-1", &[row]).await.unwrap();
    }

    async fn refresh_counts(&self, def_id: i64) -> bool {
        self.outbox.engine().stores().browse.refresh_counts(def_id, SECOND).await.unwrap()
    }

    async fn tick(&self, def_id: i64) {
        let (last, schedule) = (self.own.clock.now(), Some(HOURLY.to_owned()));
        let tick = Tick { def_id, schedule, seen: LastTick::default(), last, params: Vec::new(), authority: None };
        assert_eq!(self.outbox.engine().stores().send.tick(&tick).await.unwrap(), Advanced::Stored);
    }

    async fn purge(&self, purge: Purge) -> usize {
        self.outbox.engine().stores().send.purge(&purge).await.unwrap().len()
    }

    /// Deletes a definition without notices and purges it.
    async fn drop_definition(&self, def_id: i64) {
        let all = self.outbox.definitions().await.unwrap();
        let row = all.into_iter().map(|state| state.row).find(|row| row.id == def_id).unwrap();
        self.outbox.delete(&row).await.unwrap();
        assert_eq!(self.purge(Purge::Definition { def_id, older_than: Duration::ZERO }).await, 1);
    }

    /// Notices in every status, with every field.
    async fn notices(&self) {
        let def_id = self.define(NotifyDef::new("sync").schedule(HOURLY)).await;
        let alerts = self.define(NotifyDef::new(ALERT_DEFINITION)).await;
        let notice = || NewNotice::new("sync", 1).unwrap();
        let limited = || notice().max_tries(7).expires_at("2100-01-31T12:00:00Z".parse().unwrap());
        let full = || limited().description("d").trace_context("t").ordering_key("o").tag("order:7");
        let next = |status| Next::Wait { status, after: SECOND };
        let ended = |status| Next::Finish { status, reason: Some("refused".to_owned()), keep: true };

        self.add(full()).await;
        let mut claimed = self.claim(def_id, Status::NotSent, None).await;
        let mut dead = outcome(&claimed.remove(0), ended(Status::DeadLetter));
        (dead.errors, dead.last_class) = (Some("[]".to_owned()), Some("network".to_owned()));
        dead.response = LastResponse::new(1, 1, self.own.clock.now(), 5, Response::new(500)).to_stored();
        dead.regroup();
        let alarm = alarm(alerts, &dead);
        // The node raises it again, within the cool-down.
        dead.alarm = Some(Box::new(alarm.clone()));
        self.settle(dead).await;

        for crashes in [0, 2] {
            self.add(notice()).await;
            let claimed = self.claim(def_id, Status::NotSent, None).await.remove(0);
            let mut failed = outcome(&claimed, next(Status::Failed));
            failed.transition.crashes = crashes;
            self.settle(failed).await;
        }
        self.add(notice().unique_until_ended("passed on")).await;
        let target = self.define(NotifyDef::target("sync", "erp")).await;
        let passed_on = self.claim(def_id, Status::NotSent, None).await.remove(0);
        let (id, fence, targets) = (passed_on.id, passed_on.fence, vec![target]);
        let (known, owed) = (targets.iter().map(|target| (*target).into()).collect(), Vec::new());
        let part = PassOn { id, def_id, fence, known, targets, owed, most: 1 };
        self.outbox.engine().stores().send.pass_on(&part).await.unwrap();
        let passed_on = succeed(&passed_on);
        self.settle(Settle { pass_to: vec![NamedTarget::new(target, "erp")], ..passed_on }).await;
        self.add(notice()).await;
        let claimed = self.claim(def_id, Status::NotSent, None).await.remove(0);
        self.settle(outcome(&claimed, next(Status::AwaitingAck))).await;

        self.add(full().unique_until_ended("a")).await;
        let quota = Quota { rate: None, total: Some(9), breaker: None };
        assert_eq!(self.claim(def_id, Status::NotSent, Some(quota)).await.len(), 1);
        let operator = self.outbox.operator("alice");
        let waiting = self.add(notice().delay(SECOND)).await;
        operator.cancel(waiting, "no longer needed").await.unwrap();
        self.add(notice().delay(SECOND)).await;
        let not_sent = Filter::status(Status::NotSent).definition("sync");
        let step = operator.cancel_all(&not_sent, "no longer needed").await.unwrap();
        assert_eq!(step.changed, 1);
        self.add(notice().delay(SECOND)).await;
        operator.test_send("sync", 1).await.unwrap();
        operator.pause_all("maintenance").await.unwrap();

        assert!(Inbox::new("warehouse", "shop").first_time(&mut self.outbox.clone(), "7").await.unwrap());
        assert!(self.outbox.engine().stores().definitions.store_id().await.unwrap().is_some());
        let node = Node { alarms: vec![alarm], ..Node::new("node-1", vec!["sync".to_owned()]) };
        self.outbox.engine().stores().send.beat(&node).await.unwrap();
        assert!(self.refresh_counts(def_id).await);
        self.tick(def_id).await;
        self.write_series(def_id).await;
        self.drop_definition(self.define(NotifyDef::new("gone")).await).await;
        // A member without a notice.
        let ready = format!("{{{}#{def_id}}}:ready:first_sends", self.own.prefix);
        self.own.by_hand(&["ZADD", &ready, "1", "0000000000009900001"]);
        self.claim(def_id, Status::NotSent, None).await;
    }

    /// Timed tasks in every state.
    async fn tasks(&self) {
        let tasks = self.own.tasks().await;
        let lease = TaskLease::of(60 * SECOND);
        assert!(tasks.claim::<i64>(KIND, 10, &lease).await.unwrap().tasks.is_empty());
        for (id, outcome) in [
            ("claimed", None),
            ("dead", Some(TaskOutcome::Dead("no such number".to_owned()))),
            ("aside", Some(TaskOutcome::Aside("unusable".to_owned()))),
            ("retried", Some(TaskOutcome::Retry((60 * SECOND).into()))),
        ] {
            tasks.add_as(KIND, id, Duration::ZERO, &1).await.unwrap();
            let claimed = tasks.claim::<i64>(KIND, 10, &lease).await.unwrap().tasks.remove(0);
            if let Some(outcome) = outcome {
                assert_eq!(tasks.settle(KIND, &[claimed.outcome(outcome)]).await.unwrap(), [true]);
            }
        }
        // A claim that finds nothing looks for damage.
        tasks.claim::<i64>(KIND, 10, &lease).await.unwrap();
        let to_shop = tasks.with_target("https://shop.example").unwrap();
        to_shop.add(KIND, 60 * SECOND, &1).await.unwrap();
        // A kind of its own, because the older keys have no prefix.
        let older = format!("older {}", self.own.prefix);
        let due = (self.own.clock.now() + SECOND).timestamp_millis().to_string();
        self.own.by_hand(&["HSET", &format!("timedTaskContent_{older}"), "task", "1"]);
        self.own.by_hand(&["ZADD", &format!("timedTask_{older}"), &due, "task"]);
        assert_eq!(tasks.import_older(&older).await.unwrap().imported, 1);
    }
}

async fn each_stored_key_and_field_is_listed_and_is_a_word<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    let w = World { own, outbox };
    w.notices().await;
    w.tasks().await;
    let rows = documented();
    let (mut seen, mut fields) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<String>>::new());
    w.own.on_each_node(|connection| {
        let pattern = format!("{{{}*", w.own.prefix);
        let keys: Vec<String> = connection.scan_match(&pattern).unwrap().collect::<Result<_, _>>().unwrap();
        for key in keys {
            let form = listed(&w.own.prefix, &key);
            let row = rows.get(&form).unwrap_or_else(|| panic!("{key} is not listed: {form:?}"));
            let kind: String = cmd("TYPE").arg(&key).query(connection).unwrap();
            assert_eq!(kind.replace("zset", "sorted set"), row.kind, "{key}");
            fields.entry(form.clone()).or_default().extend(words(connection, &key, &form.1));
            if form.1.starts_with("status:") {
                fields.entry(form.clone()).or_default().extend(key.rsplit(':').next().map(str::to_owned));
            }
            seen.insert(form);
        }
    });
    for ((heading, key), fields) in &fields {
        let mut listed = rows[&(heading.clone(), key.clone())].words.clone();
        if key == "definition:<id>" {
            listed.extend(NotifyDef::COLUMNS.iter().map(|column| (*column).to_owned()));
        }
        let missing: Vec<_> = fields.difference(&listed).collect();
        assert!(missing.is_empty(), "{heading}, {key}: {missing:?} are not listed");
        // What is not a field, but belongs to the row.
        let others = ["next_call_time", "finish_time", "delete_time", "3:final_failure"];
        let unseen: Vec<_> = listed.difference(fields).filter(|word| !others.contains(&word.as_str())).collect();
        let all_seen = key.starts_with("notice") || key.starts_with("status") || key == "tick" || key == "check";
        assert!(!all_seen || unseen.is_empty(), "{heading}, {key}: {unseen:?} are listed and not stored");
    }
    // The lists are empty, because what it has is forwarded at once.
    let unseen: Vec<_> = rows.keys().filter(|row| !seen.contains(*row) && !row.1.starts_with("outgoing")).collect();
    assert!(unseen.is_empty(), "listed and not stored: {unseen:?}");
    w.own.close();
}

/// Also where the hash of a notice was lost: no other key names the sets of its tag, class and group.
async fn purged_definition_leaves_its_audit_alone<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    let w = World { own, outbox };
    let alerts = w.define(NotifyDef::new(ALERT_DEFINITION)).await;
    for is_lost in [false, true] {
        let def_id = w.define(NotifyDef::new("sync").schedule(HOURLY)).await;
        let prefix = format!("{{{}#{def_id}}}:", w.own.prefix);
        let id = w.add(NewNotice::new("sync", 1).unwrap().tag("order:7").ordering_key("o")).await;
        assert!(w.outbox.operator("alice").reschedule(id, w.own.clock.now()).await.unwrap().is_applied());
        let quota = Quota { rate: None, total: Some(9), breaker: None };
        let claimed = w.claim(def_id, Status::NotSent, Some(quota)).await.remove(0);
        let ended = Next::Finish { status: Status::DeadLetter, reason: Some("refused".to_owned()), keep: true };
        let mut dead = outcome(&claimed, ended);
        dead.last_class = Some("network".to_owned());
        dead.regroup();
        dead.alarm = Some(Box::new(alarm(alerts, &dead)));
        w.settle(dead).await;
        w.tick(def_id).await;
        w.write_series(def_id).await;
        assert!(w.refresh_counts(def_id).await);
        if is_lost {
            w.own.by_hand(&["DEL", &format!("{prefix}notice:{id}")]);
        }
        let status = Status::DeadLetter;
        let old = Purge::History { def_id, status, older_than: Duration::ZERO, limit: 9 };
        assert_eq!(w.purge(old).await, usize::from(!is_lost));
        assert_eq!(w.own.keys(&format!("{prefix}tagged:*")).len(), usize::from(is_lost));
        w.drop_definition(def_id).await;
        // A node that has not read this yet.
        w.write_series(def_id).await;
        assert!(!w.refresh_counts(def_id).await);
        assert_eq!(w.own.keys(&format!("{prefix}*")), ["audit", "dropped"].map(|key| format!("{prefix}{key}")));
        for common in ["counts", "arrived_alarms"] {
            let key = format!("{{{}#}}:{common}", w.own.prefix);
            assert_eq!(w.own.by_hand(&["HEXISTS", &key, &def_id.to_string()]), ::redis::Value::Int(0), "{common}");
        }
    }
    w.own.close();
}

test_support::on_each_redis!(
    each_stored_key_and_field_is_listed_and_is_a_word,
    purged_definition_leaves_its_audit_alone,
);
