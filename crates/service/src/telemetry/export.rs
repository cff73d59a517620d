//! The exporters: each with a thread, a bounded queue, and a collector that may be slow, dead or hostile.

use std::time::Duration;

use coracle::config;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

use super::client::Client;
use super::instruments::Instruments;
use super::metrics::Metrics;
use super::once::Once;

const SCOPE: &str = "coracle";
/// A batch of spans has a few hundred kilobytes. A larger request is not ours.
const REQUEST_MAX: usize = 8 << 20;

/// The configured exporters.
#[derive(Debug, Default)]
pub struct Exporters {
    spans: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    notes: Vec<String>,
}

impl Exporters {
    /// Makes the exporter of spans, if there is a collector for them.
    pub fn of_spans(config: &config::Telemetry, patience: Duration) -> Self {
        let mut exporters = Self::default();
        let exporter = config.traces.as_deref().map(|endpoint| spans_to(endpoint, patience));
        exporters.spans = exporters.made("spans", exporter).map(|exporter| {
            SdkTracerProvider::builder()
                .with_resource(resource(config))
                .with_batch_exporter(Once(exporter))
                .build()
        });
        exporters
    }

    /// Adds the exporter of metrics.
    pub fn and_metrics(mut self, config: &config::Telemetry, patience: Duration) -> Self {
        let exporter = config.metrics.as_deref().map(|endpoint| metrics_to(endpoint, patience));
        self.metrics = self.made("metrics", exporter).map(|exporter| {
            SdkMeterProvider::builder()
                .with_resource(resource(config))
                .with_periodic_exporter(exporter)
                .build()
        });
        self
    }

    /// Returns the exporter. Where it could not be made, notes that without the address: a key may be part of it.
    fn made<T>(&mut self, what: &str, exporter: Option<Result<T, ExporterBuildError>>) -> Option<T> {
        let made = exporter?.ok();
        if made.is_none() {
            let note = "the exporter refuses the address or the `OTEL_EXPORTER_OTLP_*` variables";
            self.notes.push(format!("no {what} are sent by OTLP: {note}"));
        }
        made
    }

    /// Returns notes, for a person, on the signals that are not sent.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Tells whether metrics are sent to a collector.
    pub fn have_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Sends all metrics to the collector, too.
    pub fn instrument(&self, metrics: &std::sync::Arc<Metrics>) {
        if let Some(provider) = &self.metrics {
            metrics.send_by(Instruments::of(&provider.meter(SCOPE), metrics));
        }
    }

    /// Returns the layer that converts our spans. It leaves out code locations, threads and idle times: they would
    /// double the size, and are private.
    pub fn layer<S>(&self) -> Option<OpenTelemetryLayer<S, SdkTracer>>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    {
        let provider = self.spans.as_ref()?;
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer(SCOPE));
        Some(layer.with_location(false).with_threads(false).with_tracked_inactivity(false).with_target(false))
    }

    /// Sends queued spans and metrics. Those the collector does not take in time are lost.
    pub fn end(self, patience: Duration) {
        if let Some(spans) = self.spans {
            let _ = spans.shutdown_with_timeout(patience);
        }
        if let Some(metrics) = self.metrics {
            let _ = metrics.shutdown_with_timeout(patience);
        }
    }
}

fn spans_to(endpoint: &str, patience: Duration) -> Result<SpanExporter, ExporterBuildError> {
    SpanExporter::builder()
        .with_http()
        .with_endpoint(endpoint)
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(Client::new(patience))
        .with_retry_policy(RetryPolicy::disabled())
        .with_max_request_body_size(REQUEST_MAX)
        .build()
}

fn metrics_to(endpoint: &str, patience: Duration) -> Result<MetricExporter, ExporterBuildError> {
    MetricExporter::builder()
        .with_http()
        .with_endpoint(endpoint)
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(Client::new(patience))
        .with_retry_policy(RetryPolicy::disabled())
        .with_max_request_body_size(REQUEST_MAX)
        .build()
}

/// Our identity: from the standard variables, with our name as the default.
fn resource(config: &config::Telemetry) -> Resource {
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    match &config.service_name {
        Some(name) => resource.with_service_name(name.clone()).build(),
        None => resource.build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_to_is_noted_and_not_repeated() {
        let address = Some("http://a|key".to_owned());
        let config =
            config::Telemetry { traces: address.clone(), metrics: address, ..config::Telemetry::default() };

        let exporters = Exporters::of_spans(&config, Duration::ZERO).and_metrics(&config, Duration::ZERO);

        let notes = exporters.notes();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes.iter().all(|note| !note.contains("key")), "{notes:?}");
        assert!(notes[0].starts_with("no spans are sent by OTLP: "), "{notes:?}");
        assert!(notes[1].starts_with("no metrics are sent by OTLP: "), "{notes:?}");
    }
}
