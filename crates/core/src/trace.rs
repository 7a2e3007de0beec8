//! Continues the trace of the producer where the notice is sent: W3C trace context, with the feature `otel`. Without it no
//! context is stored automatically, but `notice.trace_context()` still returns the one that the producer stored.
//!
//! Only the `traceparent` is stored: one line that any program can write and that a handler can copy into a header.

use std::time::Duration;

/// The maximum age of a notice whose attempt belongs to the producer's trace. A later attempt starts its own trace with a link
/// to the producer's, because tracing systems consider a trace ended after some minutes and do not show one that continues for
/// days.
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
        // An invalid text is ignored.
        if !producer.is_valid() {
            return;
        }
        if same {
            // An error means that this span is not exported.
            let _ = span.set_parent(context);
        } else {
            span.add_link(producer);
        }
    }
}

/// Returns the context of the current span, if it has one.
pub fn current() -> Option<String> {
    #[cfg(feature = "otel")]
    return otel::current();
    #[cfg(not(feature = "otel"))]
    None
}

/// Makes a new span part of the producer's trace, or links it if the notice is older than [`SAME_TRACE`]. An invalid stored
/// context is ignored.
pub fn go_on(span: &tracing::Span, stored: &str, age: Duration) {
    #[cfg(feature = "otel")]
    if !span.is_disabled() {
        otel::go_on(span, stored, age <= SAME_TRACE);
    }
    #[cfg(not(feature = "otel"))]
    let _ = (span, stored, age);
}
