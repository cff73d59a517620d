//! Arbitrary text as a reference: no panic, and what is accepted is written so that it is read as the same again.
#![no_main]

use coracle_core::image::Reference;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let Ok(reference) = input.parse::<Reference>() else { return };
    let text = reference.to_string();
    assert_eq!(text.parse::<Reference>().as_ref().ok(), Some(&reference));
    // It goes into addresses, arguments and messages.
    assert!(text.is_ascii() && !text.starts_with('-') && !text.contains(['?', '#', ' ', '%', '\\', '\n']));
    assert!(text.split('/').all(|part| !matches!(part, "" | "." | "..")) && !reference.repository().contains(".."));
});
