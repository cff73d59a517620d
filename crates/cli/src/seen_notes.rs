//! Notes that a home has shown before: repeating them before the output of every command would only teach people to
//! ignore standard error.

use coracle_core::Home;

/// More than a healthy home ever collects; a larger file is started anew.
const SEEN_MAX: usize = 64 << 10;

/// Returns the notes this home has not shown before, and records them as shown.
pub fn news<'a>(home: &Home, texts: &'a [String]) -> Vec<&'a String> {
    if texts.is_empty() {
        return Vec::new();
    }
    let path = home.said();
    let mut seen = std::fs::read_to_string(&path).unwrap_or_default();
    let new: Vec<_> = texts.iter().filter(|text| !seen.lines().any(|line| line == *text)).collect();
    if new.is_empty() {
        return new;
    }
    if seen.len() > SEEN_MAX {
        seen.clear();
    }
    for text in &new {
        seen.push_str(text);
        seen.push('\n');
    }
    // If this fails, the notes are shown again.
    let _ = std::fs::write(path, seen);
    new
}
