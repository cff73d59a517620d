//! Arbitrary bytes as the head of a git bundle: no panic, and what is taken has only refs that clients may have.
#![no_main]

use coracle_git::bundle;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for signature in ["", "# v2 git bundle\n", "# v3 git bundle\n"] {
        let bytes = [signature.as_bytes(), input].concat();
        let Ok(head) = bundle::read(&mut bytes.as_slice()) else { continue };
        assert!(!head.refs.is_empty() && head.refs.iter().all(|one| one.name.is_public()));
        assert!(head.refs.windows(2).all(|pair| pair[0].name < pair[1].name));
        let _ = head.default_branch();
    }
});
