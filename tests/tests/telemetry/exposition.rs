//! A strict reader of what Prometheus scrapes: what it does not understand fails the test.

use std::collections::{BTreeMap, BTreeSet};

/// Every sample by its name and labels, in the order of the labels' names.
pub type Samples = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// Reads a page, or panics at what is wrong with it.
#[track_caller]
pub fn parse(text: &str) -> Samples {
    assert!(text.ends_with('\n'), "the last line has no end");
    let (mut kinds, mut helped, mut samples) = (BTreeMap::new(), BTreeSet::new(), Samples::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("help has words");
            assert!(!help.is_empty() && helped.insert(name.to_owned()), "help twice: {line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type has a name");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "type twice: {line}");
        } else {
            let (name, labels, value) = sample(line);
            let family = family_of(&name, &kinds).unwrap_or_else(|| panic!("no type before: {line}"));
            assert!(helped.contains(&family), "no help before: {line}");
            assert!(samples.insert((name, labels), value).is_none(), "twice: {line}");
        }
    }
    check_histograms(&samples, &kinds);
    samples
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, rest) = line.split_at(end);
    let letters = |text: &str| text.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
    assert!(letters(name) && !name.is_empty(), "{line}");
    let (labels, value) = match rest.strip_prefix('{') {
        None => (BTreeMap::new(), rest),
        Some(rest) => labels(rest),
    };
    let value = value.strip_prefix(' ').unwrap_or_else(|| panic!("no space before the value: {line}"));
    assert!(labels.keys().all(|name| letters(name)), "{line}");
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
}

/// Reads labels up to their brace; returns what stands behind it.
fn labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, behind) = rest.split_once("=\"").expect("a label has a quoted value");
        let (value, behind) = quoted(behind);
        assert!(labels.insert(name.to_owned(), value).is_none(), "a label twice: {rest}");
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None => return (labels, behind.strip_prefix('}').expect("labels end with a brace")),
        }
    }
}

fn quoted(text: &str) -> (String, &str) {
    let (mut value, mut letters) = (String::new(), text.char_indices());
    while let Some((index, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[index + 1..]),
            '\\' => match letters.next().map(|(_, letter)| letter) {
                Some('n') => value.push('\n'),
                Some(letter @ ('"' | '\\')) => value.push(letter),
                other => panic!("no such escape: {other:?}"),
            },
            letter => value.push(letter),
        }
    }
    panic!("a quote that does not end: {text}")
}

fn family_of(name: &str, kinds: &BTreeMap<String, String>) -> Option<String> {
    let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
    let of_histogram = |family: &&str| kinds.get(*family).is_some_and(|kind| kind == "histogram");
    let own = kinds.get(name).filter(|kind| *kind != "histogram").map(|_| name);
    own.or_else(|| parts.into_iter().find(of_histogram)).map(str::to_owned)
}

/// Buckets only ever grow, and the last one holds everything.
fn check_histograms(samples: &Samples, kinds: &BTreeMap<String, String>) {
    for family in kinds.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name) {
        let (count, bucket) = (format!("{family}_count"), format!("{family}_bucket"));
        for ((_, labels), total) in samples.iter().filter(|((name, _), _)| *name == count) {
            let of_series = |(name, all): &(String, BTreeMap<String, String>)| {
                let mut rest = all.clone();
                rest.remove("le");
                *name == bucket && rest == *labels
            };
            let mut buckets: Vec<(f64, f64)> = samples
                .iter()
                .filter(|(key, _)| of_series(key))
                .map(|((_, all), value)| (bound(&all["le"]), *value))
                .collect();
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            assert!(buckets.is_sorted_by(|one, other| one.1 <= other.1), "{family} {labels:?}: {buckets:?}");
            assert_eq!(buckets.last(), Some(&(f64::INFINITY, *total)), "{family} {labels:?}");
        }
    }
}

fn bound(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        number => number.parse().expect("a bound is a number"),
    }
}
