//! The first exchange on a connection: it chooses the version and proves that the caller is the host.

use minicbor::{Decode, Encode};

/// The oldest version this build still speaks.
pub const VERSION_MIN: u16 = 1;
/// The newest version this build speaks.
pub const VERSION_MAX: u16 = 1;

/// The host's first message.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Hello {
    #[n(0)]
    pub oldest: u16,
    #[n(1)]
    pub newest: u16,
    /// The secret the sandbox was started with; only the host can know it.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub secret: Vec<u8>,
}

/// The guest's answer to a caller it accepts.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Welcome {
    /// The version both sides speak from here on.
    #[n(0)]
    pub version: u16,
    /// The highest epoch the guest has seen.
    #[n(1)]
    pub epoch: u64,
    /// A random number drawn at boot: the same guest always answers with the same one.
    #[n(2)]
    pub boot: u64,
    /// The guest knows [`Request::acting`](crate::Request) and the requests that came with it: files kept open,
    /// directories and links. Older guests do not send this field.
    #[n(28)]
    pub acting: Option<bool>,
}

/// The guest's answer to a caller it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Refusal {
    #[n(0)]
    WrongSecret,
    #[n(1)]
    NoCommonVersion,
    #[n(2)]
    TooManyConnections,
}

/// Returns the newest version that both ranges include.
pub fn negotiate(hello: &Hello, oldest: u16, newest: u16) -> Option<u16> {
    let common = hello.newest.min(newest);
    (common >= hello.oldest && common >= oldest).then_some(common)
}

/// The guest's answer to a [`Hello`].
pub type Answer = Result<Welcome, Refusal>;
