//! Telemetry: spans and metrics by OTLP, and metrics for Prometheus.
//!
//! Nothing here may make a call fail, nor delay it for more than a moment: the work is more important than the
//! telemetry. Only our own spans are exported. Spans of libraries describe the data they carry, which may be secret.

mod client;
pub mod doors;
mod export;
mod instruments;
mod layer;
mod metrics;
mod once;
mod parent;
mod text;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coracle::config;
use tracing::{Dispatch, Metadata, Span, dispatcher};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;

pub use self::doors::Came;
use self::export::Exporters;
use self::layer::Counting;
pub use self::metrics::Metrics;
pub use self::text::CONTENT_TYPE;
use crate::warning::note;

/// The prefix of our own crates.
const OURS: &str = "coracle";
/// How long a collector that does not answer may delay the end of a call.
const FLUSH_OF_CALL: Duration = Duration::from_millis(500);
/// The same for a service.
const FLUSH_OF_SERVICE: Duration = Duration::from_secs(3);

/// The metrics of this process, if it counts.
static METRICS: OnceLock<Arc<Metrics>> = OnceLock::new();

/// How long a process lives, which decides what it exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// One call: its spans. Metrics of a process that ends at once are useless.
    Call,
    /// A process that stays: its spans, and metrics if a collector is configured for them.
    Service,
    /// A process that stays and can be scraped.
    Daemon,
    /// A process without telemetry.
    Silent,
}

/// Exports while it lives; sends the rest when it ends.
#[derive(Debug)]
pub struct Telemetry {
    exporters: Exporters,
    patience: Duration,
}

impl Telemetry {
    /// Starts to export, as configured. Installs nothing where nothing is configured.
    pub fn start(config: &config::Telemetry, life: Life) -> Self {
        let patience = match life {
            Life::Service | Life::Daemon => FLUSH_OF_SERVICE,
            Life::Call | Life::Silent => FLUSH_OF_CALL,
        };
        let exporters = match life {
            Life::Silent => Exporters::default(),
            Life::Call => Exporters::of_spans(config, patience),
            Life::Service | Life::Daemon => {
                Exporters::of_spans(config, patience).and_metrics(config, patience)
            }
        };
        exporters.notes().iter().for_each(|text| note(text));
        let counting = counts(life, &exporters).then(|| METRICS.get_or_init(Arc::default).clone());
        if let Some(metrics) = &counting {
            exporters.instrument(metrics);
        }
        install(&exporters, counting);
        doors::started_by(config.parent.as_deref());
        Self { exporters, patience }
    }

    /// Runs one call of the binary, in a span of its own.
    pub fn call<T>(&self, verb: &'static str, deed: impl FnOnce() -> T) -> T {
        doors::command(verb).in_scope(deed)
    }

    /// Sends queued spans and metrics; gives up after a moment.
    pub fn end(self) {
        self.exporters.end(self.patience);
    }
}

/// Returns the metrics of this process; `None` if it does not count.
pub fn metrics() -> Option<&'static Arc<Metrics>> {
    METRICS.get()
}

/// Lets work on another thread belong to the current span.
pub fn carried<T>(deed: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let span = Span::current();
    move || span.in_scope(deed)
}

/// Runs work that no caller asked for, such as checking how far a command is: it belongs to no trace, and is not
/// counted.
pub fn untold<T>(deed: impl FnOnce() -> T) -> T {
    dispatcher::with_default(&Dispatch::none(), deed)
}

/// Tells whether a process's metrics can be read anywhere.
fn counts(life: Life, exporters: &Exporters) -> bool {
    match life {
        Life::Daemon => true,
        Life::Service => exporters.have_metrics(),
        Life::Call | Life::Silent => false,
    }
}

fn install(exporters: &Exporters, counting: Option<Arc<Metrics>>) {
    let spans = exporters.layer();
    if spans.is_none() && counting.is_none() {
        return;
    }
    let ours = filter_fn(is_ours).with_max_level_hint(LevelFilter::INFO);
    let subscriber = tracing_subscriber::registry().with(ours).with(spans).with(counting.map(Counting::from));
    // Fails where there is a subscriber already; that one then gets the spans.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    target == OURS || target.starts_with("coracle::") || target.starts_with("coracle_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_counted_without_a_reader() {
        let without_collector = Exporters::default();
        let config = config::Telemetry {
            metrics: Some("http://127.0.0.1:9/v1/metrics".to_owned()),
            ..config::Telemetry::default()
        };
        let moment = Duration::from_millis(1);
        let collector = Exporters::of_spans(&config, moment).and_metrics(&config, moment);

        assert!(!counts(Life::Service, &without_collector) && counts(Life::Service, &collector));
        assert!(counts(Life::Daemon, &without_collector) && counts(Life::Daemon, &collector));
        assert!(!counts(Life::Call, &collector) && !counts(Life::Silent, &collector));
    }
}
