//! The script. Each part has sandboxes of its own, so that parts may be played side by side.

mod beginnings;
mod environment;
mod execs;
mod files;
mod limits;
mod output;
mod ownership;
mod refusals;
mod running;
mod trees;

use super::stage::Stage;

/// A part of the script.
pub type Part = fn(&mut Stage);

/// All parts, by name.
pub const PARTS: &[(&str, Part)] = &[
    ("beginnings", beginnings::play),
    ("environment", environment::play),
    ("execs", execs::play),
    ("files", files::play),
    ("limits", limits::play),
    ("output", output::play),
    ("ownership", ownership::play),
    ("refusals", refusals::play),
    ("running", running::play),
    ("trees", trees::play),
];
