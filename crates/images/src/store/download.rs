//! Bringing one blob: on from where an earlier attempt was, and checked as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use coracle_core::image::Phase;
use coracle_core::{Error, Kind, Result};

use super::meter::Meter;
use crate::digest::{Digest, Running};
use crate::manifest::Descriptor;
use crate::registry::{Client, FIRST_WAIT};

/// A registry that is slower than this, in bytes a second, only keeps us busy; and how long that may last in any case.
const SLOWEST: u64 = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a connection may be lost without anything having come.
const LOSSES_MAX: u32 = 3;

/// A blob to bring to a path.
pub struct Download<'a> {
    pub client: &'a Client<'a>,
    pub blob: &'a Descriptor,
    pub path: &'a Path,
    /// Tells whether anyone still wants it.
    pub wanted: &'a dyn Fn() -> bool,
}

impl Download<'_> {
    /// Brings it. Afterwards the file has the content the digest names; on error it may have a part of it, to go on
    /// from, but nothing that is known to be wrong.
    pub fn run(&self, meter: &mut Meter<'_>) -> Result<File> {
        let resumed = self.attempt(meter)?;
        let (expected, found) = match resumed {
            Attempt::Whole(file) => return Ok(file),
            Attempt::Wrong { resumed: false, found } => (&self.blob.digest, found),
            // What was here before may have been damaged by a power cut; once more without it.
            Attempt::Wrong { resumed: true, .. } => match self.attempt(meter)? {
                Attempt::Whole(file) => return Ok(file),
                Attempt::Wrong { found, .. } => (&self.blob.digest, found),
            },
        };
        Err(self.client.wrong_digest("a layer", expected, &found))
    }

    fn attempt(&self, meter: &mut Meter<'_>) -> Result<Attempt> {
        let mut partial = Partial::open(self.path, self.blob.size).map_err(|error| self.failed(error))?;
        let resumed = partial.length > 0;
        let mut losses = 0;
        while partial.length < self.blob.size {
            let before = partial.length;
            let lost = self.transfer(&mut partial, meter)?;
            match lost {
                None => break,
                Some(_) if partial.length > before => losses = 0,
                Some(_) if losses < LOSSES_MAX => {
                    losses += 1;
                    std::thread::sleep(FIRST_WAIT * losses);
                }
                Some(error) => return Err(error),
            }
        }
        let found = partial.digest.finish();
        if partial.length == self.blob.size && found == self.blob.digest {
            return Ok(Attempt::Whole(partial.file));
        }
        fs::remove_file(self.path).map_err(|error| self.failed(error))?;
        Ok(Attempt::Wrong { resumed, found })
    }

    /// Takes what one answer brings. Returns how the connection was lost, if it was.
    fn transfer(&self, partial: &mut Partial, meter: &mut Meter<'_>) -> Result<Option<Error>> {
        let mut arriving = self.client.blob(&self.blob.digest, partial.length)?;
        if arriving.from != partial.length {
            partial.restart().map_err(|error| self.failed(error))?;
        }
        let mut buffer = vec![0; 128 << 10];
        let deadline = Instant::now() + PATIENCE + Duration::from_secs(self.blob.size / SLOWEST);
        loop {
            if Instant::now() > deadline {
                return Err(self.client.too_slow());
            }
            if !(self.wanted)() {
                return Err(Error::new(Kind::Aborted, "another layer of the image could not be brought"));
            }
            meter.tell(Phase::Downloading, partial.length, self.blob.size);
            let read = match arriving.reader.read(&mut buffer) {
                Ok(0) if partial.length < self.blob.size => Err(io::ErrorKind::UnexpectedEof.into()),
                read => read,
            };
            match read {
                Ok(0) => return Ok(None),
                Ok(read) if partial.length + read as u64 > self.blob.size => {
                    let _ = fs::remove_file(self.path);
                    return Err(self.client.invalid("the registry sends more of a layer than it said"));
                }
                Ok(read) => partial.add(&buffer[..read]).map_err(|error| self.failed(error))?,
                Err(error) => {
                    let message =
                        format!("could not get blob `{}`: the connection was lost", self.blob.digest);
                    return Ok(Some(Error::new(Kind::NotAvailable, message).caused_by(error)));
                }
            }
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::internal(format!("could not keep blob `{}`", self.blob.digest), error)
            .hint("is there space left on the disk?")
    }
}

/// How an attempt ended, if the connection held.
enum Attempt {
    Whole(File),
    Wrong { resumed: bool, found: Digest },
}

/// The part that is here, with the digest of it so far.
struct Partial {
    file: File,
    length: u64,
    digest: Running,
}

impl Partial {
    fn open(path: &Path, size: u64) -> io::Result<Self> {
        let options = &mut OpenOptions::new();
        let file = options.read(true).append(true).create(true).mode(0o600).open(path)?;
        let mut partial = Self { file, length: 0, digest: Running::default() };
        if partial.file.metadata()?.len() > size {
            partial.restart()?;
        }
        partial.count()?;
        Ok(partial)
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

    fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        (self.length, self.digest) = (0, Running::default());
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.digest.add(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }
}
