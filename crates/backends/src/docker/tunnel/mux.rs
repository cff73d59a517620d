//! The few messages of OpenSSH's `PROTOCOL.mux` that check, use and end a connection.
//!
//! We speak it ourselves instead of running `ssh -O`, which takes a process each time, has no deadline when the
//! master hangs, and adds the forwardings of the user's settings.

use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const HELLO: u32 = 1;
const VERSION: u32 = 4;
const ALIVE_CHECK: u32 = 0x1000_0004;
const TERMINATE: u32 = 0x1000_0005;
const OPEN_FORWARD: u32 = 0x1000_0006;
const OK: u32 = 0x8000_0001;
const ALIVE: u32 = 0x8000_0005;
const LOCAL: u32 = 1;
/// Stands for a port where an address is a path.
const PATH: u32 = -2_i32 as u32;

/// How long a master may take to answer before we replace it. It answers from its event loop, at once, unless the
/// machine is busy; and replacing it cuts the connections that other calls have over it.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long a master that we end may take to answer before it is killed.
pub const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// A new master does not hang: on a busy machine it may have to wait for its turn.
pub const FIRST_PATIENCE: Duration = Duration::from_secs(20);
/// A master's messages have a few words at most; ssh itself stops at 256 KiB.
const MESSAGE_MAX: usize = 16 * 1024;

/// A connection to a master that is alive.
#[derive(Debug)]
pub struct Mux {
    stream: UnixStream,
}

impl Mux {
    /// Connects to a master and reads its greeting. Fails in bounded time if it hangs.
    pub fn greet(control: &Path, patience: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(control)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut mux = Self { stream };
        match words(&mux.hear()?)[..] {
            [HELLO, VERSION, ..] => mux.say(&[HELLO, VERSION], &[]).map(|()| mux),
            _ => Err(unexpected("a greeting")),
        }
    }

    /// Returns the process of the master.
    pub fn process(&mut self) -> io::Result<u32> {
        self.say(&[ALIVE_CHECK, 0], &[])?;
        match words(&self.hear()?)[..] {
            [ALIVE, 0, process] => Ok(process),
            _ => Err(unexpected("a process")),
        }
    }

    /// Forwards connections from the socket `local` here to the socket `remote` there.
    pub fn forward(&mut self, local: &Path, remote: &Path) -> io::Result<()> {
        let mut rest = Vec::new();
        for path in [local, remote] {
            let path = path.as_os_str().as_bytes();
            rest.extend(length(path)?);
            rest.extend(path);
            rest.extend(PATH.to_be_bytes());
        }
        self.say(&[OPEN_FORWARD, 0, LOCAL], &rest)?;
        let answer = self.hear()?;
        match words(&answer)[..] {
            [OK, ..] => Ok(()),
            _ => Err(io::Error::other(format!(
                "ssh says: {}",
                answer.get(12..).unwrap_or_default().escape_ascii()
            ))),
        }
    }

    /// Ends the master and returns when it has closed our connection.
    pub fn terminate(mut self) -> io::Result<()> {
        self.say(&[TERMINATE, 0], &[])?;
        // An answer, then the end; the protocol does not promise the order.
        while !self.hear()?.is_empty() {}
        Ok(())
    }

    fn say(&mut self, numbers: &[u32], rest: &[u8]) -> io::Result<()> {
        let mut body: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        body.extend(rest);
        let mut message = length(&body)?.to_vec();
        message.extend(body);
        self.stream.write_all(&message)
    }

    /// Returns the next message; an empty one at the end of the connection.
    fn hear(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Vec::new()),
            read => read?,
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MESSAGE_MAX {
            return Err(unexpected("a short message"));
        }
        let mut message = vec![0; length];
        self.stream.read_exact(&mut message)?;
        Ok(message)
    }
}

fn words(message: &[u8]) -> Vec<u32> {
    message.as_chunks().0.iter().map(|word| u32::from_be_bytes(*word)).collect()
}

fn length(bytes: &[u8]) -> io::Result<[u8; 4]> {
    u32::try_from(bytes.len()).map(u32::to_be_bytes).map_err(io::Error::other)
}

fn unexpected(what: &str) -> io::Error {
    io::Error::other(format!("ssh's master did not answer with {what}"))
}
