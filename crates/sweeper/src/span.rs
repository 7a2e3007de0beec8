//! The span around each attempt: `attempt` of the target `solid_notify::attempt`, at level info. It has the notice's id, its
//! definition and the number of the attempt, and in the end how the handler judged and the class of its error. Where nobody
//! subscribes to it, it costs the look at a flag.

use solid_notify_core::notice::Claimed;
use solid_notify_core::trace;
use solid_notify_core::transition::Event;
use tracing::Span;
use tracing::field::Empty;

use crate::meters::class;
use crate::settle::Outcome;

/// The span of an attempt: a root, or a part of its producer's trace, whatever the task that makes it is in.
pub(crate) fn of(definition: &str, claimed: &Claimed) -> Span {
    // The fields that begin with `otel` are what `tracing-opentelemetry` takes for the span's own.
    let span = tracing::info_span!(
        target: "solid_notify::attempt",
        parent: None,
        "attempt",
        notice = claimed.id,
        definition,
        attempt = claimed.attempt,
        verdict = Empty,
        class = Empty,
        otel.kind = "consumer",
        otel.status_code = Empty,
    );
    if let Some(stored) = &claimed.trace_context {
        let age = claimed.last_call_time.duration_since(claimed.create_time).unwrap_or_default();
        trace::go_on(&span, stored, age);
    }
    span
}

/// Says in the span what came of it.
pub(crate) fn ended(span: &Span, outcome: &Outcome) {
    if span.is_disabled() {
        return;
    }
    let verdict = match &outcome.event {
        Event::Succeeded => "delivered",
        Event::AwaitConfirm(_) => "awaits confirmation",
        Event::Skipped(_) => "skipped",
        Event::HandedBack => "handed back",
        Event::GaveUp(_) => "gave up",
        _ => "failed",
    };
    span.record("verdict", verdict);
    if let Some(class) = class(outcome) {
        span.record("class", class.as_str()).record("otel.status_code", "ERROR");
    }
}
