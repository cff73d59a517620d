//! The guest of a sandbox, as its keeper reaches it. The keeper itself knows no backend and no secret.
//!
//! It acts for the sandbox, not for its owner, and asks for clients alone: the gate lets it in as a part of the engine.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use coracle_core::{Kind, Record};
use coracle_egress::keeper::{self, Lost, Parked};
use coracle_wire::Refusal;

use crate::access::{Access, gate};
use crate::guest::Failure;

/// The guest of one record.
#[derive(Debug, Clone)]
pub(super) struct KeptGuest {
    pub(super) access: Arc<Access>,
    pub(super) record: Record,
}

impl keeper::Guest for KeptGuest {
    fn connect(&self) -> Result<UnixStream, Lost> {
        self.access.stream_to(&self.record).map_err(|error| match error.kind {
            Kind::NotFound => Lost::Guest,
            _ => Lost::Connection,
        })
    }

    fn greet(&self, stream: UnixStream) -> Result<Parked, Lost> {
        let guest = gate::introduce(&self.record, stream).map_err(|failure| self.lost(&failure))?;
        let kept = self.clone();
        Ok(Box::new(move || guest.accept().map_err(|failure| kept.lost(&failure))))
    }
}

impl KeptGuest {
    /// A guest that hangs up may have dropped one connection only. The second attempt tells.
    fn lost(&self, failure: &Failure) -> Lost {
        match failure {
            Failure::Gone if keeper::Guest::connect(self).is_err_and(|lost| lost == Lost::Guest) => {
                Lost::Guest
            }
            // The sandbox has another guest now, and that one a keeper of its own.
            Failure::Refused(Refusal::WrongSecret) => Lost::Guest,
            _ => Lost::Connection,
        }
    }
}
