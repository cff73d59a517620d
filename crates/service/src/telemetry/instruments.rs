//! The metrics for a collector: latencies as they happen, the rest read at each export.

use std::sync::{Arc, Weak};
use std::time::Duration;

use coracle_core::headroom::Level;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};

use super::metrics::{BOUNDS, Counts, Labels, Metrics};

/// The histograms of latencies.
#[derive(Debug)]
pub struct Instruments {
    operations: Histogram<f64>,
    creations: Histogram<f64>,
    execs: Histogram<f64>,
    removals: Histogram<f64>,
}

impl Instruments {
    pub fn of(meter: &Meter, metrics: &Arc<Metrics>) -> Self {
        observe(meter, &Arc::downgrade(metrics));
        let seconds =
            |name| meter.f64_histogram(name).with_unit("s").with_boundaries(BOUNDS.to_vec()).build();
        Self {
            operations: seconds("coracle.operation.duration"),
            creations: seconds("coracle.sandbox.create.duration"),
            execs: seconds("coracle.exec.duration"),
            removals: seconds("coracle.sandbox.destroy.duration"),
        }
    }

    pub fn operation(&self, labels: &Labels, time: Duration) {
        self.operations.record(time.as_secs_f64(), &pairs(["coracle.operation", "coracle.outcome"], labels));
    }

    pub fn creation(&self, labels: &Labels, time: Duration) {
        self.creations.record(time.as_secs_f64(), &pairs(["coracle.backend", "coracle.outcome"], labels));
    }

    pub fn exec(&self, labels: &Labels, time: Duration) {
        self.execs.record(time.as_secs_f64(), &pairs(["coracle.backend", "coracle.exec.outcome"], labels));
    }

    pub fn removal(&self, labels: &Labels, time: Duration) {
        self.removals.record(time.as_secs_f64(), &pairs(["coracle.backend", "coracle.outcome"], labels));
    }
}

fn pairs(names: [&'static str; 2], labels: &Labels) -> [KeyValue; 2] {
    [KeyValue::new(names[0], labels[0].clone()), KeyValue::new(names[1], labels[1].clone())]
}

/// Registers counters and gauges that are read at each export.
fn observe(meter: &Meter, metrics: &Weak<Metrics>) {
    total(meter, metrics, "coracle.exec.output", |counts| counts.output_bytes);
    total(meter, metrics, "coracle.file.read", |counts| counts.read_bytes);
    total(meter, metrics, "coracle.file.written", |counts| counts.written_bytes);
    total(meter, metrics, "coracle.egress.denied", |counts| counts.denied);
    let counted = metrics.clone();
    meter
        .u64_observable_counter("coracle.reconcile.actions")
        .with_callback(move |observer| {
            let counts = counted.upgrade().map(|metrics| metrics.counted()).unwrap_or_default();
            for (labels, count) in &counts.repairs {
                observer.observe(*count, &pairs(["coracle.reconcile.action", "coracle.outcome"], labels));
            }
        })
        .build();
    let counted = metrics.clone();
    meter
        .u64_observable_counter("coracle.limits.hit")
        .with_callback(move |observer| {
            let counts = counted.upgrade().map(|metrics| metrics.counted()).unwrap_or_default();
            for (limit, count) in counts.limits {
                observer.observe(count, &[KeyValue::new("coracle.limit", limit)]);
            }
        })
        .build();
    let watched = metrics.clone();
    meter
        .u64_observable_gauge("coracle.sandboxes")
        .with_callback(move |observer| {
            let inventory = watched.upgrade().and_then(|metrics| metrics.inventory());
            for (state, count) in inventory.into_iter().flat_map(|inventory| inventory.states) {
                observer.observe(count, &[KeyValue::new("coracle.state", state.as_str())]);
            }
        })
        .build();
    let watched = metrics.clone();
    meter
        .u64_observable_gauge("coracle.spares")
        .with_callback(move |observer| {
            if let Some(inventory) = watched.upgrade().and_then(|metrics| metrics.inventory()) {
                observer.observe(inventory.spares, &[]);
            }
        })
        .build();
    level(meter, metrics, "coracle.storage.free", |level| level.free_bytes);
    level(meter, metrics, "coracle.storage.reserve", |level| level.reserve_bytes);
    level(meter, metrics, "coracle.storage.low", |level| u64::from(level.low));
}

/// Registers a gauge about the disk of the home.
fn level(meter: &Meter, metrics: &Weak<Metrics>, name: &'static str, read: fn(&Level) -> u64) {
    let metrics = metrics.clone();
    meter
        .u64_observable_gauge(name)
        .with_callback(move |observer| {
            if let Some(level) = metrics.upgrade().and_then(|metrics| metrics.level()) {
                observer.observe(read(&level), &[]);
            }
        })
        .build();
}

fn total(meter: &Meter, metrics: &Weak<Metrics>, name: &'static str, read: fn(&Counts) -> u64) {
    let metrics = metrics.clone();
    meter
        .u64_observable_counter(name)
        .with_callback(move |observer| {
            if let Some(metrics) = metrics.upgrade() {
                observer.observe(read(&metrics.counted()), &[]);
            }
        })
        .build();
}
