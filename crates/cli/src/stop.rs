//! Why a verb did not finish.

use std::io;

use coracle::Error;

/// Either something failed, or our output has no reader any more.
#[derive(Debug)]
pub enum Stop {
    Failed(Error),
    /// The reader of our output has closed it. No error: `coracle logs … | head` is ordinary.
    Unheard,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// For failures to write output; others become an [`Error`] where they happen.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unheard,
            _ => Self::Failed(Error::internal("could not write to standard output", error)),
        }
    }
}
