//! What was measured: durations by case and pace, and amounts that are no durations.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::case::Pace;
use crate::statistics::Samples;

/// A case at a pace.
pub type Paced = (&'static str, Pace);

/// What an amount counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    KibibytesEach,
    PerSecond,
    Milliseconds,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Self::KibibytesEach => "KiB each",
            Self::PerSecond => "per second",
            Self::Milliseconds => "ms",
        }
    }
}

/// A number that was read once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    pub value: f64,
    pub unit: Unit,
}

/// Everything a run of the benchmark found out.
#[derive(Debug, Default)]
pub struct Measured {
    samples: BTreeMap<Paced, Samples>,
    amounts: BTreeMap<&'static str, Amount>,
}

impl Measured {
    /// Adds one more duration of a case.
    pub fn add(&mut self, case: Paced, sample: Duration) {
        self.samples.entry(case).or_default().add(sample);
    }

    /// Notes an amount; the last one of a name counts.
    pub fn note(&mut self, name: &'static str, value: f64, unit: Unit) {
        self.amounts.insert(name, Amount { value, unit });
    }

    /// Returns the median of a case in milliseconds.
    pub fn median(&self, case: Paced) -> Option<f64> {
        self.samples.get(&case).map(Samples::median)
    }

    pub fn amount(&self, name: &str) -> Option<Amount> {
        self.amounts.get(name).copied()
    }

    pub fn samples(&self) -> impl Iterator<Item = (&Paced, &Samples)> {
        self.samples.iter()
    }

    pub fn amounts(&self) -> impl Iterator<Item = (&'static str, Amount)> {
        self.amounts.iter().map(|(name, amount)| (*name, *amount))
    }
}
