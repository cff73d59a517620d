//! Control groups, whichever way the machine has them: v1, v2, or v1 controllers with a v2 tree beside them.
//!
//! Membership and killing always go through a v2 tree: it is the only one a process can be born into and that can kill
//! all of its members at once. Where the machine has none mounted, we mount one for ourselves. Each limit goes to
//! whichever tree has its controller.
//!
//! A sandbox's group holds two: `guest`, and `commands` with a leaf for each exec.

mod group;
mod layout;
mod usage;

pub use group::{Group, Population, Values};
pub use layout::{Controller, Layout};
pub use usage::Counted;
