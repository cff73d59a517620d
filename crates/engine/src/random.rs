//! Randomness for ids and secrets, from the kernel.

use coracle_core::{Error, Result};

/// Returns `N` random bytes.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Error::internal("could not get random bytes", error))?;
    Ok(bytes)
}
