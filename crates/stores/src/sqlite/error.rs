//! Turns database failures into errors for users.

use std::path::Path;

use coracle_core::error::{DISK_FULL, Error, Kind};
use coracle_core::ids::SandboxId;
use rusqlite::ErrorCode;

/// The detail by which doors recognise a lost database.
const LOST: &str = "database_lost";

/// Tells whether another process held the database, so that trying again can help.
pub fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Returns the error doors show for a database that could not do what was attempted.
pub fn from_sqlite(error: rusqlite::Error, attempt: &str, path: &Path) -> Error {
    let shown = path.display();
    if let Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) = error.sqlite_error_code() {
        return lost(format!("could not {attempt} in `{shown}`"), advice(path)).caused_by(error);
    }
    let (kind, hint) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            Kind::NotAvailable,
            "another coracle holds the database; look for one that hangs, then try again".to_owned(),
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => (
            Kind::NotAvailable,
            "check that you own the home directory and may write to it, or choose another with `--home`"
                .to_owned(),
        ),
        Some(ErrorCode::DiskFull) => {
            (Kind::NotAvailable, "free some space on the disk of the home directory".to_owned())
        }
        Some(ErrorCode::SystemIoFailure) => (
            Kind::Internal,
            "check the disk of the home directory and that it is a local file system".to_owned(),
        ),
        Some(ErrorCode::ConstraintViolation) => {
            (Kind::Conflict, "choose another session key, or close the sandbox that has it".to_owned())
        }
        _ => (Kind::Internal, "run `coracle doctor`".to_owned()),
    };
    let full = matches!(
        error.sqlite_error_code(),
        // A full disk may also prevent SQLite from making its files.
        Some(ErrorCode::DiskFull | ErrorCode::CannotOpen)
    );
    let shown = Error::new(kind, format!("could not {attempt} in `{shown}`")).hint(hint).caused_by(error);
    if full { shown.detail(DISK_FULL, true) } else { shown }
}

/// Returns the error that records are lost or unreadable. Running sandboxes still exist, and the home's id finds
/// them.
pub fn lost(message: String, advice: impl Into<String>) -> Error {
    Error::new(Kind::Internal, message).hint(advice).detail(LOST, true)
}

/// Returns the hint for a database that cannot be used any more.
pub fn advice(path: &Path) -> String {
    let shown = path.display();
    format!(
        "put it back as it was; if that cannot be done, move `{shown}` and its `-wal` and `-shm` files away and run `coracle gc`: what still runs is set aside, not deleted"
    )
}

/// Tells whether an error says that records are lost.
pub fn is_lost(error: &Error) -> bool {
    error.details.contains_key(LOST)
}

/// Returns the error for an id no record has.
pub fn unknown(id: &SandboxId) -> Error {
    Error::new(Kind::NotFound, format!("there is no sandbox `{id}`"))
        .hint("see `coracle ps` for those there are")
        .detail("sandbox_id", id.as_str())
}
