//! For tests: generated images, honest and hostile, and a real registry to get them from.

pub mod image;
pub mod layer;
pub mod parse;
pub mod registry;

pub use image::{Blob, Image};
pub use layer::{Compression, Layer};
pub use registry::Registry;

/// Returns this machine's architecture, as manifests name it.
pub fn architecture() -> String {
    crate::platform::Platform::here().architecture
}
