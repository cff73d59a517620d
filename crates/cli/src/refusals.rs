//! Reports backends that refused: each time, because the sandbox is not where it was wanted.

use coracle_core::selection::Refusal;

use super::stderr;

/// Reports why the sandbox is on this backend and not on one that comes before it.
pub fn say(backend: &str, refused: &[Refusal]) {
    for Refusal { backend: wanted, reason, .. } in refused {
        stderr::note(&format!("`{wanted}` was not used: {reason}"));
    }
    if !refused.is_empty() {
        stderr::note(&format!("the sandbox is on `{backend}`"));
    }
}
