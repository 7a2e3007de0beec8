//! The pages for people: one with a button that posts, and one with the result. They have no scripts, and contain nothing of the request.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;

use crate::headers::with_headers;

/// Returns the page with the button for an ack. Its form has no action, so it posts to the URL of the page: the token is not in it.
pub(crate) fn of_ack() -> Response {
    form("Confirm", "")
}

/// Returns the page with the button for a nack.
pub(crate) fn of_nack() -> Response {
    form("Refuse", "<p><label>Reason: <input name=\"reason\" maxlength=\"500\"></label></p>\n")
}

/// Returns the page with a result. `text` is one of this crate, and has no character that HTML escapes.
pub(crate) fn of_result(success: bool, text: &'static str) -> Response {
    let title = if success { "Done" } else { "Not done" };
    html(title, &format!("<p>{text}</p>"))
}

fn form(title: &str, fields: &str) -> Response {
    html(title, &format!("<form method=\"post\">\n{fields}<button>{title}</button>\n</form>"))
}

fn html(title: &str, content: &str) -> Response {
    let html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n</head>\n\
         <body>\n<h1>{title}</h1>\n{content}\n</body>\n</html>\n"
    );
    let mut response = with_headers("text/html; charset=utf-8", html.into());
    let policy = "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response.headers_mut().insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex"));
    response
}
