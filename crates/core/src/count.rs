//! Numbers of things, in messages.

/// Returns a number with its noun, as in `1 sandbox` and `2 sandboxes`.
pub fn counted(count: u64, one: &str, several: &str) -> String {
    let noun = if count == 1 { one } else { several };
    format!("{count} {noun}")
}
