//! Suggestions for a misspelt name.

/// A name with more wrong letters than this is a different name.
const DISTANCE_MAX: usize = 3;
/// Longer input is not a misspelt name and not worth comparing.
const LEN_MAX: usize = 64;

/// Returns the names that are close to `wanted`, closest first; otherwise those that contain it.
pub fn names_like<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    if wanted.is_empty() || wanted.len() > LEN_MAX {
        return Vec::new();
    }
    let mut near: Vec<_> = names.iter().map(|name| (distance(wanted, name), *name)).collect();
    near.retain(|(distance, name)| *distance <= DISTANCE_MAX || name.contains(wanted));
    near.sort();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Counts the letters to insert, remove or replace to turn one into the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
