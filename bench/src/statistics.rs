//! Medians and percentiles. Means are not used: one hiccup of the machine would decide them.

use std::time::Duration;

/// The durations of one case at one pace.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    pub fn add(&mut self, sample: Duration) {
        let place = self.0.partition_point(|other| *other <= sample);
        self.0.insert(place, sample);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the median in milliseconds.
    pub fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// Returns the duration that `percent` of the samples do not exceed, in milliseconds.
    pub fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1) - 1;
        self.0.get(rank).map_or(f64::NAN, |sample| sample.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_in_order() {
        let mut samples = Samples::default();
        [5, 1, 4, 2, 3].into_iter().for_each(|millis| samples.add(Duration::from_millis(millis)));

        assert_eq!((samples.median(), samples.percentile(95), samples.percentile(1)), (3.0, 5.0, 1.0));
    }

    #[test]
    fn no_samples_have_no_median() {
        assert!(Samples::default().median().is_nan());
    }
}
