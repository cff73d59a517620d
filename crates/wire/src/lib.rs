//! Messages between host and guest: framing, limits and versions. No I/O happens here.
//!
//! Every message is one frame: a little-endian `u32` length, then that many bytes of CBOR. Fields are numbered.
//! Readers accept absent optional fields and skip unknown ones, so either side may be older than the other. A
//! number is never reused for something else.

mod boot;
pub mod bytes;
mod end;
mod frame;
mod handshake;
mod message;
mod value;
mod wall;

pub use boot::{
    Boot, Egress, GuestReport, ListenAddress, MemoryStorage, MountPoint, ProcessLimit, Renewal, Report,
    Restack, Source,
};
pub use end::End;
pub use frame::{Decoder, FRAME_MAX, FrameError, HEADER_LEN, decode, encode};
pub use handshake::{Answer, Hello, Refusal, VERSION_MAX, VERSION_MIN, Welcome, negotiate};
pub use message::{Body, Fault, FaultCode, Reply, Request, Stage};
pub use value::{
    Acting, Chunk, Command, Ending, Entry, EntryKind, ExecState, ExecSummary, LimitHit, PastExec, Placing,
    Running, Status, Stream, Terminal, Time, Truncation,
};
pub use wall::Wall;
