//! Walls and limits that are not enforced here: each said once in each home. `show` and `doctor` always have them.

use coracle_core::Home;

use super::{said, stderr};

/// Says what is missing, unless this home was told the same before.
pub fn say_once(missing: &[String], home: &Home) {
    let new = said::news(home, missing);
    for wall in &new {
        stderr::note(&format!("not enforced here: {wall}"));
    }
    if !new.is_empty() {
        stderr::note("`coracle doctor` says what can be done about it; this is not said again");
    }
}
