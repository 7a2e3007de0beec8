//! Timed tasks of the older layout are imported: none is lost and none is run twice, whatever happens meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use solid_notify_timed::{NotImported, TaskLease, TaskOutcome, TimedTasks};
use test_support::RedisServer;
use test_support::redis::OwnPrefix;

const SECOND: Duration = Duration::from_secs(1);
/// Calls of an import with one batch.
const CALLS: usize = 7;

/// A kind in both layouts.
struct Older {
    own: OwnPrefix,
    tasks: TimedTasks,
    kind: String,
}

impl Older {
    async fn new<R: RedisServer>() -> Self {
        let own = OwnPrefix::of::<R>();
        let (tasks, kind) = (own.tasks().await, format!("remind {}", own.prefix));
        Self { own, tasks, kind }
    }

    fn due(&self) -> String {
        format!("timedTask_{}", self.kind)
    }

    fn contents(&self) -> String {
        format!("timedTaskContent_{}", self.kind)
    }

    /// Milliseconds since 1970 of the clock, so many seconds later.
    fn time(&self, seconds: i64) -> String {
        (self.own.clock.now().timestamp_millis() + 1000 * seconds).to_string()
    }

    /// Adds a task as a producer of the older layout does.
    fn add(&self, id: &str, score: &str, content: &str) {
        self.own.by_hand(&["HSET", &self.contents(), id, content]);
        self.own.by_hand(&["ZADD", &self.due(), score, id]);
    }

    fn score(&self, id: &str) -> ::redis::Value {
        self.own.by_hand(&["ZSCORE", &self.due(), id])
    }

    fn is_empty(&self) -> bool {
        [self.due(), self.contents()].iter().all(|key| self.own.by_hand(&["EXISTS", key]) == ::redis::Value::Int(0))
    }

    /// Claims and finishes all that is due, and returns the values.
    async fn consume(&self) -> Vec<i64> {
        let mut values = Vec::new();
        loop {
            let due = self.tasks.claim::<i64>(&self.kind, 100, &TaskLease::of(60 * SECOND)).await.unwrap();
            if due.tasks.is_empty() {
                return values;
            }
            let outcomes: Vec<_> = due.tasks.iter().map(|task| task.outcome(TaskOutcome::Finish)).collect();
            assert!(self.tasks.settle(&self.kind, &outcomes).await.unwrap().into_iter().all(|held| held));
            values.extend(due.tasks.into_iter().map(|task| task.value));
        }
    }

    fn close(self) {
        for key in [self.due(), self.contents()] {
            self.own.by_hand(&["DEL", &key]);
        }
        self.own.close();
    }
}

async fn older_tasks_are_imported_with_their_times_and_contents<R: RedisServer>() {
    let w = Older::new::<R>().await;
    assert_eq!(w.tasks.import_older(&w.kind).await.unwrap(), Default::default());
    for n in 0..1100 {
        w.add(&format!("id {n}"), &w.time(n % 2), &n.to_string());
    }
    let imported = w.tasks.import_older(&w.kind).await.unwrap();
    assert_eq!((imported.imported, imported.present, imported.left.len()), (1100, 0, 0));
    assert!(w.is_empty());
    assert_eq!(w.tasks.import_older(&w.kind).await.unwrap(), Default::default());
    for odd in 0..2 {
        let mut values = w.consume().await;
        values.sort_unstable();
        assert_eq!(values, (0..1100).filter(|n| n % 2 == odd).collect::<Vec<_>>());
        w.own.clock.advance(SECOND);
    }
    w.close();
}

async fn what_cannot_be_imported_stays_and_is_reported<R: RedisServer>() {
    use NotImported::{OtherContent, UnreadableContent, UnreadableScore, UnusableId, WithoutContent};
    let w = Older::new::<R>().await;
    let now = w.time(0);
    w.own.by_hand(&["ZADD", &w.due(), &now, "no content"]);
    w.add("no JSON", &now, "{");
    w.add("seconds", "1700000000", "1");
    w.add("for ever", "inf", "2");
    w.add("", &now, "3");
    w.add("other", &now, "4");
    w.add("same", &now, "5");
    w.add("good", &now, "6");
    w.tasks.add_as(&w.kind, "other", Duration::ZERO, &40).await.unwrap();
    w.tasks.add_as(&w.kind, "same", SECOND, &5).await.unwrap();
    let imported = w.tasks.import_older(&w.kind).await.unwrap();
    assert_eq!((imported.imported, imported.present), (1, 1));
    let left: Vec<(&str, NotImported)> = imported.left.iter().map(|(id, why)| (id.as_str(), *why)).collect();
    let expected = [
        ("", UnusableId),
        ("for ever", UnreadableScore),
        ("no JSON", UnreadableContent),
        ("no content", WithoutContent),
        ("other", OtherContent),
        ("seconds", UnreadableScore),
    ];
    assert_eq!(left, expected);
    let mut values = w.consume().await;
    values.sort_unstable();
    assert_eq!(values, [6, 40], "the task that was there already keeps its time");
    // The producer writes the content at last, and the other task is done.
    w.own.by_hand(&["HSET", &w.contents(), "no content", "7"]);
    let imported = w.tasks.import_older(&w.kind).await.unwrap();
    assert_eq!((imported.imported, imported.left.len()), (2, 4));
    let mut values = w.consume().await;
    values.sort_unstable();
    assert_eq!(values, [4, 7]);
    assert_eq!(w.own.by_hand(&["HLEN", &w.contents()]), ::redis::Value::Int(4), "what stays has its content");
    w.close();
}

async fn an_import_that_crashes_neither_loses_nor_doubles_a_task<R: RedisServer>() {
    // Before each of its calls, then not at all.
    for crash in 0..=CALLS {
        let w = Older::new::<R>().await;
        for n in 0..3 {
            w.add(&format!("id {n}"), &w.time(0), &n.to_string());
        }
        let importer = w.own.tasks_with_calls(move |call| assert!(call != crash, "a crash of the importer")).await;
        let kind = w.kind.clone();
        let crashed = tokio::spawn(async move { importer.import_older(&kind).await.unwrap() }).await;
        assert_eq!(crashed.is_err(), crash < CALLS, "an import makes {CALLS} calls");
        // What was added is done before the next import.
        let mut values = w.consume().await;
        let imported = w.tasks.import_older(&w.kind).await.unwrap();
        assert!(imported.left.is_empty());
        values.extend(w.consume().await);
        values.sort_unstable();
        assert_eq!(values, [0, 1, 2], "crashed before call {crash}");
        assert!(w.is_empty());
        w.close();
    }
}

async fn an_importer_that_lags_behind_another_adds_nothing_twice<R: RedisServer>() {
    let w = Older::new::<R>().await;
    w.add("id", &w.time(0), "1");
    // It stops when it has read the older keys, before it adds what it read.
    let ((reached, has_reached), (go, may_go)) = (mpsc::channel(), mpsc::channel::<()>());
    let may_go = std::sync::Mutex::new(may_go);
    let importer = w
        .own
        .tasks_with_calls(move |call| {
            if call == 3 {
                reached.send(()).unwrap();
                tokio::task::block_in_place(|| may_go.lock().unwrap().recv().unwrap());
            }
        })
        .await;
    let kind = w.kind.clone();
    let late = tokio::spawn(async move { importer.import_older(&kind).await.unwrap() });
    tokio::task::block_in_place(|| has_reached.recv().unwrap());
    assert_eq!(w.tasks.import_older(&w.kind).await.unwrap().imported, 1);
    assert_eq!(w.consume().await, [1]);
    go.send(()).unwrap();
    let late = late.await.unwrap();
    assert_eq!((late.imported, late.present), (0, 0));
    assert!(w.consume().await.is_empty(), "it was done");
    w.close();
}

async fn a_task_that_changes_during_its_import_stays_as_changed<R: RedisServer>() {
    // The calls: begin, scan, contents, add, remove scores, remove contents.
    for (call, id, command) in [(4, "moved", "ZADD"), (4, "rewritten", "HSET"), (5, "rewritten", "HSET")] {
        let w = Older::new::<R>().await;
        let (now, later) = (w.time(0), w.time(60));
        w.add(id, &now, "1");
        let own = OwnPrefix::of::<R>();
        let words = match command {
            "ZADD" => ["ZADD".to_owned(), w.due(), later.clone(), id.to_owned()],
            _ => ["HSET".to_owned(), w.contents(), id.to_owned(), "2".to_owned()],
        };
        let importer = w
            .own
            .tasks_with_calls(move |at| {
                if at == call {
                    own.by_hand(&words.each_ref().map(String::as_str));
                }
            })
            .await;
        let imported = importer.import_older(&w.kind).await.unwrap();
        assert_eq!(imported.left.get(id), Some(&NotImported::Changed), "{id}");
        assert_eq!(w.consume().await, [1]);
        let (score, value) = if id == "moved" { (&later, 1) } else { (&now, 2) };
        assert_eq!(w.score(id), ::redis::Value::BulkString(score.clone().into_bytes()), "{id}");
        let again = w.tasks.import_older(&w.kind).await.unwrap();
        assert_eq!((again.imported, again.left.len()), (1, 0), "{id}");
        w.own.clock.advance(60 * SECOND);
        assert_eq!(w.consume().await, [value], "{id}");
        assert!(w.is_empty());
        w.close();
    }
}

async fn importers_and_a_producer_at_once_lose_and_double_nothing<R: RedisServer>() {
    let w = Arc::new(Older::new::<R>().await);
    let producer = tokio::task::spawn_blocking({
        let w = Arc::clone(&w);
        move || (0..400).for_each(|n| w.add(&format!("id {n}"), &w.time(0), &n.to_string()))
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let importers = (0..3).map(|_| {
        let (w, is_over) = (Arc::clone(&w), Arc::clone(&is_over));
        tokio::spawn(async move {
            let (tasks, mut values, mut imported, mut is_last) = (w.own.tasks().await, Vec::new(), 0, false);
            while !is_last {
                is_last = is_over.load(Ordering::SeqCst);
                imported += tasks.import_older(&w.kind).await.unwrap().imported;
                values.extend(w.consume().await);
            }
            (values, imported)
        })
    });
    let importers: Vec<_> = importers.collect();
    producer.await.unwrap();
    is_over.store(true, Ordering::SeqCst);
    let (mut values, mut imported) = (Vec::new(), 0);
    for importer in importers {
        let (some, count) = importer.await.unwrap();
        values.extend(some);
        imported += count;
    }
    values.sort_unstable();
    assert_eq!(values, (0..400).collect::<Vec<_>>());
    assert_eq!(imported, 400);
    assert!(w.is_empty());
    Arc::into_inner(w).unwrap().close();
}

test_support::on_each_redis!(
    older_tasks_are_imported_with_their_times_and_contents,
    what_cannot_be_imported_stays_and_is_reported,
    an_import_that_crashes_neither_loses_nor_doubles_a_task,
    an_importer_that_lags_behind_another_adds_nothing_twice,
    a_task_that_changes_during_its_import_stays_as_changed,
    importers_and_a_producer_at_once_lose_and_double_nothing,
);
