//! Unpacking one layer of an image, from bytes of a stranger.
//!
//! This library is the part that only decides: what each entry of the archive means, and what is refused. The program
//! beside it does what was decided, in a cage whose root directory is the layer. The archive is read by a parser of our
//! own, because the usual ones part PAX records at line ends and so read some archives differently than `tar` does.

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
