//! Ports of a sandbox, reached from outside: one connection at a time, each let in by the gate.

use std::net::TcpStream;

use coracle_core::{Error, Result};
use coracle_egress::carry::{Ends, Outward, carry};
use coracle_egress::pace::Pace;
use coracle_wire::FaultCode;

use super::Egress;
use crate::access::gate::Inside;
use crate::guest::Failure;

impl Egress {
    /// Joins a local connection to a port of the sandbox and carries it to its end. It ends as well when the sandbox
    /// gets another owner.
    ///
    /// Fails with `not_found` if nothing listens there.
    pub(crate) fn forward(&self, inside: Inside, port: u16, local: &TcpStream) -> Result<()> {
        let joined = inside.guest.join(port);
        let (stream, rest) = joined.map_err(|failure| not_listening(failure, port))?;
        let pace = Pace::new(None);
        let ends = Ends { client: &stream, server: local, pace: &pace };
        // A connection that breaks is over; both of its ends know.
        let _ = carry(ends, Vec::new(), Outward::Everything, &rest);
        Ok(())
    }
}

/// Adds the port to the error, where nothing listens there.
fn not_listening(failure: Failure, port: u16) -> Error {
    let at_port = matches!(&failure, Failure::Fault(fault) if fault.code == FaultCode::NotFound);
    match (Error::from(failure), at_port) {
        (error, true) => error.detail("port", port),
        (error, false) => error,
    }
}
