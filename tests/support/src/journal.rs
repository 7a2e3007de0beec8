//! A journal that many processes write at once and that outlives each of them: the commits of producers, the calls of
//! handlers and the kills of the harness, in one order.
//!
//! The order of appends needs no clock, because the clock of a process may be wrong.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The bytes of one record. Whole records fill a page of the file's cache, so that no write crosses from one page to the
/// next, which is where a kill could cut it in two.
const RECORD: usize = 256;

/// The events of one process, which that process writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A producer is about to add a notice. Without a later event it is unknown whether the notice was committed.
    Begun {
        /// The notice's unique name: `node.task.transaction.number`.
        token: String,
        /// The name that the definition has at first.
        def: String,
        /// The ordering key.
        key: Option<String>,
    },
    /// The commit returned `Ok`.
    Committed {
        /// The unique name of the notice.
        token: String,
        /// As the insert returned it.
        id: i64,
    },
    /// A transaction was rolled back, or its commit was never sent.
    RolledBack {
        /// The unique name of the notice.
        token: String,
    },
    /// The response to the commit was an error or never came.
    Unknown {
        /// The unique name of the notice.
        token: String,
    },
    /// A producer got no transaction, or its insert failed.
    Refused {
        /// The process.
        node: String,
        /// The error.
        why: String,
    },
    /// A handler was called.
    Called {
        /// The unique name of the notice.
        token: String,
        /// The id of the notice.
        id: i64,
        /// The fence of the attempt.
        fence: i64,
        /// The process.
        node: String,
    },
    /// A handler is about to return.
    Ended {
        /// The id of the notice.
        id: i64,
        /// The fence of the attempt.
        fence: i64,
        /// Whether the handler delivers.
        ok: bool,
    },
    /// A process holds every connection of its application's pool.
    Exhausted {
        /// The process.
        node: String,
    },
    /// A process was killed and has ended.
    Killed {
        /// The process.
        node: String,
    },
    /// A fault begins to be injected.
    Phase {
        /// The name of the fault.
        name: String,
    },
}

/// The writer of a journal.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// Opens the journal, or creates it.
    pub fn open(path: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    /// Appends one event, in one write.
    pub fn add(&self, event: &Event) {
        let mut record = serde_json::to_vec(event).unwrap();
        assert!(record.len() < RECORD, "too long for a record: {event:?}");
        record.resize(RECORD - 1, b' ');
        record.push(b'\n');
        (&self.0).write_all(&record).unwrap();
    }
}

/// The reader of a journal. It remembers its position.
#[derive(Debug)]
pub struct Reader(File);

impl Reader {
    /// Reads the journal from its beginning.
    pub fn open(path: &Path) -> Self {
        Self(File::open(path).unwrap())
    }

    /// Returns the events since the last call.
    pub fn fresh(&mut self) -> Vec<Event> {
        let length = usize::try_from(self.0.metadata().unwrap().len()).unwrap();
        let read = usize::try_from(std::io::Seek::stream_position(&mut self.0).unwrap()).unwrap();
        let mut records = vec![0; (length - read) / RECORD * RECORD];
        self.0.read_exact(&mut records).unwrap();
        let event = |record| serde_json::from_slice(record).expect("a whole record");
        records.chunks_exact(RECORD).map(event).collect()
    }
}
