//! Files in a sandbox.

use std::time::Duration;

use coracle_wire::{Body, Entry, Placing, Reply, Time};

use super::execs::PIECE_LEN;
use super::{Failure, Guest};

/// What a file written without a word about them is allowed.
const MODE: u32 = 0o644;

/// A piece of a file.
#[derive(Debug)]
pub struct Piece {
    pub data: Vec<u8>,
    /// The size of the whole file.
    pub size: u64,
    /// The file it is of, where it is the first piece. Older guests do not tell.
    pub entry: Option<Entry>,
}

/// How a file is to be written.
#[derive(Debug, Clone, Copy)]
pub struct Writing<'a> {
    pub path: &'a [u8],
    /// Without it a file that is there hands on its own.
    pub mode: Option<u32>,
    pub overwrite: bool,
    pub links: Links,
    pub mtime: Option<Time>,
}

/// What becomes of links in a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Links {
    #[default]
    Follow,
    /// The path is in a tree whose top its first so many bytes name. Below that no link is followed: reading one is an
    /// error, writing replaces one that the path ends in.
    Below(usize),
}

impl Links {
    fn top(self) -> Option<u32> {
        match self {
            Self::Follow => None,
            // A path that long is refused anyway.
            Self::Below(top) => Some(u32::try_from(top).unwrap_or(u32::MAX)),
        }
    }
}

/// A directory's entries, cut off where there are too many.
#[derive(Debug)]
pub struct Listing {
    pub entries: Vec<Entry>,
    pub truncated: bool,
}

impl Guest {
    /// Returns the beginning of a file; never more than fits one frame. What follows is read by [`Guest::continue_read`].
    pub fn begin_read(&mut self, path: &[u8], max_bytes: usize, links: Links) -> Result<Piece, Failure> {
        if !self.knows_users() {
            return self.read_at(path, 0, max_bytes);
        }
        let follow = links == Links::Follow;
        let body =
            Body::FileOpen { path: path.to_vec(), max_bytes: length(max_bytes), follow, top: links.top() };
        match self.ask(body, Duration::ZERO)? {
            Reply::Opened { entry, data } => Ok(Piece { data, size: entry.size, entry: Some(entry) }),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Reads on in the file that was begun. An older guest opens it again, by its path.
    pub fn continue_read(&mut self, path: &[u8], offset: u64, max_bytes: usize) -> Result<Piece, Failure> {
        if !self.knows_users() {
            return self.read_at(path, offset, max_bytes);
        }
        self.piece(Body::FileGoOn { offset, max_bytes: length(max_bytes) })
    }

    fn read_at(&mut self, path: &[u8], offset: u64, max_bytes: usize) -> Result<Piece, Failure> {
        self.piece(Body::FileRead { path: path.to_vec(), offset, max_bytes: length(max_bytes) })
    }

    fn piece(&mut self, body: Body) -> Result<Piece, Failure> {
        match self.ask(body, Duration::ZERO)? {
            Reply::File { data, size } => Ok(Piece { data, size, entry: None }),
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
        let Writing { path, mode, overwrite, links, mtime } = writing;
        let data = next()?;
        // Whether a piece is the last one shows only in the one behind it.
        let mut following = if data.is_empty() { Vec::new() } else { next()? };
        let first = Body::FileWrite {
            path: path.to_vec(),
            mode: mode.unwrap_or(MODE),
            overwrite,
            data,
            last: following.is_empty(),
            placing: Some(Placing {
                follow: links == Links::Follow,
                keep_mode: mode.is_none(),
                mtime,
                top: links.top(),
            }),
        };
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
        self.pages(Body::FileList { path: path.to_vec(), recursive, whole: None }, max_entries, admits)
    }

    /// Lists everything below a directory, at most `max_entries` of it. What cannot be listed is a failure.
    pub fn list_tree(&mut self, path: &[u8], max_entries: usize) -> Result<Listing, Failure> {
        let body = Body::FileList { path: path.to_vec(), recursive: true, whole: Some(true) };
        self.pages(body, max_entries, &mut |_| true)
    }

    fn pages(
        &mut self,
        mut body: Body,
        max_entries: usize,
        admits: &mut dyn FnMut(&[Entry]) -> bool,
    ) -> Result<Listing, Failure> {
        let mut all = Vec::new();
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
    pub fn rename(&mut self, from: &[u8], to: &[u8], overwrite: bool, links: Links) -> Result<(), Failure> {
        self.settled(Body::FileMove { from: from.to_vec(), to: to.to_vec(), overwrite, top: links.top() })
    }

    /// Removes a file or, if `recursive`, a directory.
    pub fn delete(&mut self, path: &[u8], recursive: bool) -> Result<(), Failure> {
        self.settled(Body::FileDelete { path: path.to_vec(), recursive })
    }

    /// Makes a directory for its owner alone, unless there is one.
    pub fn make_directory(&mut self, path: &[u8], links: Links) -> Result<(), Failure> {
        self.settled(Body::FileDirectory { path: path.to_vec(), top: links.top() })
    }

    /// Makes a symlink, in the place of a file or link.
    pub fn make_link(
        &mut self,
        path: &[u8],
        target: &[u8],
        mtime: Time,
        links: Links,
    ) -> Result<(), Failure> {
        self.settled(Body::FileLink { path: path.to_vec(), target: target.to_vec(), mtime, top: links.top() })
    }

    /// Gives a directory its permissions and time.
    pub fn finish_directory(
        &mut self,
        path: &[u8],
        mode: u32,
        mtime: Time,
        links: Links,
    ) -> Result<(), Failure> {
        self.settled(Body::FileFinish { path: path.to_vec(), mode, mtime, top: links.top() })
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

fn length(max_bytes: usize) -> u32 {
    max_bytes.min(PIECE_LEN) as u32
}
