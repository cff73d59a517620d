//! The optional part of a backend that keeps the files of a sandbox without its guest, and starts a new guest with them.

use crate::backend::{Created, Order};
use crate::error::Result;
use crate::ids::SandboxId;
use crate::spec::Spec;

/// Puts sandboxes to sleep where they are, and wakes them.
pub trait Hibernation: Send + Sync {
    /// Refuses a spec whose files it could not keep, with `unsupported`. Makes nothing.
    fn expect_keeping(&self, spec: &Spec) -> Result<()>;

    /// Tells whether the files of a sandbox without a guest are all there. Fails where it cannot look, which proves nothing.
    fn has_files(&self, sandbox: &SandboxId) -> Result<bool>;

    /// Ends every process of a sandbox, frees what only processes need, and writes its files to the disk, so that they
    /// survive a power cut. Returns how many bytes they take, if it knows.
    ///
    /// The files of a container are the container engine's to write: they survive the end of every process and of the container
    /// engine, and a power cut as far as the engine's filesystem has them by then.
    ///
    /// Doing it again does no more. `not_found` where the files are not all there: nothing was changed then.
    fn rest(&self, sandbox: &SandboxId) -> Result<Option<u64>>;

    /// Starts a new guest with the files of a sandbox at rest. The order names the same sandbox and spec as the one it was
    /// made by, and a new secret.
    ///
    /// On error the sandbox is at rest again, as far as that could be done; [`Hibernation::rest`] finishes what could not.
    fn wake(&self, order: &Order<'_>) -> Result<Created>;
}
