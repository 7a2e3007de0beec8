//! Collects the log, for tests that check it.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Collects events of this process from its start on. The tests of one program share a log, so they look for words of their own.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    /// Begins to collect the events of all crates except `sqlx`, `async-nats` and frames of `h2`. `sqlx` logs each statement of the application's pool, which would
    /// be many, and which a test could not tell from those of other tests. `async-nats` logs what its server says, so `serve` leaves its lines out.
    pub fn start() -> Self {
        Self::collecting(false)
    }

    /// Begins to collect all events, and the fields of all spans, for a program whose tests execute few statements.
    pub fn with_statements() -> Self {
        Self::collecting(true)
    }

    /// The first call in a process decides.
    fn collecting(statements: bool) -> Self {
        static SHARED: OnceLock<(bool, Log)> = OnceLock::new();
        let begin = || {
            let log = Self::default();
            tracing::subscriber::set_global_default(Collector { log: log.clone(), statements }).unwrap();
            (statements, log)
        };
        let (collected, log) = SHARED.get_or_init(begin);
        assert_eq!(*collected, statements, "the tests of one program collect the same events");
        log.clone()
    }

    /// All lines so far.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(_, line)| line.clone()).collect()
    }

    /// The lines at error level that contain `text`.
    pub fn errors_with(&self, text: &str) -> Vec<String> {
        self.lines_with(Level::ERROR, text)
    }

    /// The lines at warn level that contain `text`.
    pub fn warnings_with(&self, text: &str) -> Vec<String> {
        self.lines_with(Level::WARN, text)
    }

    /// The lines at info level that contain `text`.
    pub fn infos_with(&self, text: &str) -> Vec<String> {
        self.lines_with(Level::INFO, text)
    }

    fn lines_with(&self, at: Level, text: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        let found = lines.iter().filter(|(level, line)| *level == at && line.contains(text));
        found.map(|(_, line)| line.clone()).collect()
    }
}

struct Collector {
    log: Log,
    statements: bool,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        // A line for each frame, which a test of floods would keep.
        let is_frame = target.starts_with("h2") && *metadata.level() > Level::INFO;
        !is_frame && !target.starts_with("async_nats") && (self.statements || !target.starts_with("sqlx"))
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        if self.statements {
            let mut line = Line(format!("span {} ", span.metadata().name()));
            span.record(&mut line);
            self.log.0.lock().unwrap().push((*span.metadata().level(), line.0));
        }
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        if self.statements {
            let mut line = Line("span ".to_owned());
            values.record(&mut line);
            self.log.0.lock().unwrap().push((Level::TRACE, line.0));
        }
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.log.0.lock().unwrap().push((*event.metadata().level(), line.0));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
