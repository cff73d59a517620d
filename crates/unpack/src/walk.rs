//! Goes through an archive, entry by entry, to its very end.

use std::io::{self, Read};

use crate::entry::{Entry, Kind};
use crate::extensions::{self, Extensions};
use crate::header::{BLOCK, Header, text};
use crate::limits::{LONG_NAME_MAX, Limits, PAX_MAX};
use crate::refusal::Refusal;

/// Carries out what entries ask for.
pub trait Sink {
    /// Carries out one entry. `content` is the bytes of a file; the walk skips those that were not read.
    fn put(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), Refusal>;
}

/// Passes every entry of the archive to `sink`, in order, and reads the archive to its end. Returns their number.
pub fn walk(archive: &mut dyn Read, limits: &Limits, sink: &mut dyn Sink) -> Result<u64, Refusal> {
    let mut walk = Walk { archive: Bounded { inner: archive, left: limits.bytes }, entries: 0, limits };
    while let Some((header, extensions)) = walk.next()? {
        let size = extensions.size.map_or_else(|| header.size(), Ok)?;
        let entry = Entry::decide(&header, extensions, size)?;
        let mut content =
            (&mut walk.archive).take(if matches!(entry.kind, Kind::File(_)) { size } else { 0 });
        sink.put(&entry, &mut content)?;
        let unread = content.limit();
        walk.skip(unread)?;
        walk.skip(padding(size))?;
    }
    walk.finish()?;
    Ok(walk.entries)
}

struct Walk<'a> {
    archive: Bounded<'a>,
    entries: u64,
    limits: &'a Limits,
}

impl Walk<'_> {
    /// Returns the header of the next entry with its extensions, or `None` at the end.
    fn next(&mut self) -> Result<Option<(Header, Extensions)>, Refusal> {
        let (mut long_name, mut long_link, mut records) = (None, None, None);
        while let Some(block) = self.block()? {
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(Refusal::limit(format!(
                    "the layer has more than {} entries",
                    self.limits.entries
                )));
            }
            let header = Header::parse(block)?;
            let slot = match header.kind() {
                b'L' => Some((&mut long_name, LONG_NAME_MAX)),
                b'K' => Some((&mut long_link, LONG_NAME_MAX)),
                b'x' => Some((&mut records, PAX_MAX)),
                b'g' => None,
                _ => return described(header, long_name, long_link, records).map(Some),
            };
            if !header.may_extend() {
                return Err(Refusal::malformed("an old archive has entries that only newer ones have"));
            }
            match slot {
                Some((Some(_), _)) => return Err(Refusal::malformed("an entry is described twice")),
                Some((slot, limit)) => *slot = Some(self.content(&header, limit)?),
                None => extensions::check_global(&self.content(&header, PAX_MAX)?)?,
            }
        }
        match (long_name, long_link, records) {
            (None, None, None) => Ok(None),
            _ => Err(Refusal::malformed("the archive ends where an entry was announced")),
        }
    }

    /// Returns the next block, or `None` at the end of the stream or where only zeroes follow.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Refusal> {
        let mut block = [0; BLOCK];
        match read_full(&mut self.archive, &mut block)? {
            0 => Ok(None),
            BLOCK if block == [0; BLOCK] => Ok(None),
            BLOCK => Ok(Some(block)),
            _ => Err(Refusal::malformed("the archive ends in the middle of a header")),
        }
    }

    fn content(&mut self, header: &Header, limit: u64) -> Result<Vec<u8>, Refusal> {
        let size = header.size()?;
        if size > limit {
            return Err(Refusal::limit(format!(
                "the description of an entry has {size} bytes, more than {limit}"
            )));
        }
        let mut content = vec![0; size as usize];
        if read_full(&mut self.archive, &mut content)? != content.len() {
            return Err(Refusal::malformed("the archive ends in the description of an entry"));
        }
        self.skip(padding(size))?;
        Ok(content)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Refusal> {
        let skipped =
            io::copy(&mut (&mut self.archive).take(bytes), &mut io::sink()).map_err(Refusal::reading)?;
        match skipped == bytes {
            true => Ok(()),
            false => Err(Refusal::malformed("the archive ends in the middle of an entry")),
        }
    }

    /// Reads what follows the end. It counts for the digest, and must be empty: a reader that goes on after the end
    /// would see another layer than we do.
    fn finish(&mut self) -> Result<(), Refusal> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match read_full(&mut self.archive, &mut buffer)? {
                0 => return Ok(()),
                read if buffer[..read].iter().all(|byte| *byte == 0) => {}
                _ => return Err(Refusal::malformed("something follows the end of the archive")),
            }
        }
    }
}

/// Joins the two kinds of extensions. Refuses contradictions, because readers differ about them.
fn described(
    header: Header,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    records: Option<Vec<u8>>,
) -> Result<(Header, Extensions), Refusal> {
    let mut extensions = Extensions::parse(&records.unwrap_or_default())?;
    for (long, slot) in [(long_name, &mut extensions.name), (long_link, &mut extensions.link)] {
        let Some(long) = long else { continue };
        let long = long_text(&long)?;
        if slot.as_deref().is_some_and(|said| said != long) {
            return Err(Refusal::malformed("an entry is given two names"));
        }
        *slot = Some(long.to_vec());
    }
    Ok((header, extensions))
}

fn long_text(content: &[u8]) -> Result<&[u8], Refusal> {
    let text = text(content);
    match text.is_empty() || content[text.len()..].iter().any(|byte| *byte != 0) {
        true => Err(Refusal::malformed("a long name is empty or has a NUL in it")),
        false => Ok(text),
    }
}

fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

/// Reads until the buffer is full or the stream ends. Returns how much it read.
fn read_full(archive: &mut Bounded<'_>, buffer: &mut [u8]) -> Result<usize, Refusal> {
    let mut filled = 0;
    while filled < buffer.len() {
        match archive.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Refusal::reading(error)),
        }
    }
    Ok(filled)
}

/// A stream that fails past a limit.
struct Bounded<'a> {
    inner: &'a mut dyn Read,
    left: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(Refusal::limit("the unpacked layer is larger than the limit").into()),
        }
        Ok(read)
    }
}
