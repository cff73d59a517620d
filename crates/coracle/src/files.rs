//! Files of a sandbox, with the rights of one of its users.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use coracle_core::Result;
use coracle_engine::{Attached, Depth, Entries, FileEntry, NewFile};

use crate::Sandbox;

/// File operations of a [`Sandbox`] that act as one of its users.
#[derive(Debug, Clone)]
pub struct Files<'a> {
    sandbox: &'a Sandbox,
    /// If absent, the user that commands run as.
    user: Option<String>,
}

impl<'a> Files<'a> {
    pub(crate) fn of(sandbox: &'a Sandbox, user: Option<String>) -> Self {
        Self { sandbox, user }
    }

    /// Writes a whole file; see [`Sandbox::write_file`]. A new file belongs to this user.
    pub fn write(&self, path: impl AsRef<OsStr>, contents: impl AsRef<[u8]>) -> Result<()> {
        let file = NewFile::at(bytes(&path));
        self.acting(|attached| attached.write_file(&file, &mut contents.as_ref()).map(drop))
    }

    /// Returns the contents of a file.
    pub fn read(&self, path: impl AsRef<OsStr>) -> Result<Vec<u8>> {
        let mut contents = Vec::new();
        self.acting(|attached| attached.read_file(bytes(&path), &mut contents))?;
        Ok(contents)
    }

    /// Lists a directory, or everything below it.
    pub fn list(&self, path: impl AsRef<OsStr>, depth: Depth) -> Result<Entries> {
        self.acting(|attached| attached.list(bytes(&path), depth))
    }

    /// Returns one entry; a symlink is not followed.
    pub fn stat(&self, path: impl AsRef<OsStr>) -> Result<FileEntry> {
        self.acting(|attached| attached.stat(bytes(&path)))
    }

    /// Removes a file, or with [`Depth::Tree`] a directory with its contents.
    pub fn delete(&self, path: impl AsRef<OsStr>, depth: Depth) -> Result<()> {
        self.acting(|attached| attached.delete(bytes(&path), depth))
    }

    fn acting<T>(&self, act: impl FnOnce(&mut Attached) -> Result<T>) -> Result<T> {
        self.sandbox.attached(|attached| {
            attached.act_as(self.user.clone());
            act(attached)
        })
    }
}

fn bytes(path: &impl AsRef<OsStr>) -> &[u8] {
    path.as_ref().as_bytes()
}
