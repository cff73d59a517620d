//! The client of the guest: versions, refusals, and guests that do not behave.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_core::record::Secret;
use coracle_core::{Backend, Epoch, Error, Kind};
use coracle_engine::Inline;
use coracle_engine::guest::{Failure, Guest, Launch, Links};
use coracle_wire::{
    Answer, Body, Chunk, Command, Decoder, Ending, ExecState, Fault, FaultCode, Refusal, Reply, Request,
    Stage, Stream, VERSION_MAX, Welcome, decode, encode,
};

use crate::world::World;

fn stream(world: &World) -> (UnixStream, Secret) {
    let record = world.record(&world.open("run_a"));
    let placement = record.placement.expect("a ready sandbox has a placement");
    (world.backend.connect(&record.id, &placement).expect("the guest is there"), record.secret)
}

/// Answers the greeting with these bytes, then hangs up.
fn impostor(answer: &'static [u8]) -> UnixStream {
    let (host, mut guest) = UnixStream::pair().expect("a socket pair");
    std::thread::spawn(move || {
        let mut greeting = [0; 256];
        guest.read(&mut greeting).and_then(|_| guest.write_all(answer)).expect("the host listens");
    });
    host
}

#[test]
fn a_newer_host_speaks_what_the_guest_knows() {
    let world = World::new();
    let (stream, secret) = stream(&world);

    let guest =
        Guest::connect_speaking(stream, &secret, Epoch(1), 1..=VERSION_MAX + 1).expect("a common version");

    assert_eq!(guest.welcome().version, VERSION_MAX);
}

#[test]
fn a_host_that_is_too_new_is_refused() {
    let world = World::new();
    let (stream, secret) = stream(&world);

    let refused = Guest::connect_speaking(stream, &secret, Epoch(1), VERSION_MAX + 1..=VERSION_MAX + 1);

    assert!(matches!(refused, Err(Failure::Refused(Refusal::NoCommonVersion))), "{refused:?}");
}

#[test]
fn a_wrong_secret_is_refused() {
    let world = World::new();
    let (stream, _) = stream(&world);

    let refused = Guest::connect(stream, &Secret([0; 32]), Epoch(1));

    assert!(matches!(refused, Err(Failure::Refused(Refusal::WrongSecret))), "{refused:?}");
}

#[test]
fn bytes_that_are_no_message_are_an_error() {
    let connect = |answer| Guest::connect(impostor(answer), &Secret([0; 32]), Epoch(1));

    assert!(matches!(connect(b""), Err(Failure::Gone)));
    assert!(matches!(connect(b"\xff\xff\xff\xff"), Err(Failure::Garbled(_))));
    assert!(matches!(connect(b"\x01\x00\x00\x00\x00"), Err(Failure::Garbled(_))));
    assert!(matches!(connect(b"\x05\x00\x00\x00\x00"), Err(Failure::Gone)));
}

/// A guest that answers the greeting, takes what arrives first and answers it with these.
fn scripted(replies: Vec<Reply>) -> (Guest, std::sync::mpsc::Receiver<Vec<Body>>) {
    let (host, mut guest) = UnixStream::pair().expect("a socket pair");
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 64 << 10];
        let _greeting = guest.read(&mut buffer).expect("a greeting");
        let welcome: Answer = Ok(Welcome { version: 1, epoch: 1, boot: 1, acting: None });
        guest.write_all(&encode(&welcome).expect("a frame")).expect("the host listens");

        // One read takes what one write brought.
        let count = guest.read(&mut buffer).expect("requests");
        let mut decoder = Decoder::default();
        decoder.push(&buffer[..count]);
        let mut bodies = Vec::new();
        while let Some(payload) = decoder.next_payload().expect("whole frames") {
            bodies.push(decode::<Request>(payload).expect("a request").body);
        }
        tell.send(bodies).expect("the test listens");
        let frames: Vec<u8> = replies.iter().flat_map(|reply| encode(reply).expect("a frame")).collect();
        guest.write_all(&frames).expect("the host listens");
        // Until the host hangs up, so that it never mistakes the end of the script for the end of the guest.
        let _ = guest.read(&mut buffer);
    });
    (Guest::connect(host, &Secret([0; 32]), Epoch(1)).expect("a welcome"), told)
}

fn command() -> Command {
    Command {
        argv: vec![b"true".to_vec()],
        env: Vec::new(),
        secrets: Vec::new(),
        cwd: None,
        user: None,
        deadline_ms: Some(1000),
        grace_ms: 0,
        keep_background: false,
        stdin: false,
        terminal: None,
        output_bytes: 1024,
        attended: false,
        background_ms: None,
        tied: None,
    }
}

fn launch(inline: &Inline) -> Launch<'_> {
    let patience = Duration::ZERO;
    Launch { exec: "e", input: None, patience, repeatable: false, inline, started: &|_| {} }
}

fn ended(last_seq: u64) -> ExecState {
    ExecState {
        ending: Some(Ending::Exited(0)),
        limits: Vec::new(),
        stdout_bytes: 0,
        stderr_bytes: 0,
        truncation: None,
        duration_ms: 1,
        last_seq,
        age_ms: None,
        ended_background: None,
    }
}

fn output(seqs: &[u64], data: &[u8], last_seq: u64) -> Reply {
    let chunk = |seq: &u64| Chunk { seq: *seq, stream: Stream::Stdout, data: data.to_vec() };
    Reply::Output { chunks: seqs.iter().map(chunk).collect(), state: ended(last_seq) }
}

#[test]
fn an_ordinary_command_costs_one_round_trip() {
    let replies = vec![Reply::Started { existing: false }, Reply::State(ended(2)), output(&[1, 2], b"x", 2)];
    let (mut guest, told) = scripted(replies);

    let capture = guest.capture(command(), launch(&Inline::default())).expect("an honest guest");

    let asked = told.recv().expect("the guest heard something");
    assert!(matches!(asked[..], [Body::Start { .. }, Body::Wait { .. }, Body::Read { .. }]), "{asked:?}");
    assert_eq!(capture.chunks.len(), 2);
    assert!(guest.is_usable());
}

#[test]
fn a_guest_that_repeats_itself_is_not_believed() {
    let dishonest = [
        output(&[1, 1], b"x", 2),
        output(&[2, 1], b"x", 2),
        output(&[1], b"", 1),
        output(&[1, 2, 3], &[0; 350_000], 3),
    ];
    for reply in dishonest {
        let (mut guest, _told) =
            scripted(vec![Reply::Started { existing: false }, Reply::State(ended(2)), reply]);

        let refused = guest.capture(command(), launch(&Inline::default()));

        assert!(matches!(refused, Err(Failure::Unexpected)), "{refused:?}");
    }
}

#[test]
fn faults_become_the_kinds_of_the_doors() {
    let not_started = |stage| FaultCode::NotStarted { stage };
    let cases = [
        (FaultCode::StaleEpoch { current: 4 }, None, Kind::StaleEpoch),
        (FaultCode::NotFound, None, Kind::NotFound),
        (FaultCode::Conflict, None, Kind::Conflict),
        (FaultCode::Invalid, None, Kind::Invalid),
        (FaultCode::Limit, None, Kind::LimitExceeded),
        (FaultCode::Unknown, None, Kind::Unsupported),
        (FaultCode::Internal, None, Kind::Internal),
        (FaultCode::File, Some(2), Kind::NotFound),
        (FaultCode::File, Some(13), Kind::Invalid),
        (FaultCode::File, Some(17), Kind::Conflict),
        (FaultCode::File, Some(28), Kind::LimitExceeded),
        (FaultCode::File, Some(122), Kind::LimitExceeded),
        (FaultCode::File, Some(5), Kind::Internal),
        (not_started(Stage::Execute), Some(2), Kind::ExecutionFailed),
        (not_started(Stage::Execute), Some(8), Kind::ExecutionFailed),
        (not_started(Stage::Directory), Some(2), Kind::Invalid),
        (not_started(Stage::Fork), Some(11), Kind::LimitExceeded),
        (not_started(Stage::Confine), None, Kind::ExecutionFailed),
    ];

    for (code, errno, kind) in cases {
        let error = Error::from(Failure::Fault(Fault { code, message: "no".to_owned(), errno }));
        assert_eq!(error.kind, kind, "{code:?} {errno:?}");
        assert_eq!(error.details.contains_key("errno"), errno.is_some(), "{code:?} {errno:?}");
    }
}

#[test]
fn a_command_that_could_not_be_executed_has_a_shells_exit_code() {
    let exit_code = |errno| {
        let code = FaultCode::NotStarted { stage: Stage::Execute };
        let error = Error::from(Failure::Fault(Fault { code, message: String::new(), errno: Some(errno) }));
        error.details["exit_code"].as_i64()
    };

    assert_eq!([exit_code(2), exit_code(13), exit_code(8)], [Some(127), Some(126), Some(126)]);
}

#[test]
fn an_older_guest_is_read_by_path() {
    let file = || Reply::File { data: b"x".to_vec(), size: 2 };
    let (mut older, told) = scripted(vec![file()]);

    let first = older.begin_read(b"f", 1, Links::Follow).expect("an honest guest");

    let asked = told.recv().expect("the guest heard something");
    assert!(matches!(asked[..], [Body::FileRead { offset: 0, .. }]), "{asked:?}");
    assert_eq!((first.size, first.entry), (2, None));
    assert!(!older.knows_users());
}
