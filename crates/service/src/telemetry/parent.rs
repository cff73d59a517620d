//! The caller's span, as W3C writes it.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The standard's own form has 55 characters; later versions may be longer.
const LENGTH_MAX: usize = 512;

/// Makes a span the child of a remote one. Ignores an invalid `traceparent`, as the standard demands.
///
/// Call it before the span is entered.
pub fn adopt(span: &Span, traceparent: &str) {
    if traceparent.len() > LENGTH_MAX {
        return;
    }
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let context =
        TraceContextPropagator::new().extract_with_context(&opentelemetry::Context::new(), &carrier);
    if context.span().span_context().is_valid() {
        // Fails if there is no exporter or the span has started: then it is a root.
        let _ = span.set_parent(context);
    }
}
