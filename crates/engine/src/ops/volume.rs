//! Operations on volumes: one file per verb, each with its `Input`, its `Output` and `call`.
//!
//! There is none to make one: a volume is made when a sandbox first mounts it.

pub mod list;
pub mod remove;
