//! The recipients that already have a notice, stored in its description: `delivered to: ops@example.com, ops`.
//!
//! A retry reads the list and leaves them out. The description exists in any case and people can read it, so nothing else
//! is stored.

use parking_lot::Mutex;
use solid_notify_core::mail_address::split_list;
use solid_notify_sweeper::Notice;

/// The beginning of the list. Other text may stand before it.
const MARK: &str = "delivered to: ";

/// The recipients that have a notice. The list is stored after each delivery and not at the end, because the description of a
/// handler that is cancelled by its time-out is kept.
pub(crate) struct Progress<'a, T> {
    notice: &'a Notice<T>,
    delivered: Mutex<Delivered>,
    label: fn(&Notice<T>, &str) -> String,
}

impl<'a, T> Progress<'a, T> {
    /// Reads what the last attempt stored. The list has the label of each recipient.
    pub(crate) fn of(notice: &'a Notice<T>, label: fn(&Notice<T>, &str) -> String) -> Self {
        Self { notice, delivered: Mutex::new(Delivered::read(notice.description().as_deref())), label }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.delivered.lock().has(&(self.label)(self.notice, name))
    }

    pub(crate) fn note<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        let mut delivered = self.delivered.lock();
        names.into_iter().for_each(|name| delivered.add(&(self.label)(self.notice, name)));
        if delivered.is_begun() {
            self.notice.set_description(delivered.text());
        }
    }
}
/// The names of the recipients that have it. A mail address has an `@`; the name of a chat has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// Other text before the list.
    before: String,
    names: Vec<String>,
}

impl Delivered {
    /// Reads the description that the last attempt left.
    pub(crate) fn read(description: Option<&str>) -> Self {
        let description = description.unwrap_or_default();
        let Some((before, list)) = description.rsplit_once(MARK) else {
            let before = if description.is_empty() {
                String::new()
            } else {
                format!("{}; ", description.trim_end_matches("; "))
            };
            return Self { before, names: Vec::new() };
        };
        let names =
            split_list(list, &[',']).into_iter().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        Self { before: before.to_owned(), names: names.collect() }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    pub(crate) fn add(&mut self, name: &str) {
        if !self.has(name) {
            self.names.push(name.to_owned());
        }
    }

    /// Returns whether any recipient has it; before that there is nothing to store.
    pub(crate) fn is_begun(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns the description to store.
    pub(crate) fn text(&self) -> String {
        format!("{}{MARK}{}", self.before, self.names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_attempt_reads_the_list_of_the_last_one() {
        let mut delivered = Delivered::read(None);
        assert!(!delivered.has("ops"));
        delivered.add("ops@example.com");
        delivered.add("ops");
        delivered.add("ops");
        assert_eq!(delivered.text(), "delivered to: ops@example.com, ops");
        assert_eq!(Delivered::read(Some(&delivered.text())), delivered);
    }

    #[test]
    fn foreign_text_stays_before_the_list() {
        let mut delivered = Delivered::read(Some("raised by the backlog"));
        delivered.add("ops");
        assert_eq!(delivered.text(), "raised by the backlog; delivered to: ops");
        let mut again = Delivered::read(Some(&delivered.text()));
        assert!(again.has("ops") && !again.has("raised by the backlog"));
        again.add("dev");
        assert_eq!(again.text(), "raised by the backlog; delivered to: ops, dev");
    }

    #[test]
    fn a_name_that_is_part_of_another_is_not_taken_for_it() {
        let delivered = Delivered::read(Some("delivered to: ops-night, ops@example.com"));
        assert!(!delivered.has("ops"));
    }
}
