//! The values that messages consist of.

use std::hash::{Hash, Hasher};

use minicbor::{Decode, Encode};

/// One command to start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Command {
    #[cbor(n(0), with = "crate::bytes::list")]
    pub argv: Vec<Vec<u8>>,
    /// Name and value, in order; they override the guest's own defaults.
    #[cbor(n(1), with = "crate::bytes::pairs")]
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Like `env`, but the guest keeps no record of it once the command has started.
    #[cbor(n(2), with = "crate::bytes::pairs")]
    pub secrets: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where the command starts; the workspace if absent.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub cwd: Option<Vec<u8>>,
    /// A user name or number of the sandbox; root if absent.
    #[cbor(n(4), with = "minicbor::bytes")]
    pub user: Option<Vec<u8>>,
    /// The longest wall time of the command.
    #[n(5)]
    pub deadline_ms: Option<u64>,
    /// The grace between TERM and KILL.
    #[n(6)]
    pub grace_ms: u64,
    /// Let processes that outlive the leader live.
    #[n(7)]
    pub keep_background: bool,
    /// Standard input is a pipe that callers write to; otherwise it is empty.
    #[n(8)]
    pub stdin: bool,
    #[n(9)]
    pub terminal: Option<Terminal>,
    /// How many bytes of output the guest keeps.
    #[n(10)]
    pub output_bytes: u64,
    /// A connection is about to attend it: for a moment output waits for it instead of being dropped.
    #[n(11)]
    pub attended: bool,
    /// The longest wall time of background processes, from the start of the command. Older guests let them run for
    /// ever.
    #[n(12)]
    pub background_ms: Option<u64>,
    /// Whether the client has tied this exec to a connection. If not, the guest ignores the tie of a client that
    /// died before it could start an exec of this id.
    #[n(13)]
    pub tied: Option<bool>,
}

/// Covers what makes it this command and no other. Leaves out how its output is read, what it is tied to and what
/// the settings add: a repeated request under the same id may differ in these.
impl Hash for Command {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            argv,
            env,
            secrets,
            cwd,
            user,
            deadline_ms,
            grace_ms,
            keep_background,
            stdin,
            terminal,
            output_bytes,
            attended: _,
            background_ms: _,
            tied: _,
        } = self;
        (argv, env, secrets, cwd, user, deadline_ms, grace_ms, keep_background).hash(state);
        (stdin, terminal, output_bytes).hash(state);
    }
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Terminal {
    #[n(0)]
    pub rows: u16,
    #[n(1)]
    pub columns: u16,
}

/// Where a piece of output came from. A terminal's output is all `Stdout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Stream {
    #[n(1)]
    Stdout,
    #[n(2)]
    Stderr,
}

/// A numbered piece of output. Numbers count from 1 over both streams.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Chunk {
    #[n(0)]
    pub seq: u64,
    #[n(1)]
    pub stream: Stream,
    #[cbor(n(2), with = "minicbor::bytes")]
    pub data: Vec<u8>,
}

/// The part of the output that the guest dropped: chunks from `from` to `to`, `bytes` in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Truncation {
    #[n(0)]
    pub from: u64,
    #[n(1)]
    pub to: u64,
    #[n(2)]
    pub bytes: u64,
}

/// How an exec ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Ending {
    #[n(0)]
    Exited(#[n(0)] i32),
    #[n(1)]
    Signalled(#[n(0)] i32),
    #[n(2)]
    OomKilled,
    #[n(3)]
    TimedOut,
    #[n(4)]
    Stopped,
}

/// A limit the kernel enforced while an exec ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum LimitHit {
    #[n(0)]
    Memory,
    #[n(1)]
    Pids,
    #[n(2)]
    WallTime,
    #[n(3)]
    Output,
}

/// The state of an exec at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ExecState {
    /// Absent while it runs.
    #[n(0)]
    pub ending: Option<Ending>,
    #[n(1)]
    pub limits: Vec<LimitHit>,
    #[n(2)]
    pub stdout_bytes: u64,
    #[n(3)]
    pub stderr_bytes: u64,
    #[n(4)]
    pub truncation: Option<Truncation>,
    /// How long the exec ran, or has run so far.
    #[n(5)]
    pub duration_ms: u64,
    /// The number of the newest chunk, 0 before the first.
    #[n(6)]
    pub last_seq: u64,
    /// How long ago the exec was started; older guests do not send it.
    #[n(7)]
    pub age_ms: Option<u64>,
    /// How many processes the guest ended because they outlived their leader, once the exec has ended; absent if
    /// none. Older guests do not send it.
    #[n(8)]
    pub ended_background: Option<u32>,
}

impl ExecState {
    /// Returns the state of an exec of which the host has seen nothing yet.
    pub fn unseen() -> Self {
        Self {
            ending: None,
            limits: Vec::new(),
            stdout_bytes: 0,
            stderr_bytes: 0,
            truncation: None,
            duration_ms: 0,
            last_seq: 0,
            age_ms: None,
            ended_background: None,
        }
    }
}

/// One line of the list of execs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ExecSummary {
    #[n(0)]
    pub exec: String,
    #[cbor(n(1), with = "crate::bytes::list")]
    pub argv: Vec<Vec<u8>>,
    #[n(2)]
    pub epoch: u64,
    #[n(3)]
    pub state: ExecState,
}

/// An ended exec, as a guest leaves it to the next guest of the same sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PastExec {
    #[n(0)]
    pub exec: String,
    #[cbor(n(1), with = "crate::bytes::list")]
    pub argv: Vec<Vec<u8>>,
    #[n(2)]
    pub epoch: u64,
    /// Distinguishes its command from another under the same id.
    #[n(3)]
    pub fingerprint: u64,
    #[n(4)]
    pub state: ExecState,
    /// How many chunks of its output follow.
    #[n(5)]
    pub chunks: u64,
}

/// What happens to running execs when the owner changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Running {
    #[n(0)]
    Keep,
    #[n(1)]
    Kill,
}

/// The guest's report about itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Status {
    #[n(0)]
    pub epoch: u64,
    #[n(1)]
    pub running: u64,
    /// How long there was no request and no running command.
    #[n(2)]
    pub idle_ms: u64,
    #[n(3)]
    pub uptime_ms: u64,
    /// Bytes of output kept.
    #[n(4)]
    pub spool_bytes: u64,
    /// Its commands are frozen. Guests of an older coracle do not send it, and cannot be paused.
    #[cbor(n(5), default)]
    pub paused: bool,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum EntryKind {
    #[n(0)]
    File,
    #[n(1)]
    Directory,
    #[n(2)]
    Symlink,
    #[n(3)]
    Other,
}

/// Whose rights a request has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Acting {
    /// A user name or number of the sandbox, whose commands have these rights; root if absent.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub user: Option<Vec<u8>>,
}

/// A moment, by the wall clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Time {
    /// Since 1970; negative before.
    #[n(0)]
    pub seconds: i64,
    #[n(1)]
    pub nanos: u32,
}

/// How a written file takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Placing {
    /// Follow a link of the file's name and write its target; otherwise the file replaces the link.
    #[n(0)]
    pub follow: bool,
    /// Keep the permissions of a replaced file; the mode is for new files only.
    #[n(1)]
    pub keep_mode: bool,
    #[n(2)]
    pub mtime: Option<Time>,
    /// How many bytes of the path name the top of a tree; from there on the guest follows no link.
    #[n(3)]
    pub top: Option<u32>,
}

/// One file, as `lstat` sees it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Entry {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    #[n(1)]
    pub kind: EntryKind,
    #[n(2)]
    pub size: u64,
    #[n(3)]
    pub mode: u32,
    #[n(4)]
    pub mtime: i64,
    #[n(5)]
    pub uid: u32,
    #[n(6)]
    pub gid: u32,
    /// The nanoseconds of `mtime`; older guests do not send them.
    #[n(7)]
    pub mtime_nanos: Option<u32>,
    /// Where a symlink leads; older guests do not send it.
    #[cbor(n(8), with = "minicbor::bytes")]
    pub target: Option<Vec<u8>>,
}
