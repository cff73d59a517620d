//! What is said to porter, and the program itself.
//!
//! Porter knows git's data: objects, packs, trees, indexes. It runs in two places. In a sandbox, as the command's user, it
//! fetches a repository over the connection to the host and checks it out. On the host it answers questions about the
//! objects of one repository, in a cage without anything else. It opens no configuration and runs no program.

pub mod frame;
pub mod message;
#[cfg(feature = "embedded")]
mod program;

pub use frame::{Frame, read, write};
pub use message::{
    Answer, CheckedOut, Checkout, Conflict, ConflictKind, Failed, FileChange, FileStatus, LogEntry, Merge,
    Merged, NewCommit, Order, Question, Why,
};
#[cfg(feature = "embedded")]
pub use program::program;
