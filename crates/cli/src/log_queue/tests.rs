//! Tests of [`super::LogQueue`]: what is dropped, whose lines that are, and that it is reported.

use super::*;

/// A stream that takes nothing while its lock is held elsewhere.
#[derive(Clone, Default)]
struct Stream(Arc<Mutex<Vec<u8>>>);

impl Stream {
    fn written(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How many lines were dropped, of the process itself and of databases.
fn dropped(queue: &LogQueue) -> u64 {
    queue.dropped().into_iter().map(|(_, lines)| lines).sum()
}

/// What the waiting lines take.
fn waiting(queue: &LogQueue) -> usize {
    queue.0.locked().shares.values().map(|share| share.bytes).sum()
}

/// Logs lines of a database, from a thread of it.
fn log_for(queue: &LogQueue, database: &str, line: &str, times: usize) {
    let database: Arc<str> = database.into();
    let log = || {
        thread_logs_for(&database);
        (0..times).for_each(|_| writeln!(queue.make_writer(), "{line}").unwrap());
    };
    std::thread::scope(|scope| scope.spawn(log).join().unwrap());
}

/// More lines than the queue takes.
const FLOOD: usize = 3 * BYTES / BESIDE;

#[test]
fn stream_that_takes_nothing_costs_lines_and_no_time() {
    let stream = Stream::default();
    let queue = LogQueue::start(stream.clone()).unwrap();
    let held = stream.0.lock().unwrap();
    for _ in 0..FLOOD {
        writeln!(queue.make_writer(), "a line").unwrap();
    }
    let lost = dropped(&queue);
    assert!((1..FLOOD as u64).contains(&lost), "{lost}");
    drop(held);
    while waiting(&queue) > 0 {
        queue.flush();
    }
    writeln!(queue.make_writer(), "the last").unwrap();
    queue.flush();
    let written = stream.written();
    let kept = written.lines().filter(|line| *line == "a line").count() as u64;
    assert_eq!((kept + lost, written.ends_with("the last\n")), (FLOOD as u64, true));
}

#[test]
fn long_lines_take_no_more_memory_than_short_ones() {
    let stream = Stream::default();
    let queue = LogQueue::start(stream.clone()).unwrap();
    let held = stream.0.lock().unwrap();
    let lines = 2 * BYTES / LINE;
    for _ in 0..lines {
        writeln!(queue.make_writer(), "{}", "x".repeat(LINE)).unwrap();
        assert!(waiting(&queue) <= BYTES);
    }
    assert!(dropped(&queue) >= (lines - BYTES / LINE - 1) as u64, "{:?}", queue.dropped());
    drop(held);
    while waiting(&queue) > 0 {
        queue.flush();
    }
    writeln!(queue.make_writer(), "the last").unwrap();
    queue.flush();
    assert!(stream.written().ends_with("the last\n"), "there is room again");
}

#[test]
fn long_line_is_cut() {
    let stream = Stream::default();
    let queue = LogQueue::start(stream.clone()).unwrap();
    writeln!(queue.make_writer(), "{}", "x".repeat(2 * LINE)).unwrap();
    queue.flush();
    let written = stream.0.lock().unwrap().clone();
    assert_eq!((written.len(), written.last()), (LINE, Some(&b'\n')));
}

#[test]
fn database_that_floods_the_log_loses_only_its_own_lines() {
    let stream = Stream::default();
    let queue = LogQueue::start(stream.clone()).unwrap();
    let held = stream.0.lock().unwrap();
    log_for(&queue, "noisy", "flood", FLOOD);
    log_for(&queue, "quiet", "quiet", 100);
    log_for(&queue, "noisy", "flood", FLOOD);
    log_for(&queue, "quiet", "quiet", 100);
    writeln!(queue.make_writer(), "of the process").unwrap();
    let lost: BTreeMap<Owner, u64> = queue.dropped().into_iter().collect();
    assert!(lost[&Some("noisy".into())] > 0 && lost[&Some("quiet".into())] == 0 && lost[&None] == 0, "{lost:?}");
    assert!(waiting(&queue) <= 2 * BYTES, "a share that others come beside is no larger than before");
    drop(held);
    while waiting(&queue) > 0 {
        queue.flush();
    }
    let written = stream.written();
    assert_eq!(written.lines().filter(|line| *line == "quiet").count(), 200);
    assert!(written.lines().any(|line| line == "of the process"));
}

#[test]
fn lines_are_written_in_their_order_whosever_they_are() {
    let stream = Stream::default();
    let queue = LogQueue::start(stream.clone()).unwrap();
    let held = stream.0.lock().unwrap();
    for number in 0..20 {
        log_for(&queue, ["a", "b"][number % 2], &number.to_string(), 1);
    }
    drop(held);
    while waiting(&queue) > 0 {
        queue.flush();
    }
    queue.flush();
    let expected: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    assert_eq!(stream.written().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn losses_of_a_database_are_reported_now_and_then_with_its_name() {
    let (mut state, at) = (State::default(), Instant::now());
    let owner: Owner = Some("noisy".into());
    state.shares.entry(owner.clone()).or_default().dropped = 7;
    assert_eq!(state.lost(at), Some((owner.clone(), 7)));
    state.shares.entry(owner.clone()).or_default().dropped = 9;
    assert_eq!((state.lost(at), state.has_unreported()), (None, true), "a report is a line, too");
    assert_eq!(state.lost(at + BETWEEN_REPORTS), Some((owner, 2)));
    assert!(!state.has_unreported());
}

#[tokio::test]
async fn work_for_a_database_logs_for_it_and_the_thread_goes_back() {
    let logged = lines_of("shop", async {
        let before = owner::of_this_thread();
        tokio::task::yield_now().await;
        (before, owner::of_this_thread())
    });
    let shop: Owner = Some("shop".into());
    assert_eq!((logged.await, owner::of_this_thread()), ((shop.clone(), shop), None));
}
