//! The client of the helper inside a sandbox: one connection, blocking.
//!
//! A `Guest` stamps every request with the epoch it was given; whether that epoch is still good only the guest
//! decides. Admission by the store happens before, at the gate.

mod capture;
mod errno;
mod excerpt;
mod execs;
mod failure;
mod files;
pub(crate) mod hold;
mod link;
mod program;
mod tunnel;

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_core::Epoch;
use coracle_core::record::{Record, Secret};
use coracle_wire::{
    Acting, Body, Hello, Refusal, Reply, Request, Running, Status, VERSION_MAX, VERSION_MIN, Welcome,
};

pub use self::capture::{Capture, Launch};
pub use self::excerpt::Gap;
pub use self::execs::{ALL_CHUNKS, FOR_EVER, GRACE_MAX, WAIT_SLICE};
pub use self::failure::Failure;
pub use self::files::{Links, Listing, Piece, Writing};
use self::link::Link;
pub use self::link::PATIENCE;

/// A command that is being started, or waits for its disk, is waited for before all stand still.
const FREEZE_TIME: Duration = Duration::from_secs(30);

/// Whether commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Still,
    Going,
}

/// A sandbox that is held.
#[derive(Debug, Clone, Copy)]
pub struct Holding {
    /// No command has a process in it, and no file is half written.
    pub idle: bool,
    /// The guest ends it by itself, and it can be renewed. Older guests hold until the connection ends.
    pub leased: bool,
}

/// An open connection to a guest.
#[derive(Debug)]
pub struct Guest {
    link: Link,
    welcome: Welcome,
    epoch: Epoch,
    /// Whose rights requests about files have.
    acting: Option<Acting>,
}

impl Guest {
    /// Introduces itself and acts under `epoch` from then on.
    pub fn connect(stream: UnixStream, secret: &Secret, epoch: Epoch) -> Result<Self, Failure> {
        Self::connect_speaking(stream, secret, epoch, VERSION_MIN..=VERSION_MAX)
    }

    /// Like `connect`, claiming to speak other versions than this build does.
    pub fn connect_speaking(
        stream: UnixStream,
        secret: &Secret,
        epoch: Epoch,
        versions: RangeInclusive<u16>,
    ) -> Result<Self, Failure> {
        let mut link = Link::new(stream)?;
        link.queue(&Hello { oldest: *versions.start(), newest: *versions.end(), secret: secret.0.to_vec() })?;
        link.flush()?;
        let welcome = link.receive::<Result<Welcome, Refusal>>(Duration::ZERO)?.map_err(Failure::Refused)?;
        Ok(Self { link, welcome, epoch, acting: None })
    }

    /// Returns what the guest said of itself at the start.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Returns the epoch requests are stamped with.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Stamps requests with another epoch from now on.
    pub fn act_under(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// Tells whether it knows users of files, and the requests that came with them.
    pub fn knows_users(&self) -> bool {
        self.welcome.acting == Some(true)
    }

    /// Has requests about files carried out with these rights from now on; with none, with the guest's own.
    pub fn act_for(&mut self, acting: Option<Acting>) {
        self.acting = acting;
    }

    /// Tells whether the connection can take another request. After a failure that is no fault it cannot.
    pub fn is_usable(&self) -> bool {
        self.link.is_settled()
    }

    /// Returns another handle of the connection, by which it can be cut off while it waits.
    pub fn handle(&self) -> io::Result<UnixStream> {
        self.link.stream().try_clone_to_owned().map(UnixStream::from)
    }

    /// Raises the guest's fence to the epoch of this connection. What runs goes on.
    pub fn fence(&mut self) -> Result<(), Failure> {
        self.ask_fence(Body::Fence { running: Running::Keep, before: None })
    }

    /// Raises the guest's fence to the epoch of this connection, and has what was started before `epoch` killed. Succeeds
    /// once all of it is dead.
    pub fn kill_before(&mut self, epoch: Epoch) -> Result<(), Failure> {
        self.ask_fence(Body::Fence { running: Running::Kill, before: Some(epoch.0) })
    }

    fn ask_fence(&mut self, body: Body) -> Result<(), Failure> {
        match self.ask(body, Duration::ZERO)? {
            Reply::Done {} => Ok(()),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Tells a guest that was started ahead whose sandbox it is now. With a `tie`, also asks it to tie the sandbox to this
    /// connection with that grace, and tells whether it has: older guests do not.
    pub fn adopt(&mut self, record: &Record, tie: Option<Duration>) -> Result<bool, Failure> {
        let env = record.spec.env.iter();
        let body = Body::Adopt {
            env: env.map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())).collect(),
            workdir: record.workdir().as_bytes().to_vec(),
            ttl_ms: execs::millis(record.spec.limits.idle()),
            tie_grace_ms: tie.map(execs::millis),
        };
        match self.ask(body, Duration::ZERO)? {
            Reply::Done {} => Ok(false),
            Reply::AdoptedTied {} => Ok(true),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Returns what the guest says of itself.
    pub fn status(&mut self) -> Result<Status, Failure> {
        self.ask_status(None)
    }

    /// Like [`Guest::status`], without being a use of the sandbox.
    pub fn status_unnoticed(&mut self) -> Result<Status, Failure> {
        self.ask_status(Some(true))
    }

    fn ask_status(&mut self, unnoticed: Option<bool>) -> Result<Status, Failure> {
        match self.ask(Body::Status { unnoticed }, Duration::ZERO)? {
            Reply::Status(status) => Ok(status),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Has the commands stand still, or go on.
    pub fn set_pace(&mut self, pace: Pace) -> Result<(), Failure> {
        let body = match pace {
            Pace::Still => Body::Pause {},
            Pace::Going => Body::Resume {},
        };
        match self.ask(body, FREEZE_TIME)? {
            Reply::Done {} => Ok(()),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Holds the sandbox as it is until it is let go, this connection ends, or `lease` is over.
    pub fn hold(&mut self, lease: Duration) -> Result<Holding, Failure> {
        self.ask_hold(lease, None, FREEZE_TIME)
    }

    /// Has changes wait as [`Guest::hold`] does, while commands go on.
    pub fn hold_changes(&mut self, lease: Duration) -> Result<Holding, Failure> {
        self.ask_hold(lease, Some(true), Duration::ZERO)
    }

    /// Counts the lease of what this connection holds from now. A conflict if it was let go in between. Only for what is
    /// [`Holding::leased`].
    pub fn renew_hold(&mut self, lease: Duration) -> Result<(), Failure> {
        self.ask_hold(lease, None, Duration::ZERO).map(drop)
    }

    fn ask_hold(
        &mut self,
        lease: Duration,
        changes_only: Option<bool>,
        wait: Duration,
    ) -> Result<Holding, Failure> {
        let body = Body::Hold { lease_ms: Some(execs::millis(lease)), changes_only };
        match self.ask(body, wait)? {
            Reply::Held { idle, lease_ms } => Ok(Holding { idle, leased: lease_ms.is_some() }),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Ends a hold.
    pub fn let_go(&mut self) -> Result<(), Failure> {
        match self.ask(Body::LetGo {}, FREEZE_TIME)? {
            Reply::Done {} => Ok(()),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Returns the stream itself.
    pub fn stream(&self) -> BorrowedFd<'_> {
        self.link.stream()
    }

    /// Sends one request and returns its answer, which may take `wait` longer than others.
    fn ask(&mut self, body: Body, wait: Duration) -> Result<Reply, Failure> {
        self.queue(body)?;
        self.flush()?;
        self.answer(wait)
    }

    fn queue(&mut self, body: Body) -> Result<(), Failure> {
        let acting = self.acting.clone().filter(|_| body.is_about_files());
        self.link.queue(&Request { epoch: self.epoch.0, body, acting })
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.link.flush()
    }

    fn answer(&mut self, wait: Duration) -> Result<Reply, Failure> {
        match self.link.receive(wait)? {
            Reply::Fault(fault) => Err(Failure::Fault(fault)),
            reply => Ok(reply),
        }
    }
}
