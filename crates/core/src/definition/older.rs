//! Values of older conventions: numbers where this crate has words. Rows of the table and files of definitions may have them, and are
//! read in words.

use super::NotifyDef;

/// Returns whether a column of text may have a number of an older convention.
#[cfg(feature = "toml")]
pub(super) fn may_be_number(column: &str) -> bool {
    ["alert_trigger_type", "max_confirm_delay", "max_retry_interval"].contains(&column)
}

impl NotifyDef {
    /// Returns the row with words in place of numbers. A number that has no meaning stays, and is reported as invalid.
    ///
    /// | column | number | words |
    /// |---|---|---|
    /// | `alert_trigger_type` | 0, 1, 2, 3 | `final_failure`, `each_failure`, `never`, `after_failures` |
    /// | `max_confirm_delay` | seconds: 3600 | `3600s` |
    /// | `max_retry_interval` | minutes: 30; -1 | `30m`; none |
    pub(super) fn in_words(mut self) -> Self {
        let trigger = match self.alert_trigger_type.trim() {
            "0" => Some("final_failure"),
            "1" => Some("each_failure"),
            "2" => Some("never"),
            "3" => Some("after_failures"),
            _ => None,
        };
        if let Some(trigger) = trigger {
            self.alert_trigger_type = trigger.to_owned();
        }
        if let Some(seconds) = number(&self.max_confirm_delay) {
            self.max_confirm_delay = format!("{seconds}s");
        }
        match self.max_retry_interval.as_deref() {
            Some(text) if text.trim() == "-1" => self.max_retry_interval = None,
            Some(text) => {
                if let Some(minutes) = number(text) {
                    self.max_retry_interval = Some(format!("{minutes}m"));
                }
            }
            None => {}
        }
        self
    }
}

/// Returns the digits of a whole number above 0.
fn number(text: &str) -> Option<&str> {
    let digits = text.trim();
    let is_number = digits.bytes().all(|letter| letter.is_ascii_digit()) && digits.bytes().any(|letter| letter != b'0');
    is_number.then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_words_and_words_stay() {
        let read = |trigger: &str, ack: &str, cap: &str| {
            let row = NotifyDef::new("sync").alert_trigger_type(trigger).max_confirm_delay(ack).max_retry_interval(cap);
            let row = row.in_words();
            (row.alert_trigger_type, row.max_confirm_delay, row.max_retry_interval)
        };
        let words =
            |trigger: &str, ack: &str, cap: Option<&str>| (trigger.to_owned(), ack.to_owned(), cap.map(str::to_owned));
        assert_eq!(read("0", "3600", "30"), words("final_failure", "3600s", Some("30m")));
        assert_eq!(read("1", " 7 ", "-1"), words("each_failure", "7s", None));
        assert_eq!(read("2", "0", "0"), words("never", "0", Some("0")));
        assert_eq!(read("3", "1h", "5m"), words("after_failures", "1h", Some("5m")));
        assert_eq!(read("4", "-1", "1.5"), words("4", "-1", Some("1.5")));
        assert_eq!(read("never", "", ""), words("never", "", Some("")));
    }
}
