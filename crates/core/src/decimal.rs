//! Numbers with a fraction, as people write them, in whole units.

/// More decimals than any unit needs.
const DECIMALS_MAX: usize = 9;

/// Returns `text` times `scale`, rounded up so that a small amount never becomes zero; `None` where the text is no
/// number such as `2` or `1.5`, or the result is too large.
pub(crate) fn scaled(text: &str, scale: u64) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let parts = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
    let fraction = (decimals.parse::<u128>().ok()? * u128::from(scale)).div_ceil(parts);
    whole.checked_add(u64::try_from(fraction).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_counts_and_is_rounded_up() {
        assert_eq!(scaled("1.5", 1000), Some(1500));
        assert_eq!(scaled("0.0001", 1000), Some(1));
        assert_eq!(scaled("2", 1 << 40), Some(2 << 40));
        for refused in ["", ".", "1.", ".5", "-1", "1e3", "+1", "1.0000000001", "18446744073709551616"] {
            assert_eq!(scaled(refused, 1), None, "{refused}");
        }
        assert_eq!(scaled("18446744073709551615.1", 1), None);
    }
}
