//! Arbitrary bytes as manifest, index and configuration: no panic, and what is accepted is within its bounds.
#![no_main]

use coracle_images::testing::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    parse::document(input, None);
    parse::document(input, Some("application/vnd.oci.image.index.v1+json"));
    parse::configuration(input);
});
