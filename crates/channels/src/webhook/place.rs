//! Puts the values of a URL's template into the places that the row has for them, so that no value leads to another host or path.

use percent_encoding::percent_decode_str;

use crate::template::{BEGIN, END};

/// A URL with its values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) text: String,
    /// How many segments its path has. `None`: a value has the host and the path.
    pub(super) segments: Option<usize>,
}

/// The parts of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Up to the host. No row has a host if its own text does not get beyond this.
    Scheme,
    Host,
    Path,
    /// The query and what is behind it.
    Query,
}

/// Puts values, which stand between marks, into their places: in the path and the query they are encoded as far as they would end them.
///
/// # Errors
/// What is wrong, without a value: one would change the host, or be a step to another path.
pub(super) fn placed(marked: &str) -> Result<Placed, &'static str> {
    let (mut text, mut part, mut is_value) = (String::with_capacity(marked.len()), Part::Scheme, false);
    // The colon of a scheme, and the slashes behind it.
    let (mut segments, mut marks) = (vec![String::new()], 0);
    for letter in marked.chars() {
        if matches!(letter, BEGIN | END) {
            is_value = letter == BEGIN;
            // What follows the slashes behind the scheme is the host, also where it is a value.
            if part == Part::Scheme && marks >= 3 {
                part = Part::Host;
            }
            continue;
        }
        let is_slash = matches!(letter, '/' | '\\');
        if part == Part::Scheme {
            if marks >= 3 && !is_slash {
                part = Part::Host;
            }
            marks = match letter {
                ':' if !is_value => 1,
                _ if is_slash && !is_value && marks > 0 => marks + 1,
                _ => 0,
            };
        }
        match part {
            Part::Host if is_value && (is_slash || matches!(letter, '?' | '#' | '@')) => {
                return Err("a value would change its host");
            }
            Part::Host if is_slash => part = Part::Path,
            Part::Host | Part::Path if !is_value && matches!(letter, '?' | '#') => part = Part::Query,
            Part::Path if is_slash && !is_value => segments.push(String::new()),
            Part::Path if is_value && (is_slash || matches!(letter, '?' | '#')) => {
                let code = format!("%{:02X}", u32::from(letter));
                text.push_str(&code);
                push(&mut segments, &code);
                continue;
            }
            Part::Path => push(&mut segments, letter.encode_utf8(&mut [0; 4])),
            Part::Query if is_value && letter == '#' => {
                text.push_str("%23");
                continue;
            }
            _ => {}
        }
        text.push(letter);
    }
    if part == Part::Scheme {
        let path = text.split(['?', '#']).next().unwrap_or_default();
        segments = path.split(['/', '\\']).map(str::to_owned).collect();
    }
    if segments.iter().any(|segment| has_step(segment)) {
        return Err("its path has a segment `.` or `..`");
    }
    let segments = (part != Part::Scheme).then_some(segments.len());
    Ok(Placed { text, segments })
}

fn push(segments: &mut [String], text: &str) {
    if let Some(last) = segments.last_mut() {
        last.push_str(text);
    }
}

/// Returns whether a segment is a step to another one, for the URL or for a receiver that decodes it first. Both may leave out tabs, ends of lines, and
/// blanks at an end.
fn has_step(segment: &str) -> bool {
    let decoded = percent_decode_str(segment).decode_utf8_lossy().replace(['\t', '\r', '\n'], "");
    let is_blank = |letter: char| letter <= ' ';
    decoded.split(['/', '\\']).any(|part| matches!(part.trim_matches(is_blank), "." | ".."))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use proptest::prelude::*;
    use url::Url;

    use super::*;
    use crate::template::{InUrl, Template, Values};

    /// What the template makes of a value.
    fn value(text: &str) -> String {
        let (template, values) = (Template::<InUrl>::new("{{ x }}").unwrap(), serde_json::json!({ "x": text }));
        template.render("url", &Values::of(values)).now_or_never().unwrap().unwrap()
    }

    fn url(parts: &[&str]) -> Result<Url, &'static str> {
        let placed = placed(&parts.concat())?;
        Url::parse(&placed.text).map_err(|_| "no URL")
    }

    #[test]
    fn value_stays_in_its_segment() {
        for (given, path) in [
            ("7", "/a/7/b"),
            ("x/y", "/a/x%2Fy/b"),
            ("x\\y", "/a/x%5Cy/b"),
            ("x?y#z", "/a/x%3Fy%23z/b"),
            ("a\t/\r\nb", "/a/a%09%2F%0D%0Ab/b"),
            ("a b%20c", "/a/a%20b%20c/b"),
            ("", "/a//b"),
            ("//evil.org/", "/a/%2F%2Fevil.org%2F/b"),
            ("...", "/a/.../b"),
        ] {
            let url = url(&["http://h/a/", &value(given), "/b?c=d"]).unwrap();
            assert_eq!((url.path(), url.query(), url.host_str()), (path, Some("c=d"), Some("h")), "{given:?}");
        }
    }

    #[test]
    fn step_to_another_path_is_refused() {
        for given in [
            "..",
            ".",
            "%2e",
            "%2E.",
            "a/../b",
            "a\\..\\b",
            "%2f..",
            "a/.%2e",
            ".. ",
            " ..",
            "x%5c..%5Cy",
            "/.",
            "a/.\t./admin",
            ".\n.",
            "\u{2}..\u{1}",
        ] {
            let error = url(&["http://h/a/", &value(given), "/b"]).unwrap_err();
            assert_eq!(error, "its path has a segment `.` or `..`", "{given:?}");
        }
        // It would be one if the tab were left out, as in a URL.
        let url_of_tab = url(&["http://h/a/", &value(".%2\te/admin3"), "/b"]).unwrap();
        assert_eq!(url_of_tab.path(), "/a/.%2%09e%2Fadmin3/b");
        assert!(url(&["http://h/a/.", &value("."), "/b"]).is_err());
        assert!(url(&["http://h/a/", &value("."), &value("."), "/b"]).is_err());
        assert!(url(&["http://h/a/../b/", &value("x")]).is_err(), "of the row itself");
    }

    #[test]
    fn value_changes_no_host_and_ends_no_query() {
        for given in ["evil.org/", "evil.org?", "evil.org#", "a@evil.org", "evil.org\\x", "/evil.org"] {
            assert!(url(&["http://", &value(given), ".shop.org/a"]).is_err(), "{given}");
            assert!(url(&["http://shop.org", &value(given)]).is_err(), "{given}");
        }
        let with_port = url(&["https://", &value("[::1]"), ":", &value("8080"), "/", &value("a/b")]).unwrap();
        assert_eq!(with_port.as_str(), "https://[::1]:8080/a%2Fb");
        let query = url(&["http://h/a?b=", &value("c#d&e"), "#", &value("f?/#")]).unwrap();
        assert_eq!((query.query(), query.fragment()), (Some("b=c%23d&e"), Some("f?/%23")));
        let whole = url(&[&value("https://h/a/b?c"), "&d=1"]).unwrap();
        assert_eq!(whole.as_str(), "https://h/a/b?c&d=1");
        assert!(url(&[&value("https://h/a/../b")]).is_err());
    }

    /// What `urlencode` encodes.
    const ENCODED: &percent_encoding::AsciiSet =
        &percent_encoding::NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn url_has_the_segments_and_the_host_of_the_row(
            values in proptest::collection::vec("(/|\\\\|\\.|%2e|%2f|%5C|\\t|\\n|\\r| |\\?|#|@|:|\\[|%|[a-c]|ü|\\x01|\\x02|\\x00|\\x7f|evil\\.org|//|https:){0,6}", 3),
            encoded in any::<bool>(),
        ) {
            let [a, b, c] = [0, 1, 2].map(|at| {
                let once = percent_encoding::utf8_percent_encode(&values[at], ENCODED).to_string();
                value(if encoded { &once } else { &values[at] })
            });
            if let Ok(placed) = placed(&["http://h.org:81/x/", &a, "/y", &b, "/", &b, "?q=", &c].concat()) {
                let url = Url::parse(&placed.text).unwrap();
                prop_assert_eq!(url.host_str(), Some("h.org"));
                prop_assert_eq!((url.port(), url.username(), url.scheme(), url.fragment()), (Some(81), "", "http", None));
                let segments: Vec<_> = url.path_segments().unwrap().collect();
                prop_assert_eq!((segments.len(), Some(segments.len())), (4, placed.segments), "{}", url);
                prop_assert!(segments[0] == "x" && segments[2].starts_with('y'), "{}", url);
                prop_assert!(!segments.iter().any(|segment| has_step(segment)), "{}", url);
            }
            // A value that is a part of the host makes one of the same domain, or none.
            if let Ok(url) = url(&["http://", &a, ".h.org/", &b]) {
                prop_assert!(url.host_str().is_some_and(|host| host.ends_with(".h.org")), "{}", url);
                prop_assert_eq!(url.path_segments().unwrap().count(), 1, "{}", url);
            }
        }
    }
}
