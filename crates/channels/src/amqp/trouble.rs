//! [`Trouble`]: reports a trouble that goes on when it begins, and again after growing pauses.

use std::time::Duration;

use tokio::time::Instant;

/// The first and the longest pause between two reports.
const PAUSES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// A trouble, or none.
#[derive(Debug, Default)]
pub(super) struct Trouble(Option<Report>);

#[derive(Debug)]
struct Report {
    what: String,
    at: Instant,
    pause: Duration,
}

impl Trouble {
    /// Notes that it goes on. Returns whether it is to be reported now: at its beginning, after a pause, and when it is another one.
    pub(super) fn is_to_report(&mut self, what: &str) -> bool {
        let pause = match &self.0 {
            None => PAUSES.0,
            Some(last) if last.at.elapsed() >= last.pause => (2 * last.pause).min(PAUSES.1),
            // At most once a minute, because the text may be one of a broker.
            Some(last) if last.what != what && last.at.elapsed() >= PAUSES.0 => PAUSES.0,
            Some(_) => return false,
        };
        self.0 = Some(Report { what: what.to_owned(), at: Instant::now(), pause });
        true
    }

    /// Notes its end. Returns whether there was one.
    pub(super) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn trouble_is_reported_at_its_beginning_and_after_growing_pauses() {
        let (mut trouble, mut minutes, began) = (Trouble::default(), Vec::new(), Instant::now());
        for _ in 0..24 * 60 {
            if trouble.is_to_report("refused") {
                minutes.push(began.elapsed().as_secs() / 60);
            }
            assert!(!trouble.is_to_report("refused"));
            sleep(Duration::from_secs(60)).await;
        }
        assert_eq!(minutes[..8], [0, 1, 3, 7, 15, 31, 63, 123]);
        assert!(trouble.end() && !trouble.end());
        assert!(trouble.is_to_report("refused"), "it has begun again");
    }

    #[tokio::test(start_paused = true)]
    async fn another_trouble_is_reported_within_a_minute() {
        let mut trouble = Trouble::default();
        for pause in [0, 60, 120] {
            advance(Duration::from_secs(pause)).await;
            assert!(trouble.is_to_report("refused"));
        }
        assert!(!trouble.is_to_report("no queue"));
        advance(PAUSES.0).await;
        assert!(!trouble.is_to_report("refused"));
        assert!(trouble.is_to_report("no queue"));
    }
}
