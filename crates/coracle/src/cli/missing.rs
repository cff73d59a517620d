//! Walls and limits that are not enforced here: said once in each home, and again when they change.
//!
//! `show` and `doctor` always have them; repeating them before the output of every command would only teach people
//! not to read standard error.

use std::path::Path;

use super::stderr;

/// Says what is missing, unless this home was told the same before.
pub fn say_once(missing: &[String], home: &Path) {
    let said = home.join("said");
    let text = missing.join("\n");
    if missing.is_empty() || std::fs::read_to_string(&said).is_ok_and(|before| before == text) {
        return;
    }
    for wall in missing {
        stderr::note(&format!("not enforced here: {wall}"));
    }
    stderr::note("`coracle doctor` says what can be done about it; this is not said again");
    // If it cannot be kept, it is said twice.
    let _ = std::fs::write(said, text);
}
