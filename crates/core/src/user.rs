//! Names of users of a sandbox, as callers and images write them: `NAME` or `ID`, and perhaps `:GROUP`.

/// Tells whether a user is root, which is also the default.
pub fn is_root(user: Option<&str>) -> bool {
    let root = |part: &str| matches!(part, "root" | "0");
    user.is_none_or(|user| user.splitn(2, ':').all(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_several_names() {
        for root in [None, Some("root"), Some("0"), Some("root:root"), Some("0:0"), Some("root:0")] {
            assert!(is_root(root), "{root:?}");
        }
        for other in ["", "1000", "root:docker", "0:1000", "1000:0", "root:", "root:0:0", "Root", "00"] {
            assert!(!is_root(Some(other)), "{other}");
        }
    }
}
