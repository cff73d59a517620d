//! The door for MCP clients: every tool is an operation, and nothing is known here that the list of operations does not
//! say.
//!
//! `stdio` is for a client that starts this program, `http` for those that find the daemon. Both speak every revision of
//! the protocol there is; none keeps a state of its own, so that a client loses nothing when the process ends.

mod answer;
mod call;
pub mod calls;
pub mod http;
pub mod identity;
mod ids;
pub mod install;
mod opened;
mod progress;
mod resources;
mod server;
pub mod stdio;
mod tool;
mod toolbox;

pub use self::calls::Calls;
pub use self::opened::Opened;
pub use self::server::Server;
pub use self::toolbox::{Mode, Set, Toolbox};
