//! The execs of this sandbox: starting them, keeping their output, ending them, remembering how they ended.

mod cgroup;
mod counters;
mod exec;
mod family;
mod freezer;
mod input;
mod kept;
mod pipes;
mod spool;
mod start;
mod stopping;
mod table;
mod tended;

pub use cgroup::Leaf;
pub use counters::Counters;
pub use exec::Attendant;
pub use family::Mark;
pub use start::{Setting, Surroundings, Watched};
pub use table::{Bounds, Execs, Patience};
pub use tended::signal_below;
