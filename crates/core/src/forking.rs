//! The optional part of a backend that forks and snapshots sandboxes: what it is told, and what it gives back.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{Created, Order, Placement};
use crate::error::Result;
use crate::ids::{ImageId, SandboxId, TenantId};
use crate::image::{self, Stored};
use crate::lease::Epoch;
use crate::spec::Spec;

/// A sandbox that is held as it is while its files are taken.
#[derive(Debug)]
pub struct HeldSandbox<'a> {
    pub sandbox: &'a SandboxId,
    pub placement: &'a Placement,
    pub spec: &'a Spec,
    /// Whose it is; what is kept of it is theirs.
    pub tenant: Option<&'a TenantId>,
    /// What its image says of itself.
    pub image: &'a image::Config,
    /// What holds it.
    pub grip: &'a dyn Grip,
    /// No command has a process in it, and no file is half written.
    pub idle: bool,
}

/// What holds a sandbox. Its guest ends the hold by itself if the caller is stopped.
pub trait Grip: fmt::Debug + Sync {
    /// Makes sure that the sandbox has been held without a break until now. Whoever takes files does so once it has all of
    /// them and before they show anywhere: an error says that they are worth nothing.
    fn confirm(&self) -> Result<()>;

    /// Calls `deed` with the connection that holds the sandbox. Nobody else speaks on it meanwhile, and nobody renews
    /// the hold.
    fn lend(&self, deed: &mut dyn FnMut(&Lent<'_>));
}

/// The connection that holds a sandbox.
#[derive(Debug)]
pub struct Lent<'a> {
    /// While any copy of it is open and the hold is renewed, nothing in the sandbox changes.
    pub stream: BorrowedFd<'a>,
    /// How it is renewed; absent where the guest holds for as long as the connection is open.
    pub renewal: Option<Renewal>,
}

/// What a hold is renewed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    pub epoch: Epoch,
    pub lease: Duration,
}

/// How files were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// They became a layer that all who start from it share. Takes no longer for many files than for few.
    Layered,
    /// They were copied. Takes as long as there is data.
    Copied,
}

/// Takes the files of sandboxes. A backend that can do so hands it out, see
/// [`Backend::forking`](crate::Backend::forking).
pub trait Forking: Send + Sync {
    /// Takes the files of a sandbox, to make others from. Afterwards it can be let go and goes on as it was: the same
    /// guest, the same files.
    ///
    /// `unsupported` where it cannot be done, `limit_exceeded` where it was done too often. On error the sandbox is as
    /// it was. What was taken and never used goes with the result, or with the process that has it.
    fn fork_source<'a>(&'a self, held: &HeldSandbox<'_>) -> Result<Box<dyn ForkSource + 'a>>;

    /// Keeps the files of a sandbox as an image others are made from, under this name. It survives the sandbox and power
    /// loss, and is listed and removed with the other [`Images`](image::Images). `unsupported` where that cannot be
    /// done; on error nothing is kept.
    fn snapshot(&self, held: &HeldSandbox<'_>, image: &ImageId) -> Result<Stored>;
}

/// Files of a sandbox as they were at one moment, to make forks from.
///
/// Whoever has it also has the right to work on the sandbox it was taken from; it is of no use after that.
pub trait ForkSource: Send + Sync {
    /// Returns how the files were taken.
    fn method(&self) -> Method;

    /// Starts a sandbox that has these files, under the contract of [`Backend::create`](crate::Backend::create). Its
    /// spec is that of the sandbox they are from. What either writes from then on, the other does not see.
    fn create(&self, order: &Order<'_>) -> Result<Created>;
}
