//! The trace of whoever adds a notice goes on where it is sent: W3C trace context, with the feature `otel`. Without it nothing is
//! stored by itself, and what the producer stored is shown by `notice.trace_context()` all the same.
//!
//! Only the `traceparent` is stored, a line that any program can write and that a handler can put into a header as it is.

use std::time::Duration;

/// How old a notice may be for its attempt to be a part of the producer's trace. What comes later is a trace of its own with a
/// link to the producer's: those who keep traces take them for ended after some minutes, and one that goes on for days is
/// shown by nobody.
pub const SAME_TRACE: Duration = Duration::from_secs(600);

#[cfg(feature = "otel")]
mod otel {
    use std::collections::HashMap;

    use opentelemetry::Context;
    use opentelemetry::propagation::TextMapPropagator;
    use opentelemetry::trace::TraceContextExt;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    const HEADER: &str = "traceparent";

    pub(super) fn current() -> Option<String> {
        let of_span = tracing::Span::current().context();
        let context = if of_span.span().span_context().is_valid() { of_span } else { Context::current() };
        let mut headers: HashMap<String, String> = HashMap::new();
        TraceContextPropagator::new().inject_context(&context, &mut headers);
        headers.remove(HEADER)
    }

    pub(super) fn go_on(span: &tracing::Span, stored: &str, same: bool) {
        let headers = HashMap::from([(HEADER.to_owned(), stored.to_owned())]);
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        let producer = context.span().span_context().clone();
        // What cannot be read is not a trace.
        if !producer.is_valid() {
            return;
        }
        if same {
            // An error says that nobody exports this span.
            let _ = span.set_parent(context);
        } else {
            span.add_link(producer);
        }
    }
}

/// The context of the current span, where it has one.
pub fn current() -> Option<String> {
    #[cfg(feature = "otel")]
    return otel::current();
    #[cfg(not(feature = "otel"))]
    None
}

/// Makes a new span a part of the producer's trace, or links it to that where the notice is older than [`SAME_TRACE`]. What is
/// stored and cannot be read is ignored.
pub fn go_on(span: &tracing::Span, stored: &str, age: Duration) {
    #[cfg(feature = "otel")]
    if !span.is_disabled() {
        otel::go_on(span, stored, age <= SAME_TRACE);
    }
    #[cfg(not(feature = "otel"))]
    let _ = (span, stored, age);
}
