//! An archive that cannot be read back and forth: we write it to a file while we look through it. Refuses what is
//! no archive at its first block, and an archive that unpacks out of proportion, or would fill the disk, before it
//! does.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Write};

use coracle_core::{Error, Result};
use coracle_sys::rustix::fs::fstatvfs;
use coracle_unpack::Refusal;
use flate2::read::MultiGzDecoder;

use super::{Archive, index, invalid};
use crate::proportion::{STRETCH, most_of};

/// The part of a disk that is left for others: one in this many.
const LEFT_FOR_OTHERS: u64 = 20;

/// Looks through the stream, and keeps it decompressed.
pub fn spooled(mut file: File, spool: &dyn Fn() -> io::Result<File>) -> Result<Archive> {
    let kept =
        |error| Error::internal("could not keep the archive", error).hint("is there space left on the disk?");
    let spooled = spool().map_err(kept)?;
    let mut magic = Vec::new();
    Read::by_ref(&mut file)
        .take(2)
        .read_to_end(&mut magic)
        .map_err(|error| invalid("it cannot be read").caused_by(error))?;
    let compressed = magic == [0x1f, 0x8b];
    let (taken, position) = (Cell::new(0), Cell::new(0));
    let whole = Counted { reader: io::Cursor::new(magic).chain(file), taken: &taken };
    let plain: Box<dyn Read> =
        if compressed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
    let mut keeper = Keeper { plain, spooled: &spooled, taken: &taken, position: &position, looked_at: 0 };
    let entries = index(&mut keeper, &position)?;
    drop(keeper);
    Ok(Archive { file: spooled, entries })
}

/// Keeps what is read, as long as the limits allow.
struct Keeper<'a> {
    plain: Box<dyn Read + 'a>,
    spooled: &'a File,
    /// The bytes that have come so far, and their decompressed size.
    taken: &'a Cell<u64>,
    position: &'a Cell<u64>,
    /// The position at the last look at the disk.
    looked_at: u64,
}

impl Keeper<'_> {
    fn check(&mut self) -> io::Result<()> {
        if self.position.get() > most_of(self.taken.get()) {
            let text = "the archive unpacks to far more than it has bytes".to_owned();
            return Err(io::Error::other(Refusal::limit(text)));
        }
        if self.position.get() - self.looked_at >= STRETCH {
            self.looked_at = self.position.get();
            let disk = fstatvfs(self.spooled)?;
            if disk.f_bavail < disk.f_blocks / LEFT_FOR_OTHERS {
                let text = "the archive would fill the disk it is kept on".to_owned();
                return Err(io::Error::other(Refusal::limit(text)));
            }
        }
        Ok(())
    }
}

impl Read for Keeper<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.plain.read(buffer)?;
        self.spooled.write_all(&buffer[..length])?;
        self.position.set(self.position.get() + length as u64);
        self.check()?;
        Ok(length)
    }
}

/// Counts what is read.
struct Counted<'a, R> {
    reader: R,
    taken: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.taken.set(self.taken.get() + length as u64);
        Ok(length)
    }
}
