//! Collects the log, for tests that check it.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Collects every event of this process from its start on. One per test binary.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    /// Begins to collect; the tests of one program share the log.
    pub fn start() -> Self {
        static SHARED: OnceLock<Log> = OnceLock::new();
        let begin = || {
            let log = Self::default();
            tracing::subscriber::set_global_default(Collector(log.clone())).unwrap();
            log
        };
        SHARED.get_or_init(begin).clone()
    }

    /// All lines so far.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(_, line)| line.clone()).collect()
    }

    /// The lines at error level that contain `text`.
    pub fn errors_with(&self, text: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines
            .iter()
            .filter(|(level, line)| *level == Level::ERROR && line.contains(text))
            .map(|(_, line)| line.clone())
            .collect()
    }
}

struct Collector(Log);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.0.lock().unwrap().push((*event.metadata().level(), line.0));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
