//! Making sandboxes from the files of another: what a backend is told, and what it gives back.

use std::os::fd::BorrowedFd;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{Created, Order, Placement};
use crate::error::Result;
use crate::ids::{SandboxId, TenantId};
use crate::image;
use crate::spec::Spec;

/// A sandbox that is held as it is while its files are taken.
#[derive(Debug)]
pub struct Held<'a> {
    pub sandbox: &'a SandboxId,
    pub placement: &'a Placement,
    pub spec: &'a Spec,
    /// Whose it is; what is kept of it is theirs.
    pub tenant: Option<&'a TenantId>,
    /// What its image says of itself.
    pub image: &'a image::Config,
    /// The connection that holds it. While any copy of it is open, nothing in the sandbox changes.
    pub stream: BorrowedFd<'a>,
    /// No command has a process in it, and no file is half written.
    pub idle: bool,
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

/// Files of a sandbox as they were at one moment.
///
/// Whoever has it also has the right to work on the sandbox it was taken from; it is of no use after that.
pub trait Branch: Send + Sync {
    /// Returns how the files were taken.
    fn method(&self) -> Method;

    /// Starts a sandbox that has these files, under the contract of [`Backend::create`](crate::Backend::create). Its
    /// spec is that of the sandbox they are from. What either writes from then on, the other does not see.
    fn create(&self, order: &Order<'_>) -> Result<Created>;
}
