//! Room on the disk of the home: how much must stay free before anything new is made, and the port to the ballast,
//! which lets removals work on a full disk.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::bytes::Bytes;
use crate::error::{Error, Kind, Result};

/// The default reserve in bytes: this much, or a twentieth of the disk where that is less.
const RESERVE: u64 = 2 << 30;
const PART: u64 = 20;
/// The default reserve in inodes, likewise.
const INODES: u64 = 10_000;

/// A failure while less than this is free may be due to the full disk: no change of a record needs more.
const SCARCE_BYTES: u64 = 4 << 20;
const SCARCE_INODES: u64 = 16;

/// What a filesystem has free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    pub bytes: u64,
    pub total_bytes: u64,
    /// Absent where the filesystem makes inodes as needed.
    pub inodes: Option<Inodes>,
}

/// Files and directories a filesystem has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inodes {
    pub left: u64,
    pub total: u64,
}

/// The setting `storage.reserve`: how much must be free before anything new is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reserve {
    /// 2 GiB or a twentieth of the disk, whichever is less; 10,000 inodes or a twentieth of them.
    #[default]
    Usual,
    /// This many bytes, and the usual number of inodes. Zero turns the check off.
    Bytes(u64),
}

/// How full the disk of a home is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Level {
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// Below this, coracle makes nothing new.
    pub reserve_bytes: u64,
    /// Absent where the filesystem makes inodes as needed.
    pub free_inodes: Option<u64>,
    pub reserve_inodes: u64,
    /// Less is free than the reserve.
    pub low: bool,
    /// The ballast, which removals may use.
    pub ballast_bytes: u64,
}

impl Reserve {
    fn bytes(self, total: u64) -> u64 {
        match self {
            Self::Usual => RESERVE.min(total / PART),
            Self::Bytes(bytes) => bytes,
        }
    }

    fn inodes(self, total: u64) -> u64 {
        match self {
            Self::Bytes(0) => 0,
            Self::Usual | Self::Bytes(_) => INODES.min(total / PART),
        }
    }
}

impl fmt::Display for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual => f.write_str("2.0 GiB or 5 % of the disk, whichever is less"),
            Self::Bytes(bytes) => Bytes(*bytes).fmt(f),
        }
    }
}

impl Left {
    /// Tells whether a full disk may be why something failed.
    pub fn is_scarce(self) -> bool {
        self.bytes < SCARCE_BYTES || self.inodes.is_some_and(|inodes| inodes.left < SCARCE_INODES)
    }

    /// Tells whether the disk is nearly full, independent of the configured reserve.
    pub fn is_low(self) -> bool {
        Level::of(self, Reserve::Usual, 0).low
    }
}

impl Level {
    /// Compares the free space with the reserve.
    pub fn of(left: Left, reserve: Reserve, ballast_bytes: u64) -> Self {
        let reserve_bytes = reserve.bytes(left.total_bytes);
        let reserve_inodes = left.inodes.map_or(0, |inodes| reserve.inodes(inodes.total));
        let few_inodes = left.inodes.is_some_and(|inodes| inodes.left < reserve_inodes);
        Self {
            free_bytes: left.bytes,
            total_bytes: left.total_bytes,
            reserve_bytes,
            free_inodes: left.inodes.map(|inodes| inodes.left),
            reserve_inodes,
            low: left.bytes < reserve_bytes || few_inodes,
            ballast_bytes,
        }
    }

    /// Refuses to make something new on a disk that is nearly full.
    pub fn admit(&self, what: &str) -> Result<()> {
        if !self.low {
            return Ok(());
        }
        // No numbers in the message: how full the machine is tells a tenant about others.
        Err(Error::new(Kind::LimitExceeded, format!("could not {what}: the disk of the home is nearly full"))
            .hint(
                "close sandboxes, remove images and volumes, or run `coracle gc`; `coracle doctor` shows how much is \
                 left, and `storage.reserve` sets how much has to be",
            )
            .detail("limit", "storage.reserve")
            .detail("free_bytes", self.free_bytes)
            .detail("reserve_bytes", self.reserve_bytes)
            .detail("free_inodes", self.free_inodes)
            .detail("reserve_inodes", self.reserve_inodes))
    }
}

/// The disk of a home, and the ballast on it. Safe to use from many threads and processes at once.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Returns what is free; `None` where that is unknown.
    fn left(&self) -> Option<Left>;

    /// Returns the size of the ballast.
    fn held_back(&self) -> u64;

    /// Gives a part of the ballast to a call that removes something; `false` if none is left.
    fn give_way(&self) -> bool;

    /// Restores the ballast if there is plenty of room. Never fails: the next call tries again.
    fn refill(&self);

    /// Notes whether there is a shortage; returns `true` for exactly one of all callers that notice a change.
    fn note(&self, shortage: Shortage, is_there: bool) -> bool;
}

/// What a disk may be short of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Less is free than the configured reserve: nothing new is made.
    Reserve,
    /// The disk is nearly full: backends make sure that synced data is there.
    Room,
}

/// Runs work that makes room. Where it fails for want of room, gives it a part of the ballast and tries again.
///
/// `work` may run several times, so it must leave nothing half done when it fails.
pub fn freeing<T>(disk: &dyn Disk, mut work: impl FnMut() -> Result<T>) -> Result<T> {
    let mut given = false;
    loop {
        match work() {
            // Only after a failure: the program that fills the disk would take what is given earlier. And only where
            // it helps: a container engine that does not answer would use up all ballast.
            Err(error)
                if error.may_lack_room() && disk.left().is_some_and(Left::is_scarce) && disk.give_way() =>
            {
                given = true;
            }
            done => {
                if given {
                    disk.refill();
                }
                return done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::error::DISK_FULL;

    const GIB: u64 = 1 << 30;

    fn left(bytes: u64, total_bytes: u64) -> Left {
        Left { bytes, total_bytes, inodes: None }
    }

    #[test]
    fn the_usual_reserve_is_the_smaller_of_both() {
        let reserve = |total| Level::of(left(total, total), Reserve::Usual, 0).reserve_bytes;

        assert_eq!(reserve(500 * GIB), 2 * GIB);
        assert_eq!(reserve(60 << 20), 3 << 20);
    }

    #[test]
    fn too_few_bytes_or_too_few_inodes_refuse() {
        let few = Left { inodes: Some(Inodes { left: 10, total: 1000 }), ..left(GIB, GIB) };

        assert!(Level::of(left(GIB, 100 * GIB), Reserve::Usual, 0).admit("open a sandbox").is_err());
        assert!(Level::of(left(3 * GIB, 100 * GIB), Reserve::Usual, 0).admit("open a sandbox").is_ok());
        assert!(Level::of(few, Reserve::Usual, 0).admit("open a sandbox").is_err());
        assert!(Level::of(few, Reserve::Bytes(0), 0).admit("open a sandbox").is_ok());
        assert!(few.is_low() && left(GIB, 100 * GIB).is_low() && !left(3 * GIB, 100 * GIB).is_low());
    }

    /// A disk with no free space but what the ballast gives.
    #[derive(Debug, Default)]
    struct Full {
        given: AtomicU64,
    }

    impl Disk for Full {
        fn left(&self) -> Option<Left> {
            Some(left(0, GIB))
        }

        fn held_back(&self) -> u64 {
            0
        }

        fn give_way(&self) -> bool {
            self.given.fetch_add(1, Ordering::Relaxed) < 8
        }

        fn refill(&self) {}

        fn note(&self, _: Shortage, _: bool) -> bool {
            false
        }
    }

    #[test]
    fn what_fails_for_another_reason_gets_nothing() {
        let missing = std::io::Error::from_raw_os_error(2);
        let full = std::io::Error::from_raw_os_error(28);
        let of = |kind| Error::new(kind, "could not free");
        for (error, given) in [
            (of(Kind::Conflict), 0),
            (of(Kind::NotAvailable), 0),
            (of(Kind::Internal).caused_by(missing), 0),
            (of(Kind::NotAvailable).caused_by(full), 1),
            (of(Kind::NotAvailable).detail(DISK_FULL, true), 1),
            (of(Kind::Internal), 1),
        ] {
            let (disk, mut error) = (Full::default(), Some(error));

            let shown = format!("{error:?}");
            let _ = freeing(&disk, || error.take().map_or(Ok(()), Err));

            assert_eq!(disk.given.load(Ordering::Relaxed), given, "{shown}");
        }
    }

    #[test]
    fn what_fails_on_a_full_disk_is_tried_again_with_more_room_until_there_is_no_more() {
        let (disk, mut tries) = (Full::default(), 0);

        let done = freeing(&disk, || {
            tries += 1;
            if disk.given.load(Ordering::Relaxed) >= 4 {
                Ok(())
            } else {
                Err(Error::new(Kind::Internal, "full"))
            }
        });
        let hopeless = freeing(&disk, || Err::<(), _>(Error::new(Kind::Internal, "full")));

        assert!(done.is_ok());
        assert_eq!(tries, 5);
        assert!(hopeless.is_err());
    }
}
