//! Cuts a text to a service's limit. Each service counts in its own unit.

/// The end of a text that was cut.
const MARK: &str = " […]";

/// Returns the text, or as much of its beginning as fits, with a mark. `size` is the size of one character.
pub(super) fn cut(text: &str, limit: usize, size: fn(char) -> usize) -> String {
    let total: usize = text.chars().map(size).sum();
    if total <= limit {
        return text.to_owned();
    }
    let room = limit.saturating_sub(MARK.chars().map(size).sum());
    let mut used = 0;
    let fits = |character: &char| {
        used += size(*character);
        used <= room
    };
    text.chars().take_while(fits).chain(MARK.chars()).collect()
}

/// Returns the size in bytes of UTF-8.
pub(super) fn utf8(character: char) -> usize {
    character.len_utf8()
}

/// Returns the largest size in bytes within a JSON string.
pub(super) fn json(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        other if other.is_control() => 6,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_fits_is_left_alone_and_a_longer_one_fits_afterwards() {
        assert_eq!(cut("订单失败", 12, utf8), "订单失败");
        let text = "订单".repeat(100);
        for limit in [20, 21, 22, 23] {
            let short = cut(&text, limit, utf8);
            assert!(short.len() <= limit && short.len() > limit - 3 && short.ends_with(MARK), "{limit}: {short}");
        }
    }

    #[test]
    fn the_size_in_json_is_never_guessed_too_small() {
        let text: String = (0..0x2000).filter_map(char::from_u32).collect();
        let real = serde_json::to_string(&text).unwrap().len() - 2;
        assert!(text.chars().map(json).sum::<usize>() >= real);
    }
}
