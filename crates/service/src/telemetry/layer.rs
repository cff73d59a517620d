//! Counts spans as they end, so that code which reports to traces need not report again for metrics.

use std::sync::Arc;
use std::time::Instant;

use coracle_engine::Counted;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::metrics::Metrics;

/// Passes the facts of every ended span to the metrics.
#[derive(Debug)]
pub struct Counting(Arc<Metrics>);

impl From<Arc<Metrics>> for Counting {
    fn from(metrics: Arc<Metrics>) -> Self {
        Self(metrics)
    }
}

/// The attributes of a span that are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub operation: String,
    pub sandbox: String,
    pub backend: String,
    pub outcome: String,
    pub action: String,
    pub exec: String,
    pub exec_outcome: String,
    pub exec_ms: u64,
    pub output_bytes: u64,
    pub file_bytes: u64,
    pub denied: u64,
    pub limits: String,
}

/// A span that has not ended.
struct Open {
    counted: Counted,
    began: Instant,
    facts: Facts,
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Counting {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let Some(counted) = Counted::of(span.name()) else { return };
        let mut facts = Facts::default();
        attributes.record(&mut facts);
        span.extensions_mut().insert(Open { counted, began: Instant::now(), facts });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.facts);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let open = span.extensions_mut().remove::<Open>();
        if let Some(Open { counted, began, facts }) = open {
            self.0.count(counted, &facts, began.elapsed());
        }
    }
}

impl Visit for Facts {
    fn record_str(&mut self, field: &Field, value: &str) {
        let place = match field.name() {
            "coracle.operation" => &mut self.operation,
            "coracle.sandbox.id" => &mut self.sandbox,
            "coracle.backend" => &mut self.backend,
            "coracle.outcome" => &mut self.outcome,
            "coracle.reconcile.action" => &mut self.action,
            "coracle.exec.id" => &mut self.exec,
            "coracle.exec.outcome" => &mut self.exec_outcome,
            "coracle.exec.limits_hit" => &mut self.limits,
            _ => return,
        };
        value.clone_into(place);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let place = match field.name() {
            "coracle.exec.duration_ms" => &mut self.exec_ms,
            "coracle.exec.output_bytes" => &mut self.output_bytes,
            "coracle.file.bytes" => &mut self.file_bytes,
            "coracle.egress.denied" => &mut self.denied,
            _ => return,
        };
        *place = value;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
