//! Control groups, in every layout a machine may have: v1, v2, or v1 controllers with a v2 tree beside them.
//!
//! Membership and killing always go through a v2 tree: only there can a process be born into a group, and only
//! there can the kernel kill all members at once. Where the machine has none mounted, we mount our own. Each limit
//! goes to the tree that has its controller.
//!
//! A sandbox's group holds two: `guest`, and `commands` with a leaf for each exec.

mod group;
mod layout;
mod usage;

pub use group::{Group, Population, Values};
pub use layout::{Controller, Layout};
pub use usage::Counted;
