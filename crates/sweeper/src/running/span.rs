//! The span around each attempt: `attempt` of the target `solid_notify::attempt`, at level info. It has the notice's id,
//! its definition and the attempt's number, and at the end the handler's result and the class of its error. Without a
//! subscriber it costs one check of a flag.

use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::trace;
use solid_notify_core::transition::Event;
use tracing::Span;
use tracing::field::Empty;

use crate::settling::Outcome;

/// Returns the span of an attempt: a root, or a part of its producer's trace, independent of the current span.
pub(crate) fn of(definition: &str, claimed: &ClaimedNotice) -> Span {
    // `tracing-opentelemetry` uses the fields that begin with `otel` for the span itself.
    let span = tracing::info_span!(
        target: "solid_notify::attempt",
        parent: None,
        "attempt",
        notice = claimed.id,
        definition,
        attempt = claimed.attempt(),
        result = Empty,
        class = Empty,
        otel.kind = "consumer",
        otel.status_code = Empty,
    );
    if let Some(stored) = &claimed.trace_context {
        let age = (claimed.last_call_time - claimed.create_time).to_std().unwrap_or_default();
        trace::go_on(&span, stored, age);
    }
    span
}

/// Records the result in the span.
pub(crate) fn ended(span: &Span, outcome: &Outcome) {
    if span.is_disabled() {
        return;
    }
    let result = match &outcome.event {
        Event::Succeeded => "delivered",
        Event::AwaitAck(_) => "awaiting ack",
        Event::Skipped(_) => "skipped",
        Event::PassedOn(_) => "passed on",
        Event::Refused(_) => "refused",
        Event::HandedBack(_) => "handed back",
        Event::GaveUp(_) => "gave up",
        Event::Paused(_) => "paused",
        Event::OutOfTries => "out of tries",
        Event::Expired => "expired",
        _ => "failed",
    };
    span.record("result", result);
    if let Some(class) = outcome.class() {
        span.record("class", class.as_str()).record("otel.status_code", "ERROR");
    }
}
