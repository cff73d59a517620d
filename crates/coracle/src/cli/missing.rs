//! Walls and limits that are not enforced here: each said once in each home.
//!
//! `show` and `doctor` always have them; repeating them before the output of every command would only teach people
//! not to read standard error.

use std::path::Path;

use super::stderr;

/// Says what is missing, unless this home was told the same before.
pub fn say_once(missing: &[String], home: &Path) {
    let said = home.join("said");
    let mut text = std::fs::read_to_string(&said).unwrap_or_default();
    let new: Vec<_> = missing.iter().filter(|wall| !text.lines().any(|line| line == *wall)).collect();
    if new.is_empty() {
        return;
    }
    for wall in new {
        stderr::note(&format!("not enforced here: {wall}"));
        text.push_str(wall);
        text.push('\n');
    }
    stderr::note("`coracle doctor` says what can be done about it; this is not said again");
    // If it cannot be kept, it is said twice.
    let _ = std::fs::write(said, text);
}
