//! Decides how to unpack one layer of an image, from untrusted bytes.
//!
//! This library only decides what each entry of the archive means, and what to refuse. The program beside it
//! carries that out, in a cage whose root directory is the layer. We parse archives ourselves, because the usual
//! parsers split PAX records at line ends and so read some archives differently than `tar` does.

pub mod entry;
mod extensions;
mod header;
pub mod limits;
mod name;
pub mod order;
pub mod refusal;
pub mod report;
mod walk;

pub use entry::{Attributes, Entry, Kind};
pub use limits::Limits;
pub use name::Name;
pub use order::{Order, Target};
pub use refusal::{Reason, Refusal};
pub use report::{Outcome, Report};
pub use walk::{Sink, walk};
