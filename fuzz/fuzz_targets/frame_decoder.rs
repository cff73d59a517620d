//! Arbitrary bytes in arbitrary pieces: no panic, no payload over the bound, and what decodes encodes to the same again.
#![no_main]

use coracle_wire::{Answer, Boot, Decoder, FRAME_MAX, HEADER_LEN, Hello, Refusal, Reply, Request, Welcome, decode, encode};
use libfuzzer_sys::fuzz_target;

/// A message that was understood must survive being sent on.
macro_rules! round_trip {
    ($message:ty, $payload:expr) => {
        if let Ok(message) = decode::<$message>($payload) {
            if let Ok(frame) = encode(&message) {
                assert_eq!(decode::<$message>(&frame[HEADER_LEN..]).as_ref(), Ok(&message));
            }
        }
    };
}

fuzz_target!(|input: &[u8]| {
    // The first byte is the size of the pieces, the rest is the stream.
    let Some((size, stream)) = input.split_first() else { return };
    let mut decoder = Decoder::default();
    for piece in stream.chunks(usize::from(*size).max(1)) {
        decoder.push(piece);
        loop {
            match decoder.next_payload() {
                Ok(Some(payload)) => {
                    assert!(payload.len() <= FRAME_MAX);
                    round_trip!(Request, payload);
                    round_trip!(Reply, payload);
                    round_trip!(Hello, payload);
                    round_trip!(Welcome, payload);
                    round_trip!(Refusal, payload);
                    round_trip!(Answer, payload);
                    round_trip!(Boot, payload);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});
