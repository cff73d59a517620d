//! Where sandboxes are made: which backends there are, what each can do, and which is taken.

pub(crate) mod backends;
pub mod probes;
pub mod roster;
