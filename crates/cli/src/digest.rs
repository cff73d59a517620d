//! Digests as people compare them.

/// Enough to tell any two images of one machine apart.
const DIGITS: usize = 12;

/// Returns the first digits, without the name of the algorithm.
pub fn short(digest: &str) -> &str {
    let digits = digest.split_once(':').map_or(digest, |(_, digits)| digits);
    digits.get(..DIGITS).unwrap_or(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_shown_by_its_first_digits() {
        assert_eq!(short("sha256:0123456789abcdef"), "0123456789ab");
        assert_eq!(short("sha256:01"), "01");
        // Other text must not panic.
        assert_eq!(short("größegrößegröße"), "größegrößegröße");
    }
}
