//! [`LogQueue`]: the lines of the log on their way to the error stream. A thread writes them, so that a reader of that stream that sleeps stops
//! nothing but the log: lines that do not fit into the queue are dropped, and counted.
//!
//! Each database of `serve` has its own share of the queue. So a database that floods the log loses its own lines, and those of the others are kept.
//! The crate tracing-appender has such a queue beside files that rotate and a clock of its own; this is the part of it that is needed.

mod owner;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

use owner::Owner;
pub(crate) use owner::{lines_of, thread_logs_for};

/// How much memory the waiting lines take at most, in bytes. The shares divide it.
const BYTES: usize = 4 * 1024 * 1024;
/// The least that a share has, however many they are.
const LEAST: usize = 4 * LINE;
/// How much of a line is kept, in bytes.
const LINE: usize = 16 * 1024;
/// What a waiting line takes beside its text.
const BESIDE: usize = 64;
/// How long the last lines of a process may take.
const LAST_LINES: Duration = Duration::from_secs(1);
/// The least time between two reports of lost lines of a share. Each report is itself a line.
const BETWEEN_REPORTS: Duration = Duration::from_secs(1);

/// The lines on their way.
#[derive(Clone)]
pub(crate) struct LogQueue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is a line to write.
    filled: Condvar,
    /// All lines are written.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    /// By owner; `None`: the process itself.
    shares: BTreeMap<Owner, Share>,
    /// How many lines were queued.
    queued: u64,
    /// A line is being written, or was just before.
    is_writing: bool,
}

/// The lines of one owner.
#[derive(Default)]
struct Share {
    /// With their numbers in the order of all.
    lines: VecDeque<(u64, Vec<u8>)>,
    /// What they take, in bytes.
    bytes: usize,
    /// Lines.
    dropped: u64,
    /// How many of these were reported, and when.
    reported: (u64, Option<Instant>),
}

impl State {
    /// Queues a line, or drops it where its owner has too many.
    fn push(&mut self, owner: Owner, line: Vec<u8>) {
        self.shares.entry(owner.clone()).or_default();
        let most = (BYTES / self.shares.len()).max(LEAST);
        let share = self.shares.entry(owner).or_default();
        let bytes = cost(&line);
        if share.bytes + bytes > most {
            share.dropped += 1;
            return;
        }
        share.bytes += bytes;
        share.lines.push_back((self.queued, line));
        self.queued += 1;
    }

    /// Takes the line that has waited longest.
    fn pop(&mut self) -> Option<Vec<u8>> {
        let first = |share: &&mut Share| share.lines.front().map_or(u64::MAX, |(number, _)| *number);
        let share = self.shares.values_mut().min_by_key(first)?;
        let (_, line) = share.lines.pop_front()?;
        share.bytes -= cost(&line);
        Some(line)
    }

    /// Returns the owner of lost lines that are to be reported now, and how many these are.
    fn lost(&mut self, now: Instant) -> Option<(Owner, u64)> {
        let is_due = |last: Option<Instant>| last.is_none_or(|last| now.duration_since(last) >= BETWEEN_REPORTS);
        let (owner, share) =
            self.shares.iter_mut().find(|(_, share)| share.dropped > share.reported.0 && is_due(share.reported.1))?;
        let lost = share.dropped - share.reported.0;
        share.reported = (share.dropped, Some(now));
        Some((owner.clone(), lost))
    }

    fn has_unreported(&self) -> bool {
        self.shares.values().any(|share| share.dropped > share.reported.0)
    }
}

fn cost(line: &Vec<u8>) -> usize {
    line.capacity() + BESIDE
}

impl LogQueue {
    /// Starts the thread that writes to `stream`.
    pub(crate) fn start(stream: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let lines = Arc::clone(&shared);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || write_all(&lines, stream))?;
        Ok(Self(shared))
    }

    fn push(&self, line: Vec<u8>) {
        let owner = owner::of_this_thread();
        self.0.locked().push(owner, line);
        self.0.filled.notify_one();
    }

    /// How many lines were dropped, by database; those of the process itself first, without a name.
    #[cfg_attr(not(feature = "full"), allow(dead_code, reason = "it is a metric"))]
    pub(crate) fn dropped(&self) -> Vec<(Owner, u64)> {
        self.0.locked().shares.iter().map(|(owner, share)| (owner.clone(), share.dropped)).collect()
    }

    /// Waits until all lines are written, for at most a second.
    pub(crate) fn flush(&self) {
        let is_full =
            |state: &mut State| state.is_writing || state.shares.values().any(|share| !share.lines.is_empty());
        // A time-out means that the stream takes nothing.
        drop(self.0.emptied.wait_timeout_while(self.0.locked(), LAST_LINES, is_full));
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a line. `None`: some time has passed.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.locked();
        loop {
            if let Some(line) = state.pop() {
                state.is_writing = true;
                return Some(line);
            }
            state.is_writing = false;
            self.emptied.notify_all();
            if !state.has_unreported() {
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (again, waited) =
                self.filled.wait_timeout(state, BETWEEN_REPORTS).unwrap_or_else(PoisonError::into_inner);
            state = again;
            if waited.timed_out() {
                return None;
            }
        }
    }
}

fn write_all(shared: &Shared, mut stream: impl Write) {
    loop {
        if let Some(line) = shared.next() {
            // A stream that cannot be written to, as on a full disk, costs lines and nothing else.
            let _ = stream.write_all(&line).and_then(|()| stream.flush());
        }
        let lost = shared.locked().lost(Instant::now());
        match lost {
            Some((Some(database), lines)) => {
                tracing::warn!(
                    lines,
                    database = &*database,
                    "the reader of the log was too slow, so lines of it are lost"
                );
            }
            Some((None, lines)) => tracing::warn!(lines, "the reader of the log was too slow, so lines of it are lost"),
            None => {}
        }
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { text: Vec::new(), queue: self.clone() }
    }
}

/// A line, which is queued when it is dropped.
pub(crate) struct Line {
    text: Vec<u8>,
    queue: LogQueue,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = LINE.saturating_sub(self.text.len()).min(bytes.len());
        self.text.extend_from_slice(&bytes[..fits]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.text.len() == LINE {
            self.text.truncate(LINE - 1);
            self.text.push(b'\n');
        }
        self.queue.push(std::mem::take(&mut self.text));
    }
}
