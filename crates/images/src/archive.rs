//! An archive of images from a caller: we look through it once, then read it in place. Nothing is extracted.

mod docker;
mod oci;
mod spool;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use coracle_core::image::Reference;
use coracle_core::{Error, Kind, Result};
use coracle_unpack::{Entry, Kind as EntryKind, Limits, Name, Reason, Refusal, Sink, walk};

use crate::digest::Digest;
use crate::manifest::Configuration;

/// How much of an archive we accept: a few of the largest images there are.
const LIMITS: Limits = Limits { entries: 100_000, bytes: 128 << 30 };
/// How many links may lead from one entry to the next; `docker save` uses one.
const LINKS_MAX: usize = 4;

/// An archive whose entries are known.
#[derive(Debug)]
pub struct Archive {
    file: File,
    entries: BTreeMap<Name, Content>,
}

/// Where the content of an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Here(Section),
    /// In another entry.
    Link(Name),
}

/// A part of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    pub offset: u64,
    pub length: u64,
}

/// An image in an archive.
#[derive(Debug)]
pub struct Found {
    /// The names it claims, in their full form. Never empty.
    pub names: Vec<String>,
    /// The digest of its manifest; if it has none, of one made from its parts.
    pub digest: Digest,
    pub configuration: Configuration,
    /// In the order of the configuration.
    pub layers: Vec<Section>,
}

impl Archive {
    /// Looks through an archive. Writes one that is compressed or comes through a pipe to a file from `spool`
    /// meanwhile, and stops as soon as it is out of proportion.
    pub fn open(file: File, spool: &dyn Fn() -> io::Result<File>) -> Result<Self> {
        let unreadable = |error| invalid("it cannot be read").caused_by(error);
        let regular = file.metadata().map_err(unreadable)?.is_file();
        if !regular || is_gzip(&file).map_err(unreadable)? {
            return spool::spooled(file, spool);
        }
        let position = Cell::new(0);
        let mut reader = Reading(|buffer: &mut [u8]| {
            let read = file.read_at(buffer, position.get())?;
            position.set(position.get() + read as u64);
            Ok(read)
        });
        let entries = index(&mut reader, &position)?;
        Ok(Self { file, entries })
    }

    /// Returns the images in it, according to the kind of archive.
    pub fn images(&self) -> Result<Vec<Found>> {
        match (self.has("oci-layout") && self.has("index.json"), self.has("manifest.json")) {
            (true, _) => oci::images(self),
            (false, true) => docker::images(self),
            (false, false) => Err(invalid("there is neither an `index.json` nor a `manifest.json` in it")
                .hint("archives as `docker save`, `podman save` or `skopeo` write them are taken")),
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    fn has(&self, name: &str) -> bool {
        self.section(name).is_ok()
    }

    /// Finds an entry's content.
    fn section(&self, name: &str) -> Result<Section> {
        let missing = || invalid(&format!("there is no `{}` in it", name.escape_debug()));
        let mut name = Name::parse(name.as_bytes()).map_err(|_| missing())?;
        for _ in 0..=LINKS_MAX {
            match self.entries.get(&name) {
                Some(Content::Here(section)) => return Ok(*section),
                Some(Content::Link(target)) => name = target.clone(),
                None => break,
            }
        }
        Err(missing())
    }

    /// Reads a document.
    fn document(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let section = self.section(name)?;
        if section.length > limit {
            let message =
                format!("could not load the archive: `{}` is over {limit} bytes", name.escape_debug());
            return Err(Error::new(Kind::LimitExceeded, message));
        }
        let mut bytes = vec![0; section.length as usize];
        self.file
            .read_exact_at(&mut bytes, section.offset)
            .map_err(|error| invalid("it cannot be read").caused_by(error))?;
        Ok(bytes)
    }

    /// Reads a part of the archive from its beginning.
    fn reader(&self, section: Section) -> impl Read {
        let (file, mut position) = (&self.file, section.offset);
        let read = move |buffer: &mut [u8]| {
            let read = file.read_at(buffer, position)?;
            position += read as u64;
            Ok(read)
        };
        Reading(read).take(section.length)
    }
}

/// Reads a name that an image claims. A name with a digest says what it leads to, so no other image may claim it.
fn claimed(text: &str, digest: &Digest) -> Result<String> {
    let reference: Reference = text.parse()?;
    match reference.digest() {
        Some(named) if named != digest.as_str() => {
            Err(invalid(&format!("an image claims the name `{reference}`, which is another's")))
        }
        _ => Ok(reference.to_string()),
    }
}

/// Returns the name of an image that claims none.
fn unnamed(digest: &Digest) -> String {
    format!("localhost/loaded:{}", &digest.hex()[..12])
}

/// Says what is wrong with an archive.
fn invalid(what: &str) -> Error {
    Error::new(Kind::Invalid, format!("could not load the archive: {what}"))
}

fn refused(refusal: Refusal) -> Error {
    let kind = match refusal.reason {
        Reason::Malformed => Kind::Invalid,
        Reason::Limit => Kind::LimitExceeded,
        Reason::Unsupported => Kind::Unsupported,
        Reason::Machine => Kind::Internal,
    };
    Error::new(kind, "could not load the archive").caused_by(refusal)
}

fn is_gzip(file: &File) -> io::Result<bool> {
    let mut magic = [0; 2];
    Ok(file.read_at(&mut magic, 0)? == 2 && magic == [0x1f, 0x8b])
}

/// Looks through an archive whose reader counts its position.
fn index(reader: &mut dyn Read, position: &Cell<u64>) -> Result<BTreeMap<Name, Content>> {
    let mut index = Index { position, entries: BTreeMap::new() };
    walk(reader, &LIMITS, &mut index).map_err(refused)?;
    Ok(index.entries)
}

/// Records where every entry's content is.
struct Index<'a> {
    position: &'a Cell<u64>,
    entries: BTreeMap<Name, Content>,
}

impl Sink for Index<'_> {
    fn put(&mut self, entry: &Entry, _content: &mut dyn Read) -> Result<(), Refusal> {
        let content = match &entry.kind {
            EntryKind::File(length) => {
                Content::Here(Section { offset: self.position.get(), length: *length })
            }
            EntryKind::HardLink(target) => Content::Link(target.clone()),
            EntryKind::Symlink(target) => match beside(&entry.name, target) {
                Some(target) => Content::Link(target),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        self.entries.insert(entry.name.clone(), content);
        Ok(())
    }
}

/// Returns the entry that a link names; `None` if it leads out of the archive.
fn beside(link: &Name, target: &[u8]) -> Option<Name> {
    let (parent, _) = link.split();
    let mut parts: Vec<&[u8]> = if target.starts_with(b"/") { Vec::new() } else { parent.parts().collect() };
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Name::parse(&parts.join(&b'/')).ok()
}

/// A reader made of a function.
struct Reading<F>(F);

impl<F: FnMut(&mut [u8]) -> io::Result<usize>> Read for Reading<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.0)(buffer)
    }
}
