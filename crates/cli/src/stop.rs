//! Why a verb did not come to its end.

use std::io;

use coracle::Error;

/// Either something failed, or nobody listens any more.
#[derive(Debug)]
pub enum Stop {
    Failed(Error),
    /// Whoever read our output has closed it. No error: `coracle logs … | head` is an ordinary thing to say.
    Unheard,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// For failures to write what was asked for; others are made into an [`Error`] where they happen.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unheard,
            _ => Self::Failed(Error::internal("could not write to standard output", error)),
        }
    }
}
