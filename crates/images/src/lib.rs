//! Images: where a sandbox's files come from. Either the machine's own programs, or registries and archives.

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
