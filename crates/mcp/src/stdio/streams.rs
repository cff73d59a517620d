//! The client's streams, moved to where nothing else can write to them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use coracle_core::{Error, Result};
use coracle_sys::spawn::place;

const STDIN: i32 = 0;
const STDOUT: i32 = 1;
const FIRST_FREE: i32 = 3;

/// The client's output, which we read, and its input, which we write.
#[derive(Debug)]
pub struct Streams {
    pub input: File,
    pub output: File,
}

impl Streams {
    /// Takes standard input and output away from the rest of the process and from every child it starts.
    ///
    /// Descriptors 0 and 1 lead elsewhere from here on: a stray print, a panic or a child that inherits them cannot
    /// put a byte between two messages.
    pub fn take() -> Result<Self> {
        take().map_err(|error| Error::internal("could not take standard input and output", error))
    }
}

fn take() -> io::Result<Streams> {
    let aside = |stream: &dyn AsFd| -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(stream.as_fd(), FIRST_FREE)?)
    };
    let (input, output) = (aside(&io::stdin())?, aside(&io::stdout())?);
    let nothing = File::open("/dev/null")?;
    place(nothing.as_fd(), STDIN)?;
    // Accidental prints are worth seeing.
    place(io::stderr().as_fd(), STDOUT)?;
    Ok(Streams { input: input.into(), output: output.into() })
}
