//! One connection kept for many operations, for callers that use a sandbox a lot.
//!
//! Every operation is admitted anew, so losing the sandbox to another run is noticed at once; only connecting is saved.

use coracle_core::{Result, SandboxId};

use crate::exec::{Captured, ExecRequest, Started};
use crate::gate::Inside;
use crate::inline::Inline;
use crate::ops::sandbox::{exec, fs_delete, fs_list, fs_read, fs_stat, fs_write};
use crate::{Caller, Engine, Operation, files, spans};

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
        self.told::<exec::Input, _>(|this| this.engine.exec_in(&mut this.inside, request))
    }

    /// Starts a command and returns at once.
    pub fn exec_start(&mut self, request: &ExecRequest) -> Result<Started> {
        self.told::<exec::Input, _>(|this| this.engine.start_in(&mut this.inside, request))
    }

    /// Writes a file whole from a source of bytes; returns its absolute path.
    pub fn write_file(&mut self, file: &files::NewFile, source: &mut dyn std::io::Read) -> Result<Vec<u8>> {
        self.told::<fs_write::Input, _>(|this| files::write(&mut this.inside, file, source))
    }

    /// Copies a file's bytes into a sink; returns how many.
    pub fn read_file(&mut self, path: &[u8], sink: &mut dyn std::io::Write) -> Result<u64> {
        self.told::<fs_read::Input, _>(|this| {
            files::copy_out(&mut this.inside, path, sink, &this.engine.inline)
        })
    }

    /// Lists a directory.
    pub fn list(&mut self, path: &[u8], depth: files::Depth) -> Result<files::Entries> {
        self.told::<fs_list::Input, _>(|this| files::list(&mut this.inside, path, depth, &Inline::default()))
    }

    /// Returns one entry; a symlink is not followed.
    pub fn stat(&mut self, path: &[u8]) -> Result<files::FileEntry> {
        self.told::<fs_stat::Input, _>(|this| Ok(this.inside.guest.stat(path)?.into()))
    }

    /// Removes a file, or with `Depth::Tree` a directory and what is in it.
    pub fn delete(&mut self, path: &[u8], depth: files::Depth) -> Result<()> {
        self.told::<fs_delete::Input, _>(|this| {
            Ok(this.inside.guest.delete(path, depth == files::Depth::Tree)?)
        })
    }

    /// Does what the operation `O` does, over this connection.
    fn told<O: Operation, T>(&mut self, deed: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        spans::within(spans::operation(O::NAME, &self.caller), || {
            self.renew()?;
            deed(self)
        })
    }

    /// Asks the store again, and connects again where the connection is spent.
    fn renew(&mut self) -> Result<()> {
        let (record, epoch) = self.engine.admit(&self.caller, &self.id)?;
        let same = record.placement == self.inside.record.placement && record.boot == self.inside.record.boot;
        match same && self.inside.guest.is_usable() {
            true => {
                self.inside.guest.act_under(epoch);
                self.engine.carry_out_kill(&record, &mut self.inside.guest)?;
            }
            false => self.inside.guest = self.engine.reach(&record, epoch)?,
        }
        self.inside.record = record;
        Ok(())
    }
}
