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

/// Returns the trace id of a stored W3C `traceparent`, 32 hexadecimal digits; `None` for another format.
pub fn trace_id(stored: &str) -> Option<&str> {
    let mut parts = stored.trim().split('-');
    let (version, id, span) = (parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_valid = version.len() == 2 && id.len() == 32 && span.len() == 16 && is_hex(id);
    (is_valid && id.bytes().any(|digit| digit != b'0')).then_some(id)
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

#[cfg(test)]
mod tests {
    use super::trace_id;

    #[test]
    fn trace_id_is_that_of_a_traceparent_only() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_id(&format!("00-{id}-00f067aa0ba902b7-01")), Some(id));
        assert_eq!(trace_id(&format!("cc-{id}-00f067aa0ba902b7-01-more")), Some(id), "a later version may have more");
        let zeros = "0".repeat(32);
        for other in ["", "t", id, "00-4bf9-00f067aa0ba902b7-01", &format!("00-{zeros}-00f067aa0ba902b7-01")] {
            assert_eq!(trace_id(other), None, "{other}");
        }
        assert_eq!(trace_id(&format!("00-{}-00f067aa0ba902b7-01", id.to_uppercase())), None, "W3C has small letters");
    }
}
