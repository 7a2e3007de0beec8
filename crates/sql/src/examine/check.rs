//! [`Check`]: a statement, and a judgement of the text that it returns.

use solid_notify_core::finding::Finding;

/// A check of one setting.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    /// Selects one row. Its last column is the text that is judged; no row, or null, is no text.
    pub(crate) sql: &'static str,
    pub(crate) judge: fn(&str) -> Finding,
}

/// Judges a number of seconds for which a transaction has been open.
pub(crate) fn open_for(seconds: &str, meaning: &'static str, remedy: &'static str) -> Finding {
    let open = seconds.parse::<i64>().unwrap_or(0);
    match open > 300 {
        true => Finding::warning("oldest_transaction", format!("open for {open} s"), meaning, remedy),
        false => Finding::fine("oldest_transaction", format!("open for {open} s")),
    }
}
