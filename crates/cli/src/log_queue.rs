//! [`LogQueue`]: the lines of the log on their way to the error stream. A thread writes them, so that a reader of that stream that sleeps stops
//! nothing but the log: lines that do not fit into the queue are dropped, and counted.
//!
//! The crate tracing-appender has such a queue beside files that rotate and a clock of its own; this is the part of it that is needed.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// How many lines wait at most.
const LINES: usize = 4096;
/// How much memory the waiting lines take at most, in bytes.
const BYTES: usize = 4 * 1024 * 1024;
/// How much of a line is kept, in bytes.
const LINE: usize = 16 * 1024;
/// How long the last lines of a process may take.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The lines on their way.
#[derive(Clone)]
pub(crate) struct LogQueue {
    entries: SyncSender<Entry>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Lines.
    dropped: AtomicU64,
    /// Bytes of the lines that wait.
    waiting: AtomicUsize,
}

enum Entry {
    Line(Vec<u8>),
    /// All lines before it are written.
    Flush(Sender<()>),
}

impl LogQueue {
    /// Starts the thread that writes to `stream`.
    pub(crate) fn start(stream: impl Write + Send + 'static) -> io::Result<Self> {
        let (entries, waiting) = sync_channel(LINES);
        let counts = Arc::<Counts>::default();
        let shared = Arc::clone(&counts);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || write_all(&waiting, stream, &shared))?;
        Ok(Self { entries, counts })
    }

    /// Queues a line, or drops it where it does not fit.
    fn push(&self, line: Vec<u8>) {
        let bytes = line.capacity();
        let before = self.counts.waiting.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > BYTES || self.entries.try_send(Entry::Line(line)).is_err() {
            self.counts.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many lines were dropped.
    #[cfg_attr(not(feature = "full"), allow(dead_code, reason = "it is a metric"))]
    pub(crate) fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Waits until the lines before this call are written, for at most a second.
    pub(crate) fn flush(&self) {
        let end = Instant::now() + LAST_LINES;
        let (written, is_written) = channel();
        let mut entry = Entry::Flush(written);
        loop {
            match self.entries.try_send(entry) {
                Ok(()) => break,
                Err(TrySendError::Full(back)) if Instant::now() < end => entry = back,
                Err(_) => return,
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // An error means that the stream takes nothing.
        let _ = is_written.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

fn write_all(waiting: &Receiver<Entry>, mut stream: impl Write, counts: &Counts) {
    let mut reported = 0;
    for entry in waiting {
        match entry {
            // A stream that cannot be written to, as on a full disk, costs lines and nothing else.
            Entry::Line(line) => {
                let _ = stream.write_all(&line);
                counts.waiting.fetch_sub(line.capacity(), Ordering::Relaxed);
            }
            Entry::Flush(written) => {
                let _ = stream.flush().and_then(|()| written.send(()).map_err(io::Error::other));
            }
        }
        let lost = counts.dropped.load(Ordering::Relaxed);
        if lost > reported {
            tracing::warn!(lines = lost - reported, "the reader of the log was too slow, so lines of it are lost");
            reported = lost;
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

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// A stream that takes nothing while its lock is held elsewhere.
    #[derive(Clone, Default)]
    struct Stream(Arc<Mutex<Vec<u8>>>);

    impl Write for Stream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn stream_that_takes_nothing_costs_lines_and_no_time() {
        let stream = Stream::default();
        let queue = LogQueue::start(stream.clone()).unwrap();
        let held = stream.0.lock().unwrap();
        for _ in 0..3 * LINES {
            writeln!(queue.make_writer(), "a line").unwrap();
        }
        let dropped = queue.dropped();
        assert!((1..=2 * LINES as u64).contains(&dropped), "{dropped}");
        drop(held);
        let written = || String::from_utf8(stream.0.lock().unwrap().clone()).unwrap();
        // Each finds a place once the thread writes. A flush waits for a second only.
        while queue.entries.try_send(Entry::Line(b"the last\n".to_vec())).is_err() || !written().contains("the last\n")
        {
            queue.flush();
        }
        let written = written();
        let kept = written.lines().filter(|line| *line == "a line").count() as u64;
        assert_eq!(kept + dropped, 3 * LINES as u64);
    }

    #[test]
    fn long_lines_take_no_more_memory_than_short_ones() {
        let stream = Stream::default();
        let queue = LogQueue::start(stream.clone()).unwrap();
        let held = stream.0.lock().unwrap();
        for _ in 0..LINES {
            writeln!(queue.make_writer(), "{}", "x".repeat(LINE)).unwrap();
            assert!(queue.counts.waiting.load(Ordering::Relaxed) <= BYTES);
        }
        assert!(queue.dropped() >= (LINES - BYTES / LINE - 1) as u64, "{}", queue.dropped());
        drop(held);
        while queue.counts.waiting.load(Ordering::Relaxed) > 0 {
            queue.flush();
        }
        writeln!(queue.make_writer(), "the last").unwrap();
        queue.flush();
        assert!(stream.0.lock().unwrap().ends_with(b"the last\n"), "there is room again");
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
}
