//! One thing that is measured again and again, side by side with the others.

use std::time::{Duration, Instant};

use anyhow::Result;

/// What precedes each measured operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// The same operation, right before.
    Hot,
    /// 10 to 30 ms of nothing: nearer to real agents.
    Gap,
    /// Whatever the case itself arranges, such as a second of idleness, or nothing where it takes so long that it does
    /// not matter. Measured in fewer rounds.
    Own,
}

impl Pace {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Gap => "gap",
            Self::Own => "own",
        }
    }
}

/// Something that can be done again and again.
pub trait Case {
    /// Returns the name goals refer to it by.
    fn name(&self) -> &'static str;

    /// Returns the paces it is measured at.
    fn paces(&self) -> &'static [Pace] {
        &[Pace::Hot, Pace::Gap]
    }

    /// Does it once and returns how long the part took that counts.
    fn once(&mut self) -> Result<Duration>;
}

/// Returns how long `work` took.
pub fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}
