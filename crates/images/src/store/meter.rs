//! Reports the progress of a layer, no more often than a person can follow.

use std::time::{Duration, Instant};

use coracle_core::image::{Phase, Progress, Step};

use crate::digest::Digest;

const INTERVAL: Duration = Duration::from_millis(50);

/// The progress of one layer.
pub struct Meter<'a> {
    progress: &'a dyn Progress,
    digest: String,
    told: Option<(Phase, Instant)>,
}

impl<'a> Meter<'a> {
    pub fn new(progress: &'a dyn Progress, digest: &Digest) -> Self {
        Self { progress, digest: digest.to_string(), told: None }
    }

    /// Reports if the phase changes, at the end of one, or after some time.
    pub fn tell(&mut self, phase: Phase, done: u64, total: u64) {
        let now = Instant::now();
        let recent =
            self.told.is_some_and(|(told, when)| told == phase && now.duration_since(when) < INTERVAL);
        if recent && done != total {
            return;
        }
        self.told = Some((phase, now));
        self.progress.report(&Step::Layer { digest: self.digest.clone(), phase, done, total });
    }
}
