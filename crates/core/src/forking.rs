//! The optional part of a backend that forks and snapshots sandboxes: its input and its results.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{Created, Order, Placement};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::ids::{ImageId, SandboxId, TenantId};
use crate::image::{self, Stored};
use crate::lease::Epoch;
use crate::spec::Spec;

/// A sandbox that a caller holds still while a backend takes its files.
#[derive(Debug)]
pub struct HeldSandbox<'a> {
    pub sandbox: &'a SandboxId,
    pub placement: &'a Placement,
    pub spec: &'a Spec,
    /// The tenant that owns it, and every copy of its files.
    pub tenant: Option<&'a TenantId>,
    /// What its image declares about itself.
    pub image: &'a image::Config,
    /// What holds it.
    pub grip: &'a dyn Grip,
    /// No command has a process in it, and no file is half written.
    pub idle: bool,
    /// A backend heeds it while it copies, and fails with its reason.
    pub cancel: &'a Cancel,
}

/// Keeps a sandbox from changing. The guest ends the hold by itself if the caller stops.
pub trait Grip: fmt::Debug + Sync {
    /// Makes sure that the hold has lasted without a break until now. A backend calls this after it took all files
    /// and before they become visible: on an error they may be inconsistent and must be thrown away.
    fn confirm(&self) -> Result<()>;

    /// Calls `deed` with the connection that holds the sandbox. Until it returns, no other thread writes to the
    /// connection, and none renews the hold.
    fn lend(&self, deed: &mut dyn FnMut(&Lent<'_>));
}

/// The connection that holds a sandbox.
#[derive(Debug)]
pub struct Lent<'a> {
    /// While any copy of this descriptor is open and the hold is renewed, nothing in the sandbox changes.
    pub stream: BorrowedFd<'a>,
    /// How to renew the hold; absent where the guest holds for as long as the connection is open.
    pub renewal: Option<Renewal>,
}

/// What the renewer sends to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    pub epoch: Epoch,
    pub lease: Duration,
}

/// How the backend took the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// As a layer that all forks share. The time does not depend on the number of files.
    Layered,
    /// As a copy. The time grows with the amount of data.
    Copied,
}

/// Takes the files of sandboxes. A backend that can do so returns it from
/// [`Backend::forking`](crate::Backend::forking).
pub trait Forking: Send + Sync {
    /// Takes the files of a sandbox, to make others from. Afterwards the caller can end the hold, and the sandbox
    /// goes on as before: the same guest, the same files.
    ///
    /// `unsupported` where it cannot be done, `limit_exceeded` where it was done too often. On error the sandbox is
    /// as it was. Files that were taken and never used are removed with the result, or with the process that has it.
    fn fork_source<'a>(&'a self, held: &HeldSandbox<'_>) -> Result<Box<dyn ForkSource + 'a>>;

    /// Keeps the files of a sandbox as an image others are made from, under this name. It survives the sandbox and power
    /// loss, and is listed and removed with the other [`Images`](image::Images). `unsupported` where that cannot be
    /// done; on error nothing is kept.
    fn snapshot(&self, held: &HeldSandbox<'_>, image: &ImageId) -> Result<Stored>;
}

/// Files of a sandbox as they were at one moment, to make forks from.
///
/// Its owner also has the right to work on the sandbox the files come from; without that right it is useless.
pub trait ForkSource: Send + Sync {
    /// Returns how the files were taken.
    fn method(&self) -> Method;

    /// Starts a sandbox with these files, under the contract of [`Backend::create`](crate::Backend::create). It has
    /// the spec of its source. What either sandbox writes from then on, the other does not see.
    fn create(&self, order: &Order<'_>) -> Result<Created>;
}
