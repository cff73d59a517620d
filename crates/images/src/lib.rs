//! Images: where a sandbox's files come from. The machine's own programs, or what registries and archives have.

mod archive;
mod digest;
pub mod host;
mod manifest;
mod platform;
mod proportion;
mod registry;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod unpacker;

pub use registry::credentials;
pub use store::{CRASH_POINTS, Hold, Image, Pace, Registries, Store, StoreConfig};
