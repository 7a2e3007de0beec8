//! A journal that many processes write at once and that outlives any of them: what producers committed, what handlers saw,
//! whom the harness killed, in one order.
//!
//! That order needs no clock, of which one process may have a wrong one: an append happens before another, or after it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The bytes of one record. Whole records fill a page of the file's cache, so that no write crosses from one page to the
/// next, which is where a kill could cut it in two.
const RECORD: usize = 256;

/// What was seen, by whoever writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A producer is about to add a notice. Without any word of its end, nobody knows whether it was committed.
    Begun {
        /// What it is known by: `node.task.transaction.number`.
        token: String,
        /// The name that its definition has at first.
        def: String,
        /// Its ordering key.
        key: Option<String>,
    },
    /// The commit returned `Ok`.
    Committed {
        /// Of the notice.
        token: String,
        /// As the producer was told it.
        id: i64,
    },
    /// It was rolled back, or never came to a commit.
    RolledBack {
        /// Of the notice.
        token: String,
    },
    /// The answer to the commit was an error or never came.
    Unknown {
        /// Of the notice.
        token: String,
    },
    /// A producer got no transaction, or its notice was not taken.
    Refused {
        /// The process.
        node: String,
        /// The error.
        why: String,
    },
    /// A handler was called.
    Called {
        /// Of the notice.
        token: String,
        /// Of the notice.
        id: i64,
        /// Its number.
        attempt: i64,
        /// The process.
        node: String,
    },
    /// A handler is about to return.
    Ended {
        /// Of the notice.
        id: i64,
        /// Its number.
        attempt: i64,
        /// Its verdict.
        ok: bool,
    },
    /// A process holds every connection of its application's pool.
    Exhausted {
        /// The process.
        node: String,
    },
    /// A process was killed and is no more.
    Killed {
        /// The process.
        node: String,
    },
    /// A fault begins to be injected.
    Phase {
        /// Its name.
        name: String,
    },
}

/// The writing end.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// Opens the journal, or begins it.
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

/// The reading end; it remembers how far it read.
#[derive(Debug)]
pub struct Reader(File);

impl Reader {
    /// Reads the journal from its beginning.
    pub fn open(path: &Path) -> Self {
        Self(File::open(path).unwrap())
    }

    /// What was appended since the last call.
    pub fn fresh(&mut self) -> Vec<Event> {
        let length = usize::try_from(self.0.metadata().unwrap().len()).unwrap();
        let read = usize::try_from(std::io::Seek::stream_position(&mut self.0).unwrap()).unwrap();
        let mut records = vec![0; (length - read) / RECORD * RECORD];
        self.0.read_exact(&mut records).unwrap();
        let event = |record| serde_json::from_slice(record).expect("a whole record");
        records.chunks_exact(RECORD).map(event).collect()
    }
}
