//! TLS of the HTTP clients. The features `webhook` and `chat` compile it; `plain-webhook` and `plain-chat` do without, so URLs and
//! certificates that need it are refused before anything is sent.

use reqwest::Url;

/// Refusal of what needs TLS.
pub(crate) const WITHOUT_TLS: &str = "this program was built without TLS: build it with the cargo features `webhook` and `chat` of \
     solid-notify instead of `plain-webhook` and `plain-chat`";

/// Whether this program was built with TLS.
pub(crate) const HAS_TLS: bool = cfg!(feature = "tls");

/// Checks that this program can send to a URL.
///
/// # Errors
/// A text without the URL, because a URL may have a secret in it.
pub(crate) fn check(url: &Url) -> Result<(), String> {
    check_scheme(url.scheme(), HAS_TLS)
}

/// Checks the scheme of a URL of a receiver or of a proxy.
///
/// # Errors
/// A text that says which scheme would be right.
pub(crate) fn check_scheme(scheme: &str, has_tls: bool) -> Result<(), String> {
    match scheme {
        "https" if has_tls => Ok(()),
        "https" => Err(format!("its scheme is `https`, and {WITHOUT_TLS}, or use an `http` URL")),
        "http" => Ok(()),
        _ => Err("its scheme is neither `https` nor `http`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::check_scheme;

    #[test]
    fn https_is_refused_without_tls() {
        assert_eq!(check_scheme("https", true), Ok(()));
        assert_eq!(check_scheme("http", false), Ok(()));
        let refusal = check_scheme("https", false).unwrap_err();
        assert!(refusal.starts_with("its scheme is `https`, and this program was built without TLS: "), "{refusal}");
        for has_tls in [true, false] {
            assert!(check_scheme("ftp", has_tls).unwrap_err().starts_with("its scheme is neither"));
        }
    }
}
