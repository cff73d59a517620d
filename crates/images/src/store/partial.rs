//! The part of a blob that has been downloaded: one puller's own file, left for the next one if the puller is
//! interrupted.
//!
//! Pullers of the same blob share nothing: a puller of a slow registry keeps no other waiting. A puller holds a
//! lock on its file while it lives. A file without a lock is a dead puller's, and the next puller continues it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;

use super::layout::{Layout, new_locked, remove_file};
use super::lock;
use crate::digest::{Digest, Running};
use crate::manifest::Descriptor;

/// The downloaded part, with its digest so far.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    file: File,
    length: u64,
    digest: Running,
    /// The locked descriptor of a file that was taken over; a new file is locked itself.
    _lock: Option<File>,
}

impl Partial {
    /// Continues the longest part that dead pullers left, and removes their other ones. Begins a new one if there
    /// is none.
    pub fn claim(layout: &Layout, blob: &Descriptor) -> io::Result<Self> {
        let mut left = Vec::new();
        for path in layout.partials_of(&blob.digest)? {
            if let Some(lock) = lock::try_existing(&path)? {
                left.push((lock.metadata()?.len(), path, lock));
            }
        }
        left.sort_by_key(|(length, ..)| *length);
        let longest = left.pop();
        for (_, path, _lock) in &left {
            remove_file(path)?;
        }
        match longest {
            None => Self::begin(layout, &blob.digest),
            Some((length, path, lock)) => {
                let file = OpenOptions::new().read(true).write(true).open(&path)?;
                let mut partial =
                    Self { path, file, length: 0, digest: Running::default(), _lock: Some(lock) };
                match length > blob.size {
                    true => partial.restart()?,
                    false => partial.count()?,
                }
                Ok(partial)
            }
        }
    }

    fn begin(layout: &Layout, blob: &Digest) -> io::Result<Self> {
        loop {
            let path = layout.new_partial(blob);
            if let Some(file) = new_locked(&path)? {
                return Ok(Self { path, file, length: 0, digest: Running::default(), _lock: None });
            }
        }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the digest of the part.
    pub fn digest(&self) -> Digest {
        self.digest.clone().finish()
    }

    pub fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.digest.add(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Begins again with nothing.
    pub fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        (self.length, self.digest) = (0, Running::default());
        Ok(())
    }

    /// Removes the part, so that no puller continues it.
    pub fn remove(self) -> io::Result<()> {
        remove_file(&self.path)
    }

    fn count(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 128 << 10];
        loop {
            let read = self.file.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            self.digest.add(&buffer[..read]);
            self.length += read as u64;
        }
    }
}

/// Removes the parts of a blob that dead pullers left.
pub fn sweep(layout: &Layout, blob: &Digest) -> io::Result<()> {
    for path in layout.partials_of(blob)? {
        if let Some(_lock) = lock::try_existing(&path)? {
            remove_file(&path)?;
        }
    }
    Ok(())
}
