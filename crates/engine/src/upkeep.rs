//! What keeps a home in order: sweeps, purges, room on the disk, and what is counted for that.

pub mod glance;
mod headroom;
pub(crate) mod holdings;
pub mod inventory;
pub mod janitor;
pub(crate) mod observed;
pub mod purge;
