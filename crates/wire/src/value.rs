//! The values messages are made of.

use std::hash::{Hash, Hasher};

use minicbor::{Decode, Encode};

/// One command to start.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Command {
    #[cbor(n(0), with = "crate::bytes::list")]
    pub argv: Vec<Vec<u8>>,
    /// Name and value, in order; the guest adds its own defaults below these.
    #[cbor(n(1), with = "crate::bytes::pairs")]
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Like `env`, but no record of it is kept once the command has started.
    #[cbor(n(2), with = "crate::bytes::pairs")]
    pub secrets: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where the command starts; the workspace if absent.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub cwd: Option<Vec<u8>>,
    /// A user name or number of the sandbox; root if absent.
    #[cbor(n(4), with = "minicbor::bytes")]
    pub user: Option<Vec<u8>>,
    /// The wall time it may take.
    #[n(5)]
    pub deadline_ms: Option<u64>,
    /// How long it has between TERM and KILL.
    #[n(6)]
    pub grace_ms: u64,
    /// Processes that outlive the leader stay.
    #[n(7)]
    pub keep_background: bool,
    /// Standard input is a pipe to be written to; otherwise it is empty.
    #[n(8)]
    pub stdin: bool,
    #[n(9)]
    pub terminal: Option<Terminal>,
    /// How many bytes of output are kept.
    #[n(10)]
    pub output_bytes: u64,
    /// Someone is about to attend it: for a moment output waits for them instead of being dropped.
    #[n(11)]
    pub attended: bool,
    /// The wall time of what `keep_background` keeps, from the start of the command. Older guests let it run for ever.
    #[n(12)]
    pub background_ms: Option<u64>,
    /// Whether the client has tied this exec to a connection. If not, the tie of a client that died before it could start
    /// an exec of this id does not count.
    #[n(13)]
    pub tied: Option<bool>,
}

/// What makes it this command and no other. How its output is read, what it is tied to and what the settings add is not part of
/// it: asking again under the same id may differ in these.
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

/// The part of the output that was not kept: chunks from `from` to `to`, `bytes` in all.
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

/// What is known of an exec now.
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
    /// How long it ran, or has run so far.
    #[n(5)]
    pub duration_ms: u64,
    /// The number of the newest chunk, 0 before the first.
    #[n(6)]
    pub last_seq: u64,
    /// How long ago it was started; older guests do not say it.
    #[n(7)]
    pub age_ms: Option<u64>,
    /// How many processes were ended because they outlived their leader, once it has ended; absent if none. Older guests
    /// do not say it.
    #[n(8)]
    pub ended_background: Option<u32>,
}

impl ExecState {
    /// Returns that of an exec of which nothing was seen yet.
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

/// What becomes of running execs when the owner changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Running {
    #[n(0)]
    Keep,
    #[n(1)]
    Kill,
}

/// What the guest says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Status {
    #[n(0)]
    pub epoch: u64,
    #[n(1)]
    pub running: u64,
    /// How long nothing has been asked of it and nothing ran.
    #[n(2)]
    pub idle_ms: u64,
    #[n(3)]
    pub uptime_ms: u64,
    /// Bytes of output kept.
    #[n(4)]
    pub spool_bytes: u64,
    /// Its commands stand still. Guests of an older coracle do not say so, and cannot be paused.
    #[cbor(n(5), default)]
    pub paused: bool,
}

/// What a name in a directory is.
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

/// Whose rights something is done with.
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

/// How a file takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Placing {
    /// A link that has its name is followed, and what it leads to is written; otherwise the file replaces the link.
    #[n(0)]
    pub follow: bool,
    /// A file that is replaced hands on its permissions; the mode is for new ones.
    #[n(1)]
    pub keep_mode: bool,
    #[n(2)]
    pub mtime: Option<Time>,
    /// How many bytes of the path name the top of a tree; from there on no link is followed.
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
    /// What `mtime` has behind the second; older guests do not say it.
    #[n(7)]
    pub mtime_nanos: Option<u32>,
    /// Where a symlink leads; older guests do not say it.
    #[cbor(n(8), with = "minicbor::bytes")]
    pub target: Option<Vec<u8>>,
}
