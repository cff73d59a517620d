//! Files in a sandbox.

use std::time::Duration;

use coracle_wire::{Body, Entry, Reply};

use super::execs::PIECE_LEN;
use super::{Failure, Guest};

/// A piece of a file.
#[derive(Debug)]
pub struct Piece {
    pub data: Vec<u8>,
    /// The size of the whole file, as `stat` has it: 0 for many files below `/proc`.
    pub size: u64,
}

/// How a file is to be written.
#[derive(Debug, Clone, Copy)]
pub struct Writing<'a> {
    pub path: &'a [u8],
    pub mode: u32,
    pub overwrite: bool,
}

/// A directory's entries, cut off where there are too many.
#[derive(Debug)]
pub struct Listing {
    pub entries: Vec<Entry>,
    pub truncated: bool,
}

impl Guest {
    /// Returns up to `max_bytes` from `offset` on; never more than fits one frame.
    pub fn read_piece(&mut self, path: &[u8], offset: u64, max_bytes: usize) -> Result<Piece, Failure> {
        let max_bytes = max_bytes.min(PIECE_LEN) as u32;
        match self.ask(Body::FileRead { path: path.to_vec(), offset, max_bytes }, Duration::ZERO)? {
            Reply::File { data, size } => Ok(Piece { data, size }),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Writes a file whole; until the last byte is there the old one stands. Returns its absolute path.
    ///
    /// `next` hands out pieces of at most 1 MiB until it returns an empty one.
    pub fn write_file(
        &mut self,
        writing: Writing<'_>,
        next: &mut dyn FnMut() -> std::io::Result<Vec<u8>>,
    ) -> Result<Vec<u8>, Failure> {
        let mut next = || next().map_err(Failure::Source);
        let Writing { path, mode, overwrite } = writing;
        let data = next()?;
        // Whether a piece is the last one shows only in the one behind it.
        let mut following = if data.is_empty() { Vec::new() } else { next()? };
        let first =
            Body::FileWrite { path: path.to_vec(), mode, overwrite, data, last: following.is_empty() };
        let mut written = self.written(first)?;
        while !following.is_empty() {
            let data = following;
            following = next()?;
            written = self.written(Body::FileMore { data, last: following.is_empty() })?;
        }
        Ok(written)
    }

    /// Lists a directory, at most `max_entries` of it and no further than `admits` says of the next page.
    pub fn list(
        &mut self,
        path: &[u8],
        recursive: bool,
        max_entries: usize,
        admits: &mut dyn FnMut(&[Entry]) -> bool,
    ) -> Result<Listing, Failure> {
        let mut all = Vec::new();
        let mut body = Body::FileList { path: path.to_vec(), recursive };
        loop {
            let (entries, more) = self.entries(body)?;
            if more && entries.is_empty() {
                // It could go on like that for ever.
                return Err(Failure::Unexpected);
            }
            if !admits(&entries) {
                return Ok(Listing { entries: all, truncated: true });
            }
            all.extend(entries);
            if all.len() > max_entries || !more {
                let truncated = all.len() > max_entries || more;
                all.truncate(max_entries);
                return Ok(Listing { entries: all, truncated });
            }
            body = Body::FileListMore {};
        }
    }

    /// Returns one entry; a symlink is not followed.
    pub fn stat(&mut self, path: &[u8]) -> Result<Entry, Failure> {
        let (entries, _) = self.entries(Body::FileStat { path: path.to_vec() })?;
        entries.into_iter().next().ok_or(Failure::Unexpected)
    }

    /// Gives a file another name.
    pub fn rename(&mut self, from: &[u8], to: &[u8], overwrite: bool) -> Result<(), Failure> {
        self.settled(Body::FileMove { from: from.to_vec(), to: to.to_vec(), overwrite })
    }

    /// Removes a file or, if `recursive`, a directory.
    pub fn delete(&mut self, path: &[u8], recursive: bool) -> Result<(), Failure> {
        self.settled(Body::FileDelete { path: path.to_vec(), recursive })
    }

    fn written(&mut self, body: Body) -> Result<Vec<u8>, Failure> {
        match self.ask(body, Duration::ZERO)? {
            Reply::Written { path } => Ok(path),
            _ => Err(Failure::Unexpected),
        }
    }

    fn entries(&mut self, body: Body) -> Result<(Vec<Entry>, bool), Failure> {
        match self.ask(body, Duration::ZERO)? {
            Reply::Entries { entries, more } => Ok((entries, more)),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Moving and deleting may walk a large tree; they get the time of a wait.
    fn settled(&mut self, body: Body) -> Result<(), Failure> {
        match self.ask(body, super::WAIT_SLICE)? {
            Reply::Done {} => Ok(()),
            _ => Err(Failure::Unexpected),
        }
    }
}
