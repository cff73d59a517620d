//! What a home was told before: repeating it before the output of every command would only teach people not to read
//! standard error.

use coracle_core::Home;

/// More was not said in any home that is in order; a file that grew past it is begun anew.
const SAID_MAX: usize = 64 << 10;

/// Returns the texts this home was not told before, and keeps that it is now.
pub fn news<'a>(home: &Home, texts: &'a [String]) -> Vec<&'a String> {
    if texts.is_empty() {
        return Vec::new();
    }
    let said = home.said();
    let mut told = std::fs::read_to_string(&said).unwrap_or_default();
    let new: Vec<_> = texts.iter().filter(|text| !told.lines().any(|line| line == *text)).collect();
    if new.is_empty() {
        return new;
    }
    if told.len() > SAID_MAX {
        told.clear();
    }
    for text in &new {
        told.push_str(text);
        told.push('\n');
    }
    // If it cannot be kept, it is said twice.
    let _ = std::fs::write(said, told);
    new
}
