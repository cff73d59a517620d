//! The span of whoever calls us, as W3C writes it.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The standard's own form has 55; later versions may add to it.
const LENGTH_MAX: usize = 512;

/// Makes a span the child of one that was made elsewhere. What is no `traceparent` is ignored, as the standard wants it.
///
/// To be called before the span is entered.
pub fn adopt(span: &Span, traceparent: &str) {
    if traceparent.len() > LENGTH_MAX {
        return;
    }
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let context =
        TraceContextPropagator::new().extract_with_context(&opentelemetry::Context::new(), &carrier);
    if context.span().span_context().is_valid() {
        // Nobody listens, or the span has begun: then it is a root.
        let _ = span.set_parent(context);
    }
}
