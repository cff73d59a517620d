//! The door for MCP clients: every tool is an operation, and everything this crate knows about one comes from the
//! catalogue.
//!
//! `stdio` is for a client that starts this program, `http` for clients of the daemon. Both speak every revision of
//! the protocol; neither keeps state of its own, so that a client loses nothing when the process ends.

mod answer;
mod call;
pub mod calls;
pub mod http;
pub mod identity;
mod ids;
pub mod install;
mod opened_sandboxes;
mod progress;
mod resources;
mod server;
pub mod stdio;
mod tool;
mod toolbox;

pub use self::calls::Calls;
pub use self::opened_sandboxes::Opened;
pub use self::server::Server;
pub use self::toolbox::{Mode, Set, Toolbox};
