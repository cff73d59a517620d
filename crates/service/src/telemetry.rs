//! Telling others of what is done here: spans and metrics by OTLP, and metrics for whoever scrapes them.
//!
//! Nothing here may make a call fail, nor wait for more than a moment: who listens is less important than what is done.
//! Only spans of our own are looked at. Libraries tell of what they carry, and what they carry may be a secret.

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

/// How our own crates begin.
const OURS: &str = "coracle";
/// How long a call may be held up at its end by a collector that does not answer.
const FLUSH_OF_CALL: Duration = Duration::from_millis(500);
/// How long a service may be.
const FLUSH_OF_SERVICE: Duration = Duration::from_secs(3);

/// What this process has counted, if it counts.
static METRICS: OnceLock<Arc<Metrics>> = OnceLock::new();

/// How long a process lives, which decides what it can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// One call: its spans. Metrics of a process that ends at once mean nothing.
    Call,
    /// A process that stays: its spans, and it counts if a collector is sent that.
    Service,
    /// One that stays and can be asked what it counted.
    Daemon,
    /// One that says nothing.
    Silent,
}

/// Tells while it lives; what is left to tell goes out when it ends.
#[derive(Debug)]
pub struct Telemetry {
    exporters: Exporters,
    patience: Duration,
}

impl Telemetry {
    /// Begins to tell, as far as the settings want it. Where they want nothing, nothing is installed.
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

    /// Does what one call of the binary is for, in a span of its own.
    pub fn call<T>(&self, verb: &'static str, deed: impl FnOnce() -> T) -> T {
        doors::command(verb).in_scope(deed)
    }

    /// Sends what is left, for a moment.
    pub fn end(self) {
        self.exporters.end(self.patience);
    }
}

/// Returns what this process has counted; nothing if it does not count.
pub fn metrics() -> Option<&'static Arc<Metrics>> {
    METRICS.get()
}

/// Has work that another thread does belong to the span one is in now.
pub fn carried<T>(deed: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let span = Span::current();
    move || span.in_scope(deed)
}

/// Does something nobody asked for, as looking how far a command is: it belongs to no trace, and is not counted.
pub fn untold<T>(deed: impl FnOnce() -> T) -> T {
    dispatcher::with_default(&Dispatch::none(), deed)
}

/// Tells whether somebody can read what a process has counted.
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
    // Fails where there is one already, and then that one is told.
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
    fn nothing_is_counted_that_nobody_can_read() {
        let nobody = Exporters::default();
        let config = config::Telemetry {
            metrics: Some("http://127.0.0.1:9/v1/metrics".to_owned()),
            ..config::Telemetry::default()
        };
        let moment = Duration::from_millis(1);
        let collector = Exporters::of_spans(&config, moment).and_metrics(&config, moment);

        assert!(!counts(Life::Service, &nobody) && counts(Life::Service, &collector));
        assert!(counts(Life::Daemon, &nobody) && counts(Life::Daemon, &collector));
        assert!(!counts(Life::Call, &collector) && !counts(Life::Silent, &collector));
    }
}
