//! Commands, and sandboxes, that end with the process that wants them, however that dies: the guest ends what is tied to
//! a connection when the kernel has closed that.

use std::time::Duration;

use coracle_core::{Error, ExecId, Kind, Record, Result};

use super::Access;
use crate::access::gate::Inside;
use crate::access::rejoin;
use crate::call::{Call, Notice};

/// What is left to a client whose connection broke though it lives, to tie again: longer than it looks for the guest.
const GRACE: Duration = Duration::from_secs(rejoin::PATIENCE.as_secs() + 5);

/// What ends with a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tied {
    Exec(ExecId),
    Sandbox,
}

impl Tied {
    fn exec(&self) -> Option<&str> {
        match self {
            Self::Exec(exec) => Some(exec.as_str()),
            Self::Sandbox => None,
        }
    }
}

impl Access {
    /// Ties an exec that is about to be started, or the sandbox, to the connection. Tells whether it is tied: where it
    /// cannot be, the observer hears of it and the call goes on.
    pub(crate) fn tie(&self, call: &Call, inside: &mut Inside, what: Tied) -> Result<bool> {
        let grace = self.grace_of(&inside.record);
        match inside.guest.tie(what.exec(), grace).map_err(Error::from) {
            Ok(()) => {
                inside.tied = Some(what);
                Ok(true)
            }
            Err(error) if error.kind == Kind::Unsupported => {
                call.observer.notice(&Notice::OldGuest);
                Ok(false)
            }
            Err(error) if error.kind == Kind::LimitExceeded => {
                call.observer.notice(&Notice::Untied { reason: error.chain() });
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Goes on over another connection after the last one broke, and ties again what was tied to it. Tells whether the
    /// guest was found.
    pub(crate) fn rejoin_inside(&self, call: &Call, inside: &mut Inside) -> bool {
        let found = self.rejoin(&call.cancel, &inside.record, inside.guest.epoch());
        let Some(mut guest) = found else { return false };
        if let Some(tied) = &inside.tied {
            // If that breaks, too, the next request finds out.
            let _ = guest.tie(tied.exec(), GRACE);
        }
        inside.guest = guest;
        true
    }

    /// Only where something else than the client's death can end a connection is there a second chance.
    pub(crate) fn grace_of(&self, record: &Record) -> Duration {
        let breaks = record.placement.as_ref().is_some_and(|placement| {
            self.placement.backend_of(record).is_ok_and(|backend| backend.may_break(placement))
        });
        if breaks { GRACE } else { Duration::ZERO }
    }
}
