//! [`retry_after`]: how long a receiver wants to be left alone.

use std::time::{Duration, SystemTime};

use hyper::header::{HeaderMap, RETRY_AFTER};

/// Returns the time that the header `retry-after` says. It may be very long: the decision about the retry caps it.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    wait(headers.get(RETRY_AFTER)?.to_str().ok()?, SystemTime::now())
}

/// Returns the time that a value says: seconds, or a date. A time that is over says nothing.
fn wait(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let delay = match is_number {
        true => Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX))),
        false => httpdate::parse_http_date(value).ok()?.duration_since(now).ok(),
    };
    delay.filter(|delay| !delay.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Tue, 24 Nov 2026 10:00:00 GMT").unwrap();
        let read = |value: &str| wait(value, now);
        assert_eq!(read("77"), Some(Duration::from_secs(77)));
        assert_eq!(read("Tue, 24 Nov 2026 10:01:00 GMT"), Some(Duration::from_secs(60)));
        for nothing in ["", "0", "-1", "soon", "1.5", "Tue, 24 Nov 2026 09:00:00 GMT"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
        for endless in ["18446744073709551615", "99999999999999999999999"] {
            assert_eq!(read(endless), Some(Duration::from_secs(u64::MAX)), "{endless}");
        }
        assert_eq!(read("Fri, 31 Dec 9999 23:59:59 GMT").map(|wait| wait.as_secs() > 250_000_000_000), Some(true));
    }
}
