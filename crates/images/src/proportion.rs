//! Limits how much compressed data may unpack to: in proportion to its size, for each layer and for a whole image.

use std::sync::{Mutex, PoisonError};

use coracle_core::{Error, Kind, Result};
use coracle_unpack::Limits;

/// What even the smallest data may unpack to: a megabyte of zeros compresses to a kilobyte.
pub const STRETCH: u64 = 64 << 20;
/// Programs compress to a third, text to a tenth; a thousandth is a decompression bomb.
pub const RATIO_MAX: u64 = 50;

/// Returns what this many bytes may unpack to.
pub fn most_of(length: u64) -> u64 {
    STRETCH.saturating_add(length.saturating_mul(RATIO_MAX))
}

/// What the layers of one image may unpack to together, so that many small layers cannot get around the ratio.
#[derive(Debug)]
pub struct Allowance(Mutex<u64>);

impl Allowance {
    /// Returns the allowance of an image whose layers have these sizes, at most `limits` in all.
    pub fn of(lengths: impl IntoIterator<Item = u64>, limits: Limits) -> Self {
        let whole = lengths.into_iter().fold(0, u64::saturating_add);
        Self(Mutex::new(limits.bytes.min(STRETCH.saturating_add(most_of(whole)))))
    }

    /// Returns the limits for one layer.
    pub fn limits(&self, limits: Limits, length: u64) -> Limits {
        let left = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Limits { bytes: limits.bytes.min(most_of(length)).min(left), ..limits }
    }

    /// Counts an unpacked layer, or refuses it: other layers may have used up the rest meanwhile.
    pub fn spend(&self, bytes: u64) -> Result<()> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = left.checked_sub(bytes).ok_or_else(|| {
            Error::new(Kind::LimitExceeded, "the layers of the image unpack to more than an image may").hint(
                format!("an image may unpack to {RATIO_MAX} times its size; keep sparse files out of it"),
            )
        })?;
        *left = rest;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { entries: 10, bytes: 64 << 30 };

    #[test]
    fn a_layer_is_taken_in_proportion_and_an_image_in_all() {
        let allowance = Allowance::of([3 << 20, 1 << 20], LIMITS);

        assert_eq!(allowance.limits(LIMITS, 3 << 20).bytes, STRETCH + (150 << 20));
        assert!(allowance.spend(STRETCH + (150 << 20)).is_ok());
        assert_eq!(allowance.limits(LIMITS, 1 << 20).bytes, STRETCH + (50 << 20));
        assert!(allowance.spend(STRETCH + (50 << 20) + 1).is_err());
        assert!(allowance.spend(STRETCH + (50 << 20)).is_ok());
        assert_eq!(allowance.limits(LIMITS, 1 << 20).bytes, 0);
    }

    #[test]
    fn no_image_is_larger_than_what_we_take() {
        let allowance = Allowance::of([1 << 40, u64::MAX], LIMITS);

        assert_eq!(allowance.limits(LIMITS, 1 << 40).bytes, LIMITS.bytes);
    }
}
