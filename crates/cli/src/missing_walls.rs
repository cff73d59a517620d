//! Walls and limits that are not enforced here: each is reported once in each home. `show` and `doctor` always list
//! them.

use coracle_core::Home;
use coracle_core::mount::Mount;

use super::{seen_notes, stderr};

/// By this a home knows that it has shown the note on mounts. One is enough, whatever is mounted where.
const MOUNTS: &str = "disk: mounts";

/// Reports what is missing, unless this home has reported the same before.
pub fn say_once(missing: &[String], home: &Home) {
    let (mounts, walls): (Vec<_>, Vec<_>) =
        missing.iter().cloned().partition(|wall| on_mount(wall).is_some());
    if let Some(note) = mounts.first().and_then(|wall| on_mount(wall))
        && !seen_notes::news(home, &[MOUNTS.to_owned()]).is_empty()
    {
        stderr::note(note);
    }
    let new = seen_notes::news(home, &walls);
    for wall in &new {
        stderr::note(&format!("not enforced here: {wall}"));
    }
    if !new.is_empty() {
        stderr::note("`coracle doctor` says what can be done about it; this note is not repeated");
    }
}

/// Returns what is said of a mount, which the person has chosen and no setting changes.
fn on_mount(wall: &str) -> Option<&str> {
    wall.strip_prefix("disk: ").filter(|how| Mount::tells_uncounted(how))
}
