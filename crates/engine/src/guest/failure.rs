//! Why a guest did not do what was asked, and what the doors say about it.

use coracle_core::{Error, Kind};
use coracle_wire::{Fault, FaultCode, FrameError, Refusal, Stage};

use super::errno::{self, name};

/// What went wrong between host and guest.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The stream ended: the guest is dead, or dropped us.
    #[error("the guest closed the connection")]
    Gone,
    #[error("the guest did not answer in time")]
    Silent,
    #[error("the guest refused the connection: {}", refusal(.0))]
    Refused(Refusal),
    #[error("could not use the stream to the guest")]
    Stream(#[source] std::io::Error),
    /// What was to be sent could not be read.
    #[error("could not read what is to be written into the sandbox")]
    Source(#[source] std::io::Error),
    #[error("the guest sent bytes that are no message")]
    Garbled(#[source] FrameError),
    #[error("the guest answered something else than was asked")]
    Unexpected,
    #[error("the request has {bytes} bytes, more than a guest takes")]
    TooLarge { bytes: usize },
    #[error("{}", .0.message)]
    Fault(Fault),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Fault(fault) => faulted(&fault),
            Failure::TooLarge { .. } => Self::new(Kind::Invalid, failure.to_string())
                .hint("put large data into a file of the sandbox or on standard input"),
            Failure::Silent => Self::new(Kind::NotAvailable, "could not reach the guest of the sandbox")
                .hint("see whether the machine is overloaded, or whether its container is paused (`docker unpause` lets it go on)")
                .caused_by(failure),
            Failure::Refused(Refusal::TooManyConnections) => {
                Self::new(Kind::LimitExceeded, "the guest of the sandbox has too many connections")
                    .hint("try again when some of the calls that wait for its commands have ended")
            }
            Failure::Gone | Failure::Refused(_) | Failure::Stream(_) => {
                Self::new(Kind::NotAvailable, "could not reach the guest of the sandbox").caused_by(failure)
            }
            Failure::Source(error) => {
                Self::internal("could not read what is to be written into the sandbox", error)
            }
            Failure::Garbled(_) | Failure::Unexpected => {
                Self::internal("could not understand the guest of the sandbox", failure)
            }
        }
    }
}

fn refusal(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::WrongSecret => "it does not know this secret",
        Refusal::NoCommonVersion => "it speaks no version that this coracle speaks",
        Refusal::TooManyConnections => "it has too many connections",
    }
}

fn faulted(fault: &Fault) -> Error {
    let error = Error::new(kind(fault), fault.message.clone());
    let error = match fault.errno {
        Some(errno) => error.detail("errno", name(errno)).caused_by(std::io::Error::from_raw_os_error(errno)),
        None => error,
    };
    match fault.code {
        FaultCode::StaleEpoch { current } => error
            .detail("current_epoch", current)
            .hint("the sandbox has changed hands since; claim it again to learn the epoch of your lease"),
        FaultCode::NotStarted { stage } => not_started(error, stage, fault.errno),
        FaultCode::Unknown => error.hint("the sandbox was started by an older coracle; open a new one"),
        FaultCode::File => match fault.errno.and_then(file_hint) {
            Some(hint) => error.hint(hint),
            None => error,
        },
        FaultCode::NotFound
        | FaultCode::Conflict
        | FaultCode::Invalid
        | FaultCode::Limit
        | FaultCode::Unsupported
        | FaultCode::Internal => error,
    }
}

fn kind(fault: &Fault) -> Kind {
    match fault.code {
        FaultCode::StaleEpoch { .. } => Kind::StaleEpoch,
        FaultCode::NotFound => Kind::NotFound,
        FaultCode::Conflict => Kind::Conflict,
        FaultCode::Invalid => Kind::Invalid,
        FaultCode::NotStarted { stage } => kind_not_started(stage, fault.errno),
        FaultCode::File => fault.errno.map_or(Kind::Internal, kind_of_file),
        FaultCode::Limit => Kind::LimitExceeded,
        FaultCode::Unknown | FaultCode::Unsupported => Kind::Unsupported,
        FaultCode::Internal => Kind::Internal,
    }
}

fn kind_of_file(errno: i32) -> Kind {
    match errno {
        errno::ENOENT => Kind::NotFound,
        errno::EEXIST | errno::EBUSY => Kind::Conflict,
        errno::ENOSPC | errno::EDQUOT | errno::EFBIG | errno::EMLINK => Kind::LimitExceeded,
        errno::EACCES
        | errno::EPERM
        | errno::EISDIR
        | errno::ENOTDIR
        | errno::ENOTEMPTY
        | errno::ELOOP
        | errno::EXDEV
        | errno::ENAMETOOLONG
        | errno::EINVAL
        | errno::EROFS => Kind::Invalid,
        _ => Kind::Internal,
    }
}

fn file_hint(errno: i32) -> Option<&'static str> {
    match errno {
        errno::EISDIR => Some("it is a directory: list it, or name a file in it"),
        errno::EEXIST => {
            Some("there is something with that name already: choose another name, or have it replaced")
        }
        errno::EXDEV => {
            Some("a relative path stays in the workspace; an absolute one may go anywhere in the sandbox")
        }
        errno::EBUSY => Some("something is mounted there; delete what is in it instead"),
        _ => None,
    }
}

fn kind_not_started(stage: Stage, errno: Option<i32>) -> Kind {
    match (stage, errno) {
        (Stage::Directory | Stage::User, _) => Kind::Invalid,
        (Stage::Fork, Some(errno::EAGAIN | errno::ENOMEM)) => Kind::LimitExceeded,
        (Stage::Prepare | Stage::Fork | Stage::Confine | Stage::Execute, _) => Kind::ExecutionFailed,
    }
}

fn not_started(error: Error, stage: Stage, errno: Option<i32>) -> Error {
    let error = error.detail("stage", stage_name(stage));
    match (stage, errno) {
        (Stage::Directory, _) => {
            error.detail("field", "cwd").hint("name a directory that is there in the sandbox")
        }
        (Stage::User, _) => error.detail("field", "user"),
        (Stage::Fork, Some(errno::EAGAIN)) => error
            .detail("limit", "pids")
            .hint("stop processes in the sandbox, or open one with a higher `limits.pids`"),
        (Stage::Fork, Some(errno::ENOMEM)) => error.detail("limit", "memory"),
        // As a shell has it: 127 where there is no such program, 126 where it is there but cannot be executed.
        (Stage::Execute, Some(errno::ENOENT)) => error.detail("exit_code", 127),
        (Stage::Execute, Some(_)) => error.detail("exit_code", 126),
        (Stage::Prepare | Stage::Fork | Stage::Confine | Stage::Execute, _) => error,
    }
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Prepare => "prepare",
        Stage::Fork => "fork",
        Stage::Directory => "directory",
        Stage::User => "user",
        Stage::Confine => "confine",
        Stage::Execute => "execute",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_with_too_many_connections_is_there() {
        let error = Error::from(Failure::Refused(Refusal::TooManyConnections));

        assert_eq!(error.kind, Kind::LimitExceeded, "who waits a little gets in");
    }
}
