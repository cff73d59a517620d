//! Exit codes: the command's own, and a number for every other end.

use std::process::ExitCode;

use coracle::{Error, Kind};
use coracle_core::exec::Outcome;
use coracle_engine::progress::Progress;

/// Shown below the help.
pub const HELP: &str = "\
Exit codes of run, exec and wait: the command's own; 128+n killed by signal n; 124 timed out; 125 coracle failed;
126 not executable; 127 not found; 137 out of memory; 143 stopped";

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(u8);

impl Exit {
    pub const SUCCESS: Self = Self(0);
    /// A check found something wrong.
    pub const FOUND: Self = Self(1);
    /// Coracle failed, or did not understand the request.
    pub const FAILED: Self = Self(125);

    /// Returns the exit code for a command's end.
    pub fn of_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Exited { code } => Self(low_byte(code)),
            Outcome::Signalled { signal } => Self(low_byte(128 + signal)),
            Outcome::OomKilled => Self(137),
            Outcome::TimedOut => Self(124),
            Outcome::Stopped => Self(143),
            Outcome::Lost => Self::FAILED,
        }
    }

    /// Returns the exit code for an ended exec; one that has not ended counts as failed.
    pub fn of_progress(progress: &Progress) -> Self {
        progress.outcome.map_or(Self::FAILED, Self::of_outcome)
    }

    /// Returns the exit code for a signal that ended coracle itself.
    pub fn of_signal(signal: i32) -> Self {
        Self(low_byte(128 + signal))
    }

    /// Returns the exit code for a failure.
    pub fn of_error(error: &Error) -> Self {
        match error.kind {
            Kind::ExecutionFailed => error
                .details
                .get("exit_code")
                .and_then(serde_json::Value::as_u64)
                .and_then(|code| u8::try_from(code).ok())
                .map_or(Self::FAILED, Self),
            Kind::Invalid
            | Kind::NotFound
            | Kind::NotOwner
            | Kind::StaleEpoch
            | Kind::LentOut
            | Kind::Conflict
            | Kind::LimitExceeded
            | Kind::ImageNotFound
            | Kind::ImageNotAllowed
            | Kind::NotAvailable
            | Kind::Unsupported
            | Kind::StartFailed
            | Kind::Timeout
            | Kind::Aborted
            | Kind::EgressDenied
            | Kind::Denied
            | Kind::Internal => Self::FAILED,
        }
    }

    /// Returns the number.
    pub fn code(self) -> i32 {
        i32::from(self.0)
    }

    /// Ends the process at once, whatever its other threads do.
    pub fn leave(self) -> ! {
        std::process::exit(i32::from(self.0))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// As in a shell: of a larger number the kernel passes on the low byte.
fn low_byte(code: i32) -> u8 {
    code.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_code() {
        let table = [
            (Outcome::Exited { code: 0 }, 0),
            (Outcome::Exited { code: 7 }, 7),
            (Outcome::Exited { code: 255 }, 255),
            (Outcome::Signalled { signal: 9 }, 137),
            (Outcome::Signalled { signal: 15 }, 143),
            (Outcome::OomKilled, 137),
            (Outcome::TimedOut, 124),
            (Outcome::Stopped, 143),
            (Outcome::Lost, 125),
        ];

        for (outcome, code) in table {
            assert_eq!(Exit::of_outcome(outcome), Exit(code), "{outcome:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_127_and_other_failures_are_125() {
        let missing = Error::new(Kind::ExecutionFailed, "no such program").detail("exit_code", 127);
        let locked = Error::new(Kind::ExecutionFailed, "not executable").detail("exit_code", 126);
        let other = Error::new(Kind::ExecutionFailed, "could not confine it");
        let impostor = Error::new(Kind::NotFound, "no sandbox").detail("exit_code", 0);

        let codes = [missing, locked, other, impostor].each_ref().map(Exit::of_error);

        assert_eq!(codes, [Exit(127), Exit(126), Exit::FAILED, Exit::FAILED]);
    }
}
