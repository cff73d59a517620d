//! Files of a sandbox, for a caller that was let in.

use std::io::{self, Read, Write};

use coracle_core::{Error, Kind, Result};
pub use coracle_wire::Time;
use coracle_wire::{Entry, EntryKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::access::gate::Inside;
pub use crate::guest::Links;
use crate::guest::Writing;
use crate::inline::Inline;
use crate::{inline, spans, text};

pub(crate) mod acting;
pub(crate) mod tree;

pub use self::tree::{Node, Tree};

/// Carried by one message.
const PIECE_LEN: usize = 1 << 20;
/// The most entries one listing returns: a few tens of megabytes of JSON.
pub const ENTRIES_MAX: usize = 100_000;
/// What an entry takes beside its name.
const ENTRY_LEN: u64 = 128;

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    pub path: Vec<u8>,
    /// Permissions; without them those of the file that is replaced, or 0644.
    pub mode: Option<u32>,
    /// Replaces what is there; otherwise that is a conflict.
    pub overwrite: bool,
    pub links: Links,
    pub mtime: Option<Time>,
}

impl NewFile {
    /// Returns what is wanted of a file where nothing is said of it.
    pub fn at(path: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: None, overwrite: true, links: Links::Follow, mtime: None }
    }
}

/// A file that was copied, as it was when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Original {
    pub bytes: u64,
    /// Guests of an older coracle tell neither.
    pub mode: Option<u32>,
    pub mtime: Option<Time>,
}

/// How far down an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    One,
    Tree,
}

impl From<bool> for Depth {
    fn from(recursive: bool) -> Self {
        if recursive { Self::Tree } else { Self::One }
    }
}

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Entries {
    pub entries: Vec<FileEntry>,
    /// There were more than a listing returns.
    pub truncated: bool,
}

/// One file, directory or symlink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileEntry {
    /// With replacement characters where the name is not UTF-8.
    pub path: String,
    /// The true name, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_b64: Option<String>,
    #[serde(rename = "type")]
    pub kind: FileKind,
    pub size: u64,
    /// Permissions, as in `0644`.
    pub mode: String,
    pub mtime_unix: i64,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    File,
    Dir,
    Symlink,
    Other,
}

impl From<EntryKind> for FileKind {
    fn from(kind: EntryKind) -> Self {
        match kind {
            EntryKind::File => Self::File,
            EntryKind::Directory => Self::Dir,
            EntryKind::Symlink => Self::Symlink,
            EntryKind::Other => Self::Other,
        }
    }
}

impl From<Entry> for FileEntry {
    fn from(entry: Entry) -> Self {
        let path = String::from_utf8(entry.path);
        Self {
            path_b64: path.as_ref().err().map(|error| text::encode(error.as_bytes())),
            path: path.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            kind: entry.kind.into(),
            size: entry.size,
            mode: format!("{:04o}", entry.mode & 0o7777),
            mtime_unix: entry.mtime,
        }
    }
}

/// The beginning of a file.
#[derive(Debug)]
pub(crate) struct Head {
    pub data: Vec<u8>,
    pub truncated: bool,
    pub size: u64,
}

/// Writes a file whole; returns its absolute path. Until all of it is there the old one stands.
pub(crate) fn write(inside: &mut Inside, file: &NewFile, source: &mut dyn Read) -> Result<Vec<u8>> {
    let NewFile { path, mode, overwrite, links, mtime } = file;
    let writing = Writing { path, mode: *mode, overwrite: *overwrite, links: *links, mtime: *mtime };
    let span = spans::write(&inside.record);
    let mut bytes = 0;
    let written = spans::within(span.clone(), || {
        let mut next = || piece_of(source).inspect(|piece| bytes += piece.len() as u64);
        Ok(inside.guest.write_file(writing, &mut next)?)
    });
    spans::carried(&span, bytes);
    written
}

/// Returns the first `max_bytes` of a file.
pub(crate) fn read_head(inside: &mut Inside, path: &[u8], max_bytes: usize) -> Result<Head> {
    let span = spans::read(&inside.record);
    let head = spans::within(span.clone(), || head(inside, path, max_bytes));
    spans::carried(&span, head.as_ref().map_or(0, |head| head.data.len() as u64));
    head
}

fn head(inside: &mut Inside, path: &[u8], max_bytes: usize) -> Result<Head> {
    let (mut data, mut size) = (Vec::new(), 0);
    // One byte more than wanted tells whether there are more: the file may grow meanwhile.
    let wanted = max_bytes.saturating_add(1);
    while data.len() < wanted {
        let (offset, rest) = (data.len() as u64, wanted - data.len());
        let piece = match offset {
            0 => inside.guest.begin_read(path, rest, Links::Follow)?,
            offset => inside.guest.continue_read(path, offset, rest)?,
        };
        size = piece.size;
        data.extend_from_slice(&piece.data);
        if piece.data.is_empty() || data.len() as u64 >= size {
            break;
        }
    }
    let truncated = data.len() > max_bytes;
    data.truncate(max_bytes);
    let size = size.max(data.len() as u64 + u64::from(truncated));
    Ok(Head { data, truncated, size })
}

/// A file to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub path: &'a [u8],
    pub links: Links,
}

/// Copies a whole file into a sink, in pieces of what an answer may carry. One that grows meanwhile is not run after.
pub(crate) fn copy_out(
    inside: &mut Inside,
    wanted: Wanted<'_>,
    sink: &mut dyn Write,
    inline: &Inline,
) -> Result<Original> {
    let span = spans::read(&inside.record);
    let most = usize::try_from(inline.most()).unwrap_or(usize::MAX).min(PIECE_LEN);
    let copied = spans::within(span.clone(), || copy(inside, wanted, sink, most));
    spans::carried(&span, copied.as_ref().map_or(0, |original| original.bytes));
    copied
}

fn copy(inside: &mut Inside, wanted: Wanted<'_>, sink: &mut dyn Write, most: usize) -> Result<Original> {
    let mut piece = inside.guest.begin_read(wanted.path, most, wanted.links)?;
    let (end, entry) = (piece.size, piece.entry.take());
    let mut offset = 0;
    loop {
        // Less than was asked for is the end of the file, wherever that is by now.
        let last = piece.data.is_empty() || piece.data.len() < most;
        piece.data.truncate(usize::try_from(end - offset).unwrap_or(usize::MAX));
        sink.write_all(&piece.data)
            .map_err(|error| Error::internal("could not write what was read", error))?;
        offset += piece.data.len() as u64;
        if last && offset < end {
            return Err(became_shorter(wanted.path, offset, end));
        }
        if offset >= end {
            let mtime = entry.as_ref().and_then(tree::mtime);
            return Ok(Original { bytes: offset, mode: entry.map(|entry| entry.mode), mtime });
        }
        piece = inside.guest.continue_read(wanted.path, offset, most)?;
    }
}

fn became_shorter(path: &[u8], offset: u64, end: u64) -> Error {
    let path = String::from_utf8_lossy(path);
    Error::new(Kind::Conflict, format!("`{path}` became shorter while it was read: {offset} bytes of {end}"))
        .hint("read it again when nothing writes to it")
}

/// Removes a file, or with `Depth::Tree` a directory and what is in it.
pub(crate) fn delete(inside: &mut Inside, path: &[u8], depth: Depth) -> Result<()> {
    inside.guest.delete(path, depth == Depth::Tree).map_err(|failure| {
        let error = Error::from(failure);
        // What is said of a directory elsewhere is about reading and writing.
        match error.details.get("errno").is_some_and(|errno| errno == "EISDIR") {
            true => error.hint("it is a directory: write `recursive` to delete it with all that is in it"),
            false => error,
        }
    })
}

/// Lists a directory, as far as the answer may carry it.
pub(crate) fn list(inside: &mut Inside, path: &[u8], depth: Depth, inline: &Inline) -> Result<Entries> {
    let (mut carried, mut refused) = (0, false);
    let mut admits = |page: &[Entry]| {
        let bytes: u64 = page.iter().map(|entry| entry.path.len() as u64 + ENTRY_LEN).sum();
        carried += bytes;
        // The first page always comes, however little an answer may carry.
        let first = carried == bytes;
        let admitted = (first || carried <= inline.most()) && inline.takes(bytes);
        refused |= first && !admitted;
        admitted
    };
    let listing = inside.guest.list(path, depth == Depth::Tree, ENTRIES_MAX, &mut admits)?;
    if refused {
        // An empty answer would say that the directory is.
        return Err(inline::no_room("list a part of it"));
    }
    Ok(Entries {
        entries: listing.entries.into_iter().map(Into::into).collect(),
        truncated: listing.truncated,
    })
}

/// Returns the next piece, full unless it is the last one; sources may hand out less at a time.
fn piece_of(source: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    source.take(PIECE_LEN as u64).read_to_end(&mut piece)?;
    Ok(piece)
}
