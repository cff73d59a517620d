//! The execs of this sandbox: starts them, keeps their output, ends them, and remembers how they ended.

mod brought;
mod cgroup;
mod counters;
mod exec;
mod family;
mod freezer;
mod input;
mod kept;
mod past;
mod pipes;
mod spool;
mod start;
mod stopping;
mod subreaper;
mod table;

pub use brought::{Brought, id as brought_id};
pub use cgroup::Leaf;
pub use counters::Counters;
pub use exec::Attendant;
pub use family::Mark;
pub use past::Past;
pub use start::{ExecContext, Surroundings, Watched};
pub use subreaper::signal_below;
pub use table::{Bounds, Execs, Patience};
