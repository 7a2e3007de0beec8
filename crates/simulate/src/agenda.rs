//! [`Agenda`]: the events to come, in virtual milliseconds.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Returns the earliest event first, and events of the same millisecond in the order in which they were entered.
pub(super) struct Agenda<T> {
    entries: BinaryHeap<Entry<T>>,
    entered: u64,
}

struct Entry<T> {
    at: i64,
    nth: u64,
    what: T,
}

impl<T> Agenda<T> {
    pub(super) fn new() -> Self {
        Self { entries: BinaryHeap::new(), entered: 0 }
    }

    pub(super) fn enter(&mut self, at: i64, what: T) {
        self.entered += 1;
        self.entries.push(Entry { at, nth: self.entered, what });
    }

    pub(super) fn next(&mut self) -> Option<(i64, T)> {
        self.entries.pop().map(|entry| (entry.at, entry.what))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.nth).cmp(&(self.at, self.nth))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}
