//! Downloads one blob: continues an earlier attempt, and checks the whole.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use coracle_core::image::Phase;
use coracle_core::{Error, Kind, Result};

use super::meter::Meter;
use super::partial::Partial;
use crate::digest::Digest;
use crate::manifest::Descriptor;
use crate::registry::{Client, FIRST_WAIT};

/// How long any blob may take, however large its registry says it is.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// How often a connection may be lost without having brought any data.
const LOSSES_MAX: u32 = 3;

/// A blob to download.
pub struct Download<'a> {
    pub client: &'a Client<'a>,
    pub blob: &'a Descriptor,
    /// The whole transfer has to end by then, however often it reconnects.
    pub deadline: Instant,
    /// Tells whether the caller still wants it.
    pub wanted: &'a dyn Fn() -> bool,
    /// Tells whether another puller has completed the layer.
    pub present: &'a dyn Fn() -> bool,
}

/// How a download ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Brought {
    /// The complete blob is here and has its digest.
    Whole,
    /// Another puller has completed the layer.
    AlreadyPresent,
}

/// How slow a registry may be before we give up on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// What any blob may take, however small it is.
    pub grace: Duration,
    /// The mean rate, in bytes per second, that is required beyond that.
    pub slowest: u64,
}

impl Pace {
    /// Returns how long a blob of this size may take.
    fn patience(self, size: u64) -> Duration {
        self.grace.saturating_add(Duration::from_secs(size / self.slowest.max(1))).min(LONGEST)
    }

    /// Returns the deadline of a blob of this size whose transfer begins now.
    pub fn deadline(self, size: u64) -> Instant {
        Instant::now() + self.patience(size)
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self { grace: Duration::from_secs(120), slowest: 32 << 10 }
    }
}

impl Download<'_> {
    /// Downloads the blob. On error the partial file may keep a part to continue from, but nothing that is known to
    /// be wrong.
    pub fn run(&self, partial: &mut Partial, meter: &mut Meter<'_>) -> Result<Brought> {
        let resumed = partial.length() > 0;
        let mut wrong = match self.attempt(partial, meter)? {
            Attempt::Ended(brought) => return Ok(brought),
            Attempt::Wrong(found) => found,
        };
        // A power cut may have damaged the earlier part, or a lying registry sent it; try once more without it.
        if resumed {
            wrong = match self.attempt(partial, meter)? {
                Attempt::Ended(brought) => return Ok(brought),
                Attempt::Wrong(found) => found,
            };
        }
        Err(self.client.wrong_digest("a layer", &self.blob.digest, &wrong))
    }

    fn attempt(&self, partial: &mut Partial, meter: &mut Meter<'_>) -> Result<Attempt> {
        let mut losses = 0;
        while partial.length() < self.blob.size {
            let before = partial.length();
            let lost = match self.transfer(partial, meter)? {
                Transfer::All => break,
                Transfer::Needless => return Ok(Attempt::Ended(Brought::AlreadyPresent)),
                Transfer::Lost(error) => error,
            };
            match partial.length() > before {
                true => losses = 0,
                false if losses < LOSSES_MAX => {
                    losses += 1;
                    std::thread::sleep(FIRST_WAIT * losses);
                }
                false => return Err(lost),
            }
        }
        let found = partial.digest();
        if partial.length() == self.blob.size && found == self.blob.digest {
            return Ok(Attempt::Ended(Brought::Whole));
        }
        partial.restart().map_err(|error| self.failed(error))?;
        Ok(Attempt::Wrong(found))
    }

    /// Takes the data of one answer.
    fn transfer(&self, partial: &mut Partial, meter: &mut Meter<'_>) -> Result<Transfer> {
        let mut arriving = self.client.blob(&self.blob.digest, partial.length(), self.deadline)?;
        if arriving.from != partial.length() {
            partial.restart().map_err(|error| self.failed(error))?;
        }
        let mut buffer = vec![0; 128 << 10];
        loop {
            if Instant::now() > self.deadline {
                return Err(self.client.too_slow());
            }
            if !(self.wanted)() {
                return Err(Error::new(Kind::Aborted, "another layer of the image could not be brought"));
            }
            if (self.present)() {
                return Ok(Transfer::Needless);
            }
            meter.tell(Phase::Downloading, partial.length(), self.blob.size);
            let read = match arriving.reader.read(&mut buffer) {
                Ok(0) if partial.length() < self.blob.size => Err(io::ErrorKind::UnexpectedEof.into()),
                read => read,
            };
            match read {
                Ok(0) => return Ok(Transfer::All),
                Ok(read) if partial.length() + read as u64 > self.blob.size => {
                    partial.restart().map_err(|error| self.failed(error))?;
                    return Err(self.client.invalid("the registry sends more of a layer than it said"));
                }
                Ok(read) => partial.add(&buffer[..read]).map_err(|error| self.failed(error))?,
                Err(error) => {
                    let message =
                        format!("could not get blob `{}`: the connection was lost", self.blob.digest);
                    return Ok(Transfer::Lost(Error::new(Kind::NotAvailable, message).caused_by(error)));
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
    Ended(Brought),
    /// The data has this digest.
    Wrong(Digest),
}

/// How one answer ended.
enum Transfer {
    All,
    Needless,
    Lost(Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_says_of_a_size_buys_it_a_day_at_most() {
        let of = |size| Pace::default().patience(size).as_secs();

        assert_eq!(of(0), 120);
        assert_eq!(of(32 << 20), 120 + 1024);
        assert_eq!(of(u64::MAX), 24 * 3600);
        assert_eq!(Pace { slowest: 0, ..Pace::default() }.patience(1 << 20).as_secs(), 24 * 3600);
    }
}
