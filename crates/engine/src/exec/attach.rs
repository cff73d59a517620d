//! One connection kept for many operations, for callers that use a sandbox a lot.
//!
//! Every operation is admitted anew, so losing the sandbox to another run is noticed at once; only connecting is saved.

use coracle_core::{Result, SandboxId};
use tracing::Span;

use super::Execs;
use crate::access::expiry::is_asleep;
use crate::access::gate::Inside;
use crate::catalogue::Facts;
use crate::exec::{Captured, ExecRequest, Started};
use crate::inline::Inline;
use crate::ops::sandbox::{exec, fs_delete, fs_list, fs_move, fs_read, fs_stat, fs_write};
use crate::{Call, files};

/// A caller's standing connection to one sandbox.
#[derive(Debug)]
pub struct Attached {
    execs: Execs,
    call: Call,
    id: SandboxId,
    inside: Inside,
    /// Whom file operations act as, if not as commands do.
    user: Option<String>,
}

impl Execs {
    /// Connects to a sandbox for more than one operation.
    pub fn attach(&self, call: impl Into<Call>, id: &SandboxId) -> Result<Attached> {
        let call = call.into();
        let inside = self.entry.enter(&call, id)?;
        Ok(Attached { execs: self.clone(), call, id: id.clone(), inside, user: None })
    }
}

impl Attached {
    /// Returns the sandbox it is attached to.
    pub fn sandbox(&self) -> &SandboxId {
        &self.id
    }

    /// Runs a command to its end.
    pub fn exec(&mut self, request: &ExecRequest) -> Result<Captured> {
        self.told(&exec::FACTS, |this| this.execs.run_in(&this.call, &mut this.inside, request))
    }

    /// Starts a command and returns at once.
    pub fn exec_start(&mut self, request: &ExecRequest) -> Result<Started> {
        self.told(&exec::FACTS, |this| this.execs.start_in(&this.call, &mut this.inside, request))
    }

    /// Has file operations act as this user from now on; if absent, as the one commands run as. `root` may do everything.
    pub fn act_as(&mut self, user: Option<String>) {
        self.user = user;
    }

    /// Writes a file whole from a source of bytes; returns its absolute path.
    pub fn write_file(&mut self, file: &files::NewFile, source: &mut dyn std::io::Read) -> Result<Vec<u8>> {
        self.on_files(&fs_write::FACTS, |this| files::write(&mut this.inside, file, source))
    }

    /// Copies a file's bytes into a sink; returns how many.
    pub fn read_file(&mut self, path: &[u8], sink: &mut dyn std::io::Write) -> Result<u64> {
        self.copy_file(path, files::Links::Follow, sink).map(|original| original.bytes)
    }

    /// Copies a file's bytes into a sink; returns what else is known of that very file.
    pub fn copy_file(
        &mut self,
        path: &[u8],
        links: files::Links,
        sink: &mut dyn std::io::Write,
    ) -> Result<files::Original> {
        let wanted = files::Wanted { path, links };
        self.on_files(&fs_read::FACTS, |this| {
            files::copy_out(&mut this.inside, wanted, sink, &this.execs.inline)
        })
    }

    /// Lists a directory.
    pub fn list(&mut self, path: &[u8], depth: files::Depth) -> Result<files::Entries> {
        self.on_files(&fs_list::FACTS, |this| files::list(&mut this.inside, path, depth, &Inline::default()))
    }

    /// Lists everything below a directory. What cannot be listed is an error.
    pub fn tree(&mut self, path: &[u8]) -> Result<files::Tree> {
        self.on_files(&fs_list::FACTS, |this| files::tree::list(&mut this.inside, path))
    }

    /// Returns one entry; a symlink is not followed.
    pub fn stat(&mut self, path: &[u8]) -> Result<files::FileEntry> {
        self.on_files(&fs_stat::FACTS, |this| Ok(this.inside.guest.stat(path)?.into()))
    }

    /// Makes a directory for its owner alone, unless there is one.
    pub fn make_directory(&mut self, path: &[u8], links: files::Links) -> Result<()> {
        self.on_files(&fs_write::FACTS, |this| {
            files::tree::expect_trees(&this.inside)?;
            Ok(this.inside.guest.make_directory(path, links)?)
        })
    }

    /// Makes a symlink, in the place of a file or link that is there.
    pub fn make_link(
        &mut self,
        path: &[u8],
        target: &[u8],
        mtime: files::Time,
        links: files::Links,
    ) -> Result<()> {
        self.on_files(&fs_write::FACTS, |this| Ok(this.inside.guest.make_link(path, target, mtime, links)?))
    }

    /// Gives a directory its permissions and time, once all is in it.
    pub fn finish_directory(
        &mut self,
        path: &[u8],
        mode: u32,
        mtime: files::Time,
        links: files::Links,
    ) -> Result<()> {
        self.on_files(&fs_write::FACTS, |this| {
            Ok(this.inside.guest.finish_directory(path, mode, mtime, links)?)
        })
    }

    /// Gives a file or directory another name, which nothing has yet.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.on_files(&fs_move::FACTS, |this| {
            Ok(this.inside.guest.rename(from, to, false, files::Links::Follow)?)
        })
    }

    /// Gives a file or directory another name, in the place of a file or link that is there.
    pub fn replace(&mut self, from: &[u8], to: &[u8], links: files::Links) -> Result<()> {
        self.on_files(&fs_move::FACTS, |this| Ok(this.inside.guest.rename(from, to, true, links)?))
    }

    /// Removes a file, or with `Depth::Tree` a directory and what is in it.
    pub fn delete(&mut self, path: &[u8], depth: files::Depth) -> Result<()> {
        self.on_files(&fs_delete::FACTS, |this| files::delete(&mut this.inside, path, depth))
    }

    fn on_files<T>(&mut self, facts: &'static Facts, deed: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.told(facts, |this| {
            this.inside.act_as(this.user.as_deref())?;
            deed(this)
        })
    }

    /// Does what an operation does, over this connection.
    fn told<T>(&mut self, facts: &'static Facts, deed: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        // Part of whatever the caller is at now, not of what it was at when it connected.
        self.call.parent = Span::current();
        let (access, call) = (self.execs.access.clone(), self.call.clone());
        access.performing(&call, facts, || {
            self.renew()?;
            deed(self)
        })
    }

    /// Asks the store again, and connects again where the connection is spent.
    fn renew(&mut self) -> Result<()> {
        let (record, epoch) = match self.execs.access.admit(&self.call.caller, &self.id) {
            Err(error) if is_asleep(&error) => return self.enter_again(),
            admitted => admitted?,
        };
        let before = &self.inside.record;
        let same = record.life == before.life && record.placement == before.placement;
        if !(same && record.boot == before.boot && self.inside.guest.is_usable()) {
            return self.enter_again();
        }
        self.inside.guest.act_under(epoch);
        self.execs.access.carry_out_kill(&record, &mut self.inside.guest)?;
        self.inside.record = record;
        Ok(())
    }

    fn enter_again(&mut self) -> Result<()> {
        self.inside = self.execs.entry.enter(&self.call, &self.id)?;
        Ok(())
    }
}
