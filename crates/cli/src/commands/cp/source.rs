//! A local file as it was when it was opened: a copy has the size of that moment, or fails.
//!
//! Files of the kernel have no true size: `/proc` reports 0, `/sys` a page. They are read to their end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use coracle::{Error, Kind, Result};
use rustix::fs::{Stat, fstat};

/// Reads a file up to the size it had when it was opened.
#[derive(Debug)]
pub struct Source {
    file: File,
    opened: Stat,
    size: u64,
    read: u64,
    is_torn: bool,
}

impl Source {
    pub fn new(file: File) -> io::Result<Self> {
        let opened = fstat(&file)?;
        let size = u64::try_from(opened.st_size).unwrap_or_default();
        Ok(Self { file, opened, size, read: 0, is_torn: false })
    }

    /// Returns the error of a file that became shorter while it was read.
    pub fn expect_whole(&self, path: &Path) -> Result<()> {
        if !self.is_torn {
            return Ok(());
        }
        let (path, read, size) = (path.display(), self.read, self.size);
        let message = format!("`{path}` became shorter while it was read: {read} bytes of {size}");
        Err(Error::new(Kind::Conflict, message).hint("copy it again when nothing writes to it"))
    }

    /// Tells whether the size says nothing about the contents. Such a file has no blocks, and its size and times stay
    /// as they are while it is read.
    fn is_unsized(&self) -> io::Result<bool> {
        let (then, now) = (&self.opened, fstat(&self.file)?);
        let changed = |stat: &Stat| (stat.st_size, stat.st_ctime, stat.st_ctime_nsec);
        Ok(then.st_blocks == 0 && changed(then) == changed(&now))
    }

    /// Returns how many bytes of those at hand belong to the file as it was opened.
    fn admit(&mut self, count: usize) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.read);
        match count as u64 {
            0 if left > 0 && !self.is_unsized()? => {
                self.is_torn = true;
                Err(io::Error::other("the file became shorter"))
            }
            more if more > left && (self.size > 0 || !self.is_unsized()?) => {
                Ok(usize::try_from(left).unwrap_or(count))
            }
            _ => Ok(count),
        }
    }
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(into)?;
        let count = self.admit(count)?;
        self.read += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn holding(bytes: &[u8]) -> (tempfile::NamedTempFile, Source) {
        let mut file = tempfile::NamedTempFile::new().expect("a file can be made");
        file.write_all(bytes).expect("there is room");
        let source = Source::new(file.reopen().expect("it is there")).expect("it has a size");
        (file, source)
    }

    fn rest(source: &mut Source) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).map(|_| bytes)
    }

    #[test]
    fn a_file_that_becomes_shorter_is_an_error() {
        let (file, mut source) = holding(&[7; 100_000]);
        source.read_exact(&mut [0; 10]).expect("they are there");

        file.as_file().set_len(20).expect("it is ours");

        assert!(rest(&mut source).is_err());
        let error = source.expect_whole(Path::new("log")).expect_err("it is torn");
        assert_eq!(error.message, "`log` became shorter while it was read: 20 bytes of 100000");
    }

    #[test]
    fn a_file_that_grows_has_the_size_it_was_opened_with() {
        for before in [&b"four"[..], b""] {
            let (mut file, mut source) = holding(before);

            file.write_all(b" and more").expect("there is room");

            assert_eq!(rest(&mut source).expect("it is whole"), before);
            assert!(source.expect_whole(Path::new("log")).is_ok());
        }
    }

    #[test]
    fn files_of_the_kernel_are_read_to_their_end() {
        for path in
            ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/uevent_seqnum"]
        {
            let Ok(whole) = std::fs::read(path) else { continue };
            let mut source = Source::new(File::open(path).expect("it was there")).expect("it has a size");
            assert_eq!(rest(&mut source).expect("it is whole"), whole, "{path}");
        }
    }
}
