//! A small client of a guest, for suites that must not depend on the real one. Every unexpected answer is a panic.

use std::io::ErrorKind::ConnectionReset;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_wire::{
    Body, Chunk, Command, ExecState, Fault, Hello, Refusal, Reply, Request, Stream, VERSION_MAX, VERSION_MIN,
    Welcome, decode, encode,
};

use super::channel::Channel;
use coracle_core::record::Secret;

/// How long any single answer may take before the test fails rather than hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the guest is asked to wait for an end.
const WAIT_MS: u64 = 20_000;

/// An open connection that acts under one epoch.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    /// The guest's answer to the greeting.
    pub welcome: Welcome,
    /// The epoch of requests.
    pub epoch: u64,
}

/// Everything an exec left behind.
#[derive(Debug)]
pub struct Ended {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub chunks: Vec<Chunk>,
    pub state: ExecState,
}

impl Client {
    /// Greets the guest as this build would.
    pub fn connect(stream: UnixStream, secret: &Secret, epoch: u64) -> Result<Self, Refusal> {
        Self::introduce(
            stream,
            &Hello { oldest: VERSION_MIN, newest: VERSION_MAX, secret: secret.0.to_vec() },
            epoch,
        )
    }

    /// Greets the guest with any message.
    pub fn introduce(stream: UnixStream, hello: &Hello, epoch: u64) -> Result<Self, Refusal> {
        stream.set_read_timeout(Some(PATIENCE)).expect("a stream takes a timeout");
        let mut channel = Channel::new(stream);
        channel.send(encode(hello)).expect("a guest takes the greeting");
        let answer = channel
            .receive()
            .expect("a guest answers the greeting")
            .expect("a guest answers before it closes");
        let welcome =
            decode::<Result<Welcome, Refusal>>(&answer).expect("the answer is a welcome or a refusal")?;
        Ok(Self { channel, welcome, epoch })
    }

    /// Sends a request under the client's epoch and returns the answer.
    pub fn ask(&mut self, body: Body) -> Reply {
        self.send(body);
        self.answer()
    }

    /// Sends a request without waiting for its answer.
    pub fn send(&mut self, body: Body) {
        self.channel
            .send(encode(&Request { epoch: self.epoch, body, acting: None }))
            .expect("a guest takes requests");
    }

    /// Returns the next answer.
    pub fn answer(&mut self) -> Reply {
        let answer = self.channel.receive().expect("a guest answers").expect("a guest does not hang up");
        decode(&answer).expect("the answer is a reply")
    }

    /// Sends a request, and tells whether the connection ended instead of an answer.
    pub fn hears_end_of(&mut self, body: Body) -> bool {
        let sent = self.channel.send(encode(&Request { epoch: self.epoch, body, acting: None }));
        // A reset is an end as well; running into the timeout is not.
        sent.is_err()
            || self
                .channel
                .receive()
                .map_or_else(|error| error.kind() == ConnectionReset, |answer| answer.is_none())
    }

    /// Sends a request that the guest must refuse.
    pub fn fault(&mut self, body: Body) -> Fault {
        match self.ask(body) {
            Reply::Fault(fault) => fault,
            other => panic!("expected a fault, got {other:?}"),
        }
    }

    /// Starts a command; returns whether it had been started before.
    pub fn start(&mut self, exec: &str, command: Command) -> bool {
        match self.ask(Body::Start { exec: exec.to_owned(), command }) {
            Reply::Started { existing } => existing,
            other => panic!("expected `{exec}` to start, got {other:?}"),
        }
    }

    /// Runs a command to its end.
    pub fn run(&mut self, exec: &str, argv: &[&str]) -> Ended {
        self.start(exec, command(argv));
        self.end(exec)
    }

    /// Waits for the end of an exec and returns all its output.
    pub fn end(&mut self, exec: &str) -> Ended {
        let state = match self.ask(Body::Wait { exec: exec.to_owned(), wait_ms: WAIT_MS }) {
            Reply::State(state) => state,
            other => panic!("expected the state of `{exec}`, got {other:?}"),
        };
        assert!(state.ending.is_some(), "`{exec}` has not ended");
        let mut chunks: Vec<Chunk> = Vec::new();
        while chunks.last().map_or(0, |chunk| chunk.seq) < state.last_seq {
            let (more, _) = self.read(exec, chunks.last().map_or(0, |chunk| chunk.seq), 0);
            assert!(!more.is_empty(), "`{exec}` has fewer chunks than it says");
            chunks.extend(more);
        }
        let of = |stream| chunks.iter().filter(|c| c.stream == stream).flat_map(|c| c.data.clone()).collect();
        Ended { stdout: of(Stream::Stdout), stderr: of(Stream::Stderr), chunks, state }
    }

    /// Returns chunks after `since`.
    pub fn read(&mut self, exec: &str, since: u64, wait_ms: u64) -> (Vec<Chunk>, ExecState) {
        match self.ask(Body::Read { exec: exec.to_owned(), since, max_chunks: 100, wait_ms }) {
            Reply::Output { chunks, state } => (chunks, state),
            other => panic!("expected output of `{exec}`, got {other:?}"),
        }
    }

    /// Writes a whole small file and returns the path the guest wrote.
    pub fn write_file(&mut self, path: &str, data: &[u8]) -> Vec<u8> {
        match self.ask(write_file(path, data)) {
            Reply::Written { path } => path,
            other => panic!("expected `{path}` to be written, got {other:?}"),
        }
    }

    /// Returns a whole small file.
    pub fn read_file(&mut self, path: &str) -> Vec<u8> {
        match self.ask(Body::FileRead { path: path.into(), offset: 0, max_bytes: 1 << 20 }) {
            Reply::File { data, .. } => data,
            other => panic!("expected the bytes of `{path}`, got {other:?}"),
        }
    }
}

/// Returns a plain command.
pub fn command(argv: &[&str]) -> Command {
    Command {
        argv: argv.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
        env: Vec::new(),
        secrets: Vec::new(),
        cwd: None,
        user: None,
        deadline_ms: None,
        grace_ms: 0,
        keep_background: false,
        stdin: false,
        terminal: None,
        output_bytes: 1 << 20,
        attended: false,
        background_ms: None,
        tied: None,
    }
}

/// Returns the request that writes a whole small file and replaces an existing one.
pub fn write_file(path: &str, data: &[u8]) -> Body {
    Body::FileWrite {
        path: path.into(),
        mode: 0o644,
        overwrite: true,
        data: data.to_vec(),
        last: true,
        placing: None,
    }
}
