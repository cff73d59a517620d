//! Has the guest run a program of ours as a user of the sandbox, and becomes the connection to it.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_wire::{Body, Reply};

use super::{Failure, Guest};

/// How long a guest on a busy machine may take to start it.
const START: Duration = Duration::from_secs(60);

impl Guest {
    /// Runs a program. Returns the connection that is its standard input and output; the program ends with it.
    pub fn run_program(mut self, program: &[u8], user: Option<&str>) -> Result<UnixStream, Failure> {
        let body =
            Body::Program { size: program.len() as u64, user: user.map(|user| user.as_bytes().to_vec()) };
        self.expect_done(body)?;
        self.link.send_raw(program)?;
        match self.answer(START)? {
            Reply::Done {} => {}
            _ => return Err(Failure::Unexpected),
        }
        match self.link.into_stream()? {
            (stream, rest) if rest.is_empty() => Ok(stream),
            _ => Err(Failure::Unexpected),
        }
    }

    fn expect_done(&mut self, body: Body) -> Result<(), Failure> {
        match self.ask(body, Duration::ZERO)? {
            Reply::Done {} => Ok(()),
            _ => Err(Failure::Unexpected),
        }
    }
}
