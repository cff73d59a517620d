//! The life of a sandbox: how it is made, paused, forked, held and ended.

pub(crate) mod expiry;
mod forget;
pub(crate) mod fork;
pub(crate) mod hold;
pub(crate) mod one_command;
mod pause;
mod provision;
pub(crate) mod sessions;
pub(crate) mod spares;
pub(crate) mod teardown;
pub(crate) mod tie;
