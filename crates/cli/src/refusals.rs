//! Backends that were to be used and were not: said each time, because the sandbox is not where it was wanted.

use coracle_core::selection::Refusal;

use super::stderr;

/// Says why the sandbox is on this backend and not on one that was to come first.
pub fn say(backend: &str, refused: &[Refusal]) {
    for Refusal { backend: wanted, reason, .. } in refused {
        stderr::note(&format!("`{wanted}` was not used: {reason}"));
    }
    if !refused.is_empty() {
        stderr::note(&format!("the sandbox is on `{backend}`"));
    }
}
