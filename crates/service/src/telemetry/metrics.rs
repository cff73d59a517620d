//! The counted values: latencies by backend and outcome, operations, bytes, refusals, repairs.
//!
//! Labels are words of our own, never an id or a name that a caller chose, so that their number is bounded and they
//! identify no person.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use coracle::Engine;
use coracle_core::headroom::Level;
use coracle_engine::Counted;
use coracle_engine::inventory::Inventory;

use super::instruments::Instruments;
use super::layer::Facts;

/// Upper bounds, in seconds: from a file in a warm sandbox to an image over a slow line.
pub const BOUNDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];
/// Series of one family. Our words make fewer; further ones are counted as `other`.
const SERIES_MAX: usize = 1000;
/// Execs that were counted already: several readers may watch one, and each sees its end.
const RECENT_MAX: usize = 4096;
/// Sandboxes whose refusals were counted already. More than any machine holds.
const SANDBOXES_MAX: usize = 100_000;

/// Two words that identify a series of a family.
pub type Labels = [String; 2];

/// Latencies of one series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    pub buckets: [u64; BOUNDS.len()],
    pub count: u64,
    pub sum: f64,
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        let fitting = BOUNDS.iter().zip(&mut self.buckets).filter(|(bound, _)| seconds <= **bound);
        fitting.for_each(|(_, bucket)| *bucket += 1);
        self.count += 1;
        self.sum += seconds;
    }
}

/// Everything counted so far.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// By operation and outcome.
    pub operations: BTreeMap<Labels, Histogram>,
    /// By backend and outcome.
    pub creations: BTreeMap<Labels, Histogram>,
    pub execs: BTreeMap<Labels, Histogram>,
    pub removals: BTreeMap<Labels, Histogram>,
    /// By action and outcome.
    pub repairs: BTreeMap<Labels, u64>,
    pub limits: BTreeMap<String, u64>,
    pub output_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub denied: u64,
}

/// What was counted already, so that nothing is counted twice.
#[derive(Debug, Default)]
struct Memory {
    recent: VecDeque<String>,
    known: BTreeSet<String>,
    denied: BTreeMap<String, u64>,
}

/// The counts, and the engine that knows the current inventory.
#[derive(Debug, Default)]
pub struct Metrics {
    counts: Mutex<Counts>,
    memory: Mutex<Memory>,
    engine: OnceLock<Engine>,
    instruments: OnceLock<Instruments>,
}

impl Metrics {
    /// Reads the current inventory from this engine.
    pub fn watch(&self, engine: &Engine) {
        // A second call names the same home.
        let _ = self.engine.set(engine.clone());
    }

    /// Sends everything counted from now on.
    pub fn send_by(&self, instruments: Instruments) {
        let _ = self.instruments.set(instruments);
    }

    /// Counts an ended span.
    pub fn count(&self, span: Counted, facts: &Facts, time: Duration) {
        let by_backend = || [kind_of(&facts.backend).to_owned(), word(&facts.outcome)];
        match span {
            Counted::Operation => {
                let labels = [facts.operation.clone(), word(&facts.outcome)];
                self.send(|instruments| instruments.operation(&labels, time));
                add(&mut self.lock().operations, labels, time);
            }
            Counted::Create => {
                self.send(|instruments| instruments.creation(&by_backend(), time));
                add(&mut self.lock().creations, by_backend(), time);
            }
            Counted::Destroy => {
                self.see_denials(&facts.sandbox, facts.denied);
                self.memory().denied.remove(&facts.sandbox);
                self.send(|instruments| instruments.removal(&by_backend(), time));
                add(&mut self.lock().removals, by_backend(), time);
            }
            Counted::Exec | Counted::Follow => self.count_exec(facts),
            Counted::FileRead => self.lock().read_bytes += facts.file_bytes,
            Counted::FileWrite => self.lock().written_bytes += facts.file_bytes,
            Counted::Reconcile => {
                *self.lock().repairs.entry([facts.action.clone(), word(&facts.outcome)]).or_default() += 1;
            }
        }
    }

    fn count_exec(&self, facts: &Facts) {
        self.lock().output_bytes += facts.output_bytes;
        // Without an outcome this reader saw no end; another may.
        if facts.exec_outcome.is_empty()
            || !self.memory().is_new(&format!("{} {}", facts.sandbox, facts.exec))
        {
            return;
        }
        let labels = [kind_of(&facts.backend).to_owned(), facts.exec_outcome.clone()];
        let time = Duration::from_millis(facts.exec_ms);
        self.send(|instruments| instruments.exec(&labels, time));
        let mut counts = self.lock();
        add(&mut counts.execs, labels, time);
        for limit in facts.limits.split(',').filter(|limit| !limit.is_empty()) {
            *counts.limits.entry(limit.to_owned()).or_default() += 1;
        }
    }

    /// Returns everything counted so far.
    pub fn counted(&self) -> Counts {
        self.lock().clone()
    }

    /// Returns the current inventory, if there is an engine; also counts refusals logged meanwhile.
    pub fn inventory(&self) -> Option<Inventory> {
        let inventory = self.engine.get()?.upkeep().inventory().ok()?;
        inventory.denied.iter().for_each(|(sandbox, count)| self.see_denials(sandbox.as_str(), *count));
        Some(inventory)
    }

    /// Returns how full the disk of the home is, if there is an engine.
    pub fn level(&self) -> Option<Level> {
        self.engine.get()?.headroom().level()
    }

    /// Counts the new refusals of a sandbox; they are numbered.
    fn see_denials(&self, sandbox: &str, count: u64) {
        let mut memory = self.memory();
        if memory.denied.len() >= SANDBOXES_MAX {
            memory.denied.clear();
        }
        let seen = memory.denied.entry(sandbox.to_owned()).or_default();
        let more = count.saturating_sub(*seen);
        *seen = count.max(*seen);
        drop(memory);
        self.lock().denied += more;
    }

    fn send(&self, tell: impl FnOnce(&Instruments)) {
        if let Some(instruments) = self.instruments.get() {
            tell(instruments);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn is_new(&mut self, exec: &str) -> bool {
        if !self.known.insert(exec.to_owned()) {
            return false;
        }
        self.recent.push_back(exec.to_owned());
        if self.recent.len() > RECENT_MAX
            && let Some(oldest) = self.recent.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

fn add(family: &mut BTreeMap<Labels, Histogram>, labels: Labels, time: Duration) {
    let full = family.len() >= SERIES_MAX && !family.contains_key(&labels);
    let labels = if full { ["other".to_owned(), "other".to_owned()] } else { labels };
    family.entry(labels).or_default().add(time.as_secs_f64());
}

/// A span that ended without an outcome was dropped on the way.
fn word(outcome: &str) -> String {
    if outcome.is_empty() { "abandoned".to_owned() } else { outcome.to_owned() }
}

/// Returns only the scheme of a backend that is named by its address.
fn kind_of(backend: &str) -> &str {
    let kind = backend.split("://").next().unwrap_or_default();
    if kind.is_empty() { "none" } else { kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(first: &str, second: &str) -> Labels {
        [first.to_owned(), second.to_owned()]
    }

    #[test]
    fn a_latency_is_in_every_bucket_it_fits_into() {
        let mut histogram = Histogram::default();

        histogram.add(0.02);
        histogram.add(1000.0);

        assert_eq!(histogram.buckets, [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!((histogram.count, histogram.sum), (2, 1000.02));
    }

    #[test]
    fn a_command_several_have_watched_is_counted_once() {
        let metrics = Metrics::default();
        let facts = Facts {
            exec: "exec_1".to_owned(),
            exec_outcome: "exited".to_owned(),
            backend: "native".to_owned(),
            limits: "memory,output".to_owned(),
            output_bytes: 5,
            ..Facts::default()
        };

        for name in [Counted::Exec, Counted::Follow, Counted::Follow] {
            metrics.count(name, &facts, Duration::ZERO);
        }

        let counts = metrics.counted();
        assert_eq!(counts.execs[&labels("native", "exited")].count, 1);
        assert_eq!(counts.limits, BTreeMap::from([("memory".to_owned(), 1), ("output".to_owned(), 1)]));
        assert_eq!(counts.output_bytes, 15, "each was handed the output");
    }

    #[test]
    fn refusals_are_counted_once_however_often_they_are_looked_at() {
        let metrics = Metrics::default();

        for count in [2, 2, 5] {
            metrics.see_denials("sbx_1", count);
        }
        let facts = Facts { sandbox: "sbx_1".to_owned(), denied: 6, ..Facts::default() };
        metrics.count(Counted::Destroy, &facts, Duration::ZERO);

        assert_eq!(metrics.counted().denied, 6);
        assert!(metrics.memory().denied.is_empty(), "what is gone is forgotten");
    }

    #[test]
    fn a_backend_at_an_address_is_counted_by_its_kind() {
        let metrics = Metrics::default();
        let facts = Facts {
            backend: "ssh://me@secret.host".to_owned(),
            outcome: "ok".to_owned(),
            ..Facts::default()
        };

        metrics.count(Counted::Create, &facts, Duration::from_millis(1));

        assert_eq!(metrics.counted().creations.into_keys().collect::<Vec<_>>(), [labels("ssh", "ok")]);
    }

    #[test]
    fn families_and_memories_are_bounded() {
        let metrics = Metrics::default();

        for number in 0..RECENT_MAX + 10 {
            let exec = number.to_string();
            metrics.count(
                Counted::Operation,
                &Facts { operation: exec.clone(), ..Facts::default() },
                Duration::ZERO,
            );
            assert!(metrics.memory().is_new(&exec));
        }

        assert!(metrics.counted().operations.len() <= SERIES_MAX + 1);
        let memory = metrics.memory();
        assert_eq!((memory.recent.len(), memory.known.len()), (RECENT_MAX, RECENT_MAX));
    }
}
