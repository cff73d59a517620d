//! The way into a sandbox for callers: through the gate, and awake. A sandbox that sleeps is woken first.

mod rest;
mod wake;

use std::net::TcpStream;
use std::sync::Arc;

use coracle_core::hibernation::Hibernation;
use coracle_core::spec::OnIdle;
use coracle_core::{Error, Kind, Record, Result, SandboxId};

use crate::access::Access;
use crate::access::expiry::is_asleep;
use crate::access::gate::Inside;
use crate::egress::Egress;
use crate::headroom::Headroom;
use crate::holdings::Holdings;
use crate::placement::Placement;
use crate::records::Records;
use crate::{Call, Caller};

/// Lets callers in, puts sandboxes to sleep and wakes them.
#[derive(Debug)]
pub struct Entry {
    records: Arc<Records>,
    placement: Arc<Placement>,
    holdings: Arc<Holdings>,
    headroom: Arc<Headroom>,
    access: Arc<Access>,
    egress: Arc<Egress>,
}

/// What callers are let in with.
pub(crate) struct EntryParts {
    pub records: Arc<Records>,
    pub placement: Arc<Placement>,
    pub holdings: Arc<Holdings>,
    pub headroom: Arc<Headroom>,
    pub access: Arc<Access>,
    pub egress: Arc<Egress>,
}

impl Entry {
    pub(crate) fn new(parts: EntryParts) -> Self {
        let EntryParts { records, placement, holdings, headroom, access, egress } = parts;
        Self { records, placement, holdings, headroom, access, egress }
    }

    /// Lets the caller in to work, if the sandbox is the caller's.
    pub(crate) fn enter(&self, call: &Call, id: &SandboxId) -> Result<Inside> {
        self.awake(call, id, || self.access.enter(&call.caller, id))
    }

    /// Lets the caller in to look at files.
    pub(crate) fn enter_to_look(&self, call: &Call, id: &SandboxId) -> Result<Inside> {
        self.awake(call, id, || self.access.enter_to_look(&call.caller, id))
    }

    /// Wakes a sandbox of the caller's if it sleeps, for what goes on to work with it under its work lock.
    pub(crate) fn rouse(&self, call: &Call, id: &SandboxId) -> Result<()> {
        match self.access.find_for(&call.caller, id)?.spec.on_idle() {
            OnIdle::Hibernate => self.enter_to_look(call, id).map(drop),
            OnIdle::Destroy => Ok(()),
        }
    }

    /// Checks that the caller may use the sandbox now.
    pub fn check_entry(&self, caller: &Caller, id: &SandboxId) -> Result<()> {
        self.enter(&caller.clone().into(), id).map(drop)
    }

    /// Joins a local connection to a port of the sandbox and carries it to its end.
    pub fn forward(&self, caller: &Caller, id: &SandboxId, port: u16, local: &TcpStream) -> Result<()> {
        self.egress.forward(self.enter(&caller.clone().into(), id)?, port, local)
    }

    /// Returns what keeps the files of a sandbox. Its backend could when it was made.
    fn hibernation_of(&self, record: &Record) -> Result<&dyn Hibernation> {
        let what =
            || format!("backend `{}` cannot keep the files of a sandbox without its guest", record.backend);
        let backend = self.placement.backend_of(record)?;
        backend.hibernation().ok_or_else(|| Error::new(Kind::Unsupported, what()))
    }

    /// Tries again where the gate has let the caller in and found the sandbox asleep: it checks the owner first, so that no
    /// other caller wakes anything.
    fn awake(&self, call: &Call, id: &SandboxId, enter: impl Fn() -> Result<Inside>) -> Result<Inside> {
        match enter() {
            Err(error) if is_asleep(&error) => {
                self.wake(call, id)?;
                enter()
            }
            entered => entered,
        }
    }
}
