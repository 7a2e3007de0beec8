//! An alert as a letter: a subject, plain text, and the same as HTML for people who read it on a telephone.

use lettre::message::Mailbox;
use serde::Serialize;
use solid_notify_core::Alert;

use super::message::Letter;
use crate::template::{Html, Template, Values};

/// Styles stand at the elements, because mail programs drop style sheets.
const PAGE: &str = include_str!("alert.html");

#[derive(Serialize)]
struct Facts<'a> {
    title: String,
    message: &'a str,
    facts: Vec<(&'static str, String)>,
}

/// Returns the letter to these recipients.
pub(crate) fn letter(alert: &Alert, to: Vec<Mailbox>) -> Letter {
    let facts = Facts { title: alert.title(), message: &alert.message, facts: alert.facts() };
    let page =
        Template::<Html>::new(PAGE).ok().and_then(|page| page.render_here("alert.html", &Values::of(&facts)).ok());
    // A page that cannot be rendered costs its form, and not the alert.
    Letter { to, subject: facts.title, text: Some(alert.text()), html: page, ..Letter::default() }
}

#[cfg(test)]
mod tests {
    use solid_notify_core::{AlertKind, AlertReason};

    use super::*;

    fn alert(definition: &str, message: &str) -> Alert {
        Alert::new(AlertKind::Raised, AlertReason::FinalFailure, definition, message)
    }

    fn html(alert: &Alert) -> String {
        letter(alert, Vec::new()).html.unwrap()
    }

    #[test]
    fn markup_in_a_message_is_text() {
        let page = html(&alert("sync<b>", "<script>alert('x')</script>\n& \"more\""));
        assert!(!page.contains("<script>") && !page.contains("sync<b>"), "{page}");
        let text = "&lt;script&gt;alert(&#x27;x&#x27;)&lt;&#x2f;script&gt;\n&amp; &quot;more&quot;";
        assert!(page.contains(text), "{page}");
    }

    #[test]
    fn every_fact_that_there_is_has_a_row() {
        let mut alert = alert("sync", "first\nsecond");
        (alert.notice_id, alert.node, alert.more) = (Some(7), "node-1".to_owned(), 3);
        (alert.tries, alert.max_tries, alert.link) = (Some(4), Some(5), Some("https:7?a&b".to_owned()));
        alert.runbook = Some("javascript:x".to_owned());
        let page = html(&alert);
        let link = "<td><a href=\"https:7?a&amp;b\">https:7?a&amp;b</a></td>";
        for value in
            [">sync<", ">final_failure<", ">7<", "first\nsecond", ">3<", ">node-1<", ">4 of 5<", ">javascript:x<", link]
        {
            assert!(page.contains(value), "{value}: {page}");
        }
        assert_eq!(page.matches("<tr>").count(), 8, "{page}");
    }
}
