//! Operations on images: one file per verb, each with its `Input`, its `Output` and `call`.

pub mod build;
pub mod list;
pub mod load;
pub mod prepull;
pub mod pull;
pub mod remove;

use coracle_core::image::{HOST, Reference};
use coracle_core::{Error, Result};

/// Reads the name of an image that can be brought and removed, or says what is wrong with `field`.
fn reference(field: &str, text: &str) -> Result<Reference> {
    if text == HOST {
        return Err(Error::invalid(field, "is `host`, the machine's own programs: always there, never kept"));
    }
    text.parse().map_err(|error: Error| error.detail("field", field))
}
