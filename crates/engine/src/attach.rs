//! One connection kept for many operations, for callers that use a sandbox a lot.
//!
//! Every operation is admitted anew, so losing the sandbox to another run is noticed at once; only connecting is saved.

use coracle_core::{Result, SandboxId};

use crate::exec::{Captured, ExecRequest, Started};
use crate::gate::Inside;
use crate::{Caller, Engine, files};

/// A caller's standing connection to one sandbox.
#[derive(Debug)]
pub struct Attached {
    engine: Engine,
    caller: Caller,
    id: SandboxId,
    inside: Inside,
}

impl Engine {
    /// Connects to a sandbox for more than one operation.
    pub fn attach(&self, caller: &Caller, id: &SandboxId) -> Result<Attached> {
        let inside = self.enter(caller, id)?;
        Ok(Attached { engine: self.clone(), caller: caller.clone(), id: id.clone(), inside })
    }
}

impl Attached {
    /// Returns the sandbox it is attached to.
    pub fn sandbox(&self) -> &SandboxId {
        &self.id
    }

    /// Runs a command to its end.
    pub fn exec(&mut self, request: &ExecRequest) -> Result<Captured> {
        self.renew()?;
        self.engine.exec_in(&mut self.inside, request)
    }

    /// Starts a command and returns at once.
    pub fn exec_start(&mut self, request: &ExecRequest) -> Result<Started> {
        self.renew()?;
        self.engine.start_in(&mut self.inside, request)
    }

    /// Writes a file whole from a source of bytes; returns its absolute path.
    pub fn write_file(&mut self, file: &files::NewFile, source: &mut dyn std::io::Read) -> Result<Vec<u8>> {
        self.renew()?;
        files::write(&mut self.inside, file, source)
    }

    /// Copies a file's bytes into a sink; returns how many.
    pub fn read_file(&mut self, path: &[u8], sink: &mut dyn std::io::Write) -> Result<u64> {
        self.renew()?;
        files::copy_out(&mut self.inside, path, sink)
    }

    /// Lists a directory.
    pub fn list(&mut self, path: &[u8], depth: files::Depth) -> Result<files::Entries> {
        self.renew()?;
        files::list(&mut self.inside, path, depth)
    }

    /// Returns one entry; a symlink is not followed.
    pub fn stat(&mut self, path: &[u8]) -> Result<files::FileEntry> {
        self.renew()?;
        Ok(self.inside.guest.stat(path)?.into())
    }

    /// Removes a file, or with `Depth::Tree` a directory and what is in it.
    pub fn delete(&mut self, path: &[u8], depth: files::Depth) -> Result<()> {
        self.renew()?;
        Ok(self.inside.guest.delete(path, depth == files::Depth::Tree)?)
    }

    /// Asks the store again, and connects again where the connection is spent.
    fn renew(&mut self) -> Result<()> {
        let (record, epoch) = self.engine.admit(&self.caller, &self.id)?;
        let same = record.placement == self.inside.record.placement && record.boot == self.inside.record.boot;
        match same && self.inside.guest.is_usable() {
            true => self.inside.guest.act_under(epoch),
            false => self.inside.guest = self.engine.reach(&record, epoch)?,
        }
        self.inside.record = record;
        Ok(())
    }
}
