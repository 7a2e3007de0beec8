//! Texts that every database can store.

/// Returns a text that every database can store: without NUL, at most `limit` bytes, cut between characters.
pub fn clean_text(text: &str, limit: usize) -> String {
    let mut clean: String = text.replace('\0', "\u{FFFD}");
    if clean.len() > limit {
        const MARK: &str = " […]";
        let mut end = limit.saturating_sub(MARK.len());
        while !clean.is_char_boundary(end) {
            end -= 1;
        }
        clean.truncate(end);
        clean.push_str(MARK);
    }
    clean
}
