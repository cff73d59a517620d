//! Pins the bytes of version 1 for ever: guests that were started by an older coracle speak it.

use coracle_wire::{
    Answer, Body, Chunk, Command, Decoder, Ending, ExecState, FrameError, Hello, Reply, Request, Stream,
    Welcome, decode, encode, negotiate,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex digits"))
        .collect()
}

fn start() -> Request {
    let command = Command {
        argv: vec![b"echo".to_vec(), b"hi".to_vec()],
        env: vec![(b"A".to_vec(), b"1".to_vec())],
        secrets: vec![],
        cwd: None,
        user: None,
        deadline_ms: Some(1000),
        grace_ms: 2000,
        keep_background: false,
        stdin: false,
        terminal: None,
        output_bytes: 10,
        attended: false,
        background_ms: None,
        tied: None,
    };
    Request { epoch: 7, body: Body::Start { exec: "e".to_owned(), command }, acting: None }
}

fn output() -> Reply {
    let state = ExecState {
        ending: Some(Ending::Exited(3)),
        limits: vec![],
        stdout_bytes: 3,
        stderr_bytes: 0,
        truncation: None,
        duration_ms: 5,
        last_seq: 1,
        age_ms: None,
        ended_background: None,
    };
    Reply::Output { chunks: vec![Chunk { seq: 1, stream: Stream::Stdout, data: b"hi\n".to_vec() }], state }
}

const HELLO: &str = "a3 00 01 01 01 02 42 abcd";
const WELCOME: &str = "82 00 a3 00 01 01 07 02 18 2a";
const START: &str = "a2 00 07 01 82 02 82 61 65 a9 00 82 44 6563686f 42 6869 01 81 82 41 41 41 31 02 80 05 19 03e8 06 19 07d0 07 f4 08 f4 0a 0a 0b f4";
const OUTPUT: &str =
    "82 04 82 81 a3 00 01 01 01 02 43 68690a a6 00 82 00 81 03 01 80 02 03 03 00 05 05 06 01";

#[test]
fn version_one_is_written_as_it_always_was() {
    let welcome: Answer = Ok(Welcome { version: 1, epoch: 7, boot: 42, acting: None });

    let written = [
        encode(&Hello { oldest: 1, newest: 1, secret: vec![0xab, 0xcd] }),
        encode(&welcome),
        encode(&start()),
        encode(&output()),
    ];

    for (frame, golden) in written.into_iter().zip([HELLO, WELCOME, START, OUTPUT]) {
        let frame = frame.expect("a small message fits a frame");
        assert_eq!(hex(&frame[4..]), hex(&bytes(golden)));
    }
}

#[test]
fn what_was_added_keeps_its_number() {
    let tie = |exec: Option<&str>| {
        let body = Body::Tie { exec: exec.map(str::to_owned), grace_ms: 500 };
        let frame = encode(&Request { epoch: 7, body, acting: None }).expect("a small message fits a frame");
        hex(&frame[4..])
    };

    assert_eq!(tie(Some("e")), hex(&bytes("a2 00 07 01 82 18 3d 82 61 65 19 01f4")));
    assert_eq!(tie(None), hex(&bytes("a2 00 07 01 82 18 3d 82 f6 19 01f4")));
    let state = ExecState { ended_background: Some(2), ..ExecState::unseen() };
    let frame = encode(&state).expect("a small message fits a frame");
    assert_eq!(hex(&frame[4..]), hex(&bytes("a6 01 80 02 00 03 00 05 00 06 00 08 02")));
}

#[test]
fn a_tie_that_was_added_to_an_adoption_keeps_its_number_and_its_answer() {
    let adopt = |tie_grace_ms| {
        let body = Body::Adopt { env: vec![], workdir: b"/w".to_vec(), ttl_ms: 9, tie_grace_ms };
        let frame = encode(&Request { epoch: 7, body, acting: None }).expect("a small message fits a frame");
        hex(&frame[4..])
    };

    // Without it, the bytes are those of a host that does not know it.
    assert_eq!(adopt(None), hex(&bytes("a2 00 07 01 82 0b 83 80 42 2f77 09")));
    assert_eq!(adopt(Some(500)), hex(&bytes("a2 00 07 01 82 0b 84 80 42 2f77 09 19 01f4")));
    let answer = encode(&Reply::AdoptedTied {}).expect("a small message fits a frame");
    assert_eq!(hex(&answer[4..]), hex(&bytes("82 0b 80")));
}

#[test]
fn fields_that_were_added_to_a_command_keep_their_numbers() {
    let Request { body: Body::Start { exec, command }, .. } = start() else { panic!("a start") };
    let command = Command { background_ms: Some(7), tied: Some(false), ..command };
    let added = Request { epoch: 7, body: Body::Start { exec, command }, acting: None };

    let frame = encode(&added).expect("a small message fits a frame");

    // Two more entries, at the end.
    let golden = START.replace("a9", "ab") + " 0c 07 0d f4";
    assert_eq!(hex(&frame[4..]), hex(&bytes(&golden)));
}

#[test]
fn version_one_is_still_understood() {
    assert_eq!(decode::<Request>(&bytes(START)), Ok(start()));
    assert_eq!(decode::<Reply>(&bytes(OUTPUT)), Ok(output()));
    assert_eq!(
        decode::<Answer>(&bytes(WELCOME)),
        Ok(Ok(Welcome { version: 1, epoch: 7, boot: 42, acting: None }))
    );
}

#[test]
fn fields_of_a_later_version_are_skipped() {
    // The greeting of a coracle that has a field 9 and speaks up to version 5.
    let future = bytes("a4 00 01 01 05 02 42 abcd 09 82 01 f5");

    let hello = decode::<Hello>(&future).expect("an unknown field is skipped");

    assert_eq!(hello.newest, 5);
    assert_eq!(negotiate(&hello, 1, 1), Some(1));
}

#[test]
fn a_request_of_a_later_version_is_an_error_and_not_a_loss_of_place() {
    let mut decoder = Decoder::default();
    let unknown = bytes("a2 00 07 01 82 18 63 80");
    for payload in [&unknown, &bytes(START)] {
        decoder.push(&(payload.len() as u32).to_le_bytes());
        decoder.push(payload);
    }

    let first = decoder.next_payload().expect("a whole frame").map(decode::<Request>);

    assert!(matches!(first, Some(Err(FrameError::Malformed { .. }))));
    let second = decoder.next_payload().expect("a whole frame").map(decode::<Request>);
    assert_eq!(second, Some(Ok(start())));
}

#[test]
fn ranges_without_a_common_version_do_not_meet() {
    let hello = |oldest, newest| Hello { oldest, newest, secret: vec![] };

    assert_eq!(negotiate(&hello(1, 3), 2, 5), Some(3));
    assert_eq!(negotiate(&hello(4, 9), 1, 5), Some(5));
    assert_eq!(negotiate(&hello(6, 9), 1, 5), None);
    assert_eq!(negotiate(&hello(1, 1), 2, 5), None);
}

#[test]
fn a_frame_over_the_limit_is_refused_before_it_is_read() {
    let mut decoder = Decoder::default();
    decoder.push(&u32::MAX.to_le_bytes());

    assert!(matches!(decoder.next_payload(), Err(FrameError::TooLong { .. })));
}
