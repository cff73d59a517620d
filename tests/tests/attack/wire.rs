//! The decoder takes any bytes a broken or hostile peer sends, in any pieces, and never panics or grows.

use coracle_tests::count;
use coracle_wire::{
    Answer, Boot, Decoder, FRAME_MAX, HEADER_LEN, Hello, Refusal, Reply, Request, Welcome, decode, encode,
};

/// A small generator with a printed seed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn fresh() -> Self {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).expect("the kernel gives random bytes");
        let seed = u64::from_le_bytes(seed) | 1;
        eprintln!("seed {seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// Reads a payload as every message there is.
fn decode_as_everything(payload: &[u8]) {
    let _ = decode::<Request>(payload);
    let _ = decode::<Reply>(payload);
    let _ = decode::<Hello>(payload);
    let _ = decode::<Welcome>(payload);
    let _ = decode::<Refusal>(payload);
    let _ = decode::<Answer>(payload);
    let _ = decode::<Boot>(payload);
}

/// Feeds bytes in random pieces and returns how many whole payloads came out.
fn feed(random: &mut Random, mut bytes: &[u8]) -> usize {
    let mut decoder = Decoder::default();
    let mut payloads = 0;
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(1 + random.below(bytes.len()));
        bytes = rest;
        decoder.push(piece);
        loop {
            match decoder.next_payload() {
                Ok(Some(payload)) => {
                    assert!(payload.len() <= FRAME_MAX);
                    decode_as_everything(payload);
                    payloads += 1;
                }
                Ok(None) => break,
                Err(_) => return payloads,
            }
        }
    }
    payloads
}

fn sample() -> Request {
    use coracle_wire::{Body, Command, Terminal};
    let command = Command {
        argv: vec![b"sh".to_vec(), vec![0xff; 40]],
        env: vec![(b"A".to_vec(), b"b".to_vec())],
        secrets: vec![],
        cwd: Some(b"/workspace".to_vec()),
        user: None,
        deadline_ms: Some(u64::MAX),
        grace_ms: 0,
        keep_background: true,
        stdin: false,
        terminal: Some(Terminal { rows: 24, columns: 80 }),
        output_bytes: 1 << 20,
        attended: false,
        background_ms: None,
        tied: None,
    };
    Request { epoch: 7, body: Body::Start { exec: "exec_1".into(), command }, acting: None }
}

#[test]
fn random_bytes_never_panic_the_decoder() {
    let mut random = Random::fresh();

    for _ in 0..count(20_000, 2_000_000) {
        let length = random.below(200);
        let noise = random.bytes(length);
        decode_as_everything(&noise);
        feed(&mut random, &noise);
    }
}

#[test]
fn damaged_messages_never_panic_the_decoder() {
    let mut random = Random::fresh();
    let whole = encode(&sample()).expect("it fits");

    for _ in 0..count(20_000, 2_000_000) {
        let mut damaged = whole.clone();
        for _ in 0..1 + random.below(4) {
            let place = random.below(damaged.len());
            damaged[place] = random.next() as u8;
        }
        damaged.truncate(1 + random.below(damaged.len()));
        feed(&mut random, &damaged);
        decode_as_everything(damaged.get(HEADER_LEN..).unwrap_or_default());
    }
}

#[test]
fn messages_come_out_whole_in_any_pieces() {
    let mut random = Random::fresh();
    let one = encode(&sample()).expect("it fits");
    let five = one.repeat(5);

    for _ in 0..count(1_000, 100_000) {
        assert_eq!(feed(&mut random, &five), 5);
    }
    assert_eq!(decode::<Request>(&one[HEADER_LEN..]), Ok(sample()));
}

#[test]
fn nested_and_oversized_claims_are_refused_cheaply() {
    for byte in [0x9f, 0xbf, 0x81, 0xa1, 0xd8, 0x5f, 0x7f] {
        decode_as_everything(&vec![byte; FRAME_MAX]);
    }
    // Arrays, maps, strings and byte strings that claim 2^63 elements.
    for major in [0x9b, 0xbb, 0x7b, 0x5b] {
        let claim = [&[0xa2, 0x00, 0x01, 0x01, major, 0x7f][..], &[0xff; 7]].concat();
        decode_as_everything(&claim);
    }
    let mut decoder = Decoder::default();
    decoder.push(&u32::MAX.to_le_bytes());
    assert!(decoder.next_payload().is_err());
}
