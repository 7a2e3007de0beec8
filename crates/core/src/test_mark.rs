//! [`TEST_TAG`]: the tag that marks a notice as a test, and the tags that an application cannot give.
//!
//! The mark is a tag, because stores keep, index and list tags, return them with a claim, and pass them on to targets.
//! [`crate::Operator::test_send`] adds such notices.

/// The tag of a notice that is a test. `Filter::ended().tag(TEST_TAG)` selects the tests that have ended.
pub const TEST_TAG: &str = "notify:test";

/// Begins the tags that only the library gives, so that no application marks a notice as a test by mistake.
const OWN_TAGS: &str = "notify:";

/// Returns what is wrong with the tag that an application gives a notice, if it is one of the library's own.
pub(crate) fn problem_of_own_tag(tag: &str) -> Option<String> {
    let problem = || format!("tag begins with {OWN_TAGS:?}, which marks tags of the library; choose another beginning");
    tag.starts_with(OWN_TAGS).then(problem)
}

#[cfg(test)]
mod tests {
    use super::{TEST_TAG, problem_of_own_tag};
    use crate::NewNotice;

    #[test]
    fn application_cannot_mark_a_notice_as_a_test() {
        assert!(problem_of_own_tag("order:7").is_none() && problem_of_own_tag("x notify:test").is_none());
        for tag in [TEST_TAG, "notify:", "notify:other"] {
            let error = NewNotice::new("sync", 1).unwrap().tag(tag).check().unwrap_err().to_string();
            assert!(error.contains("notify:"), "{error}");
        }
    }
}
