//! Walls and limits that are not enforced here: each is reported once in each home. `show` and `doctor` always list
//! them.

use coracle_core::Home;

use super::{seen_notes, stderr};

/// Reports what is missing, unless this home has reported the same before.
pub fn say_once(missing: &[String], home: &Home) {
    let new = seen_notes::news(home, missing);
    for wall in &new {
        stderr::note(&format!("not enforced here: {wall}"));
    }
    if !new.is_empty() {
        stderr::note("`coracle doctor` says what can be done about it; this note is not repeated");
    }
}
