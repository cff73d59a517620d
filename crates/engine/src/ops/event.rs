//! Operations on events.

pub mod list;
