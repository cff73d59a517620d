//! Requests, replies and faults.

use minicbor::{Decode, Encode};

use crate::value::{
    Acting, Chunk, Command, Entry, ExecState, ExecSummary, Placing, Running, Status, Terminal, Time,
};

/// One request to the guest, with the epoch of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Request {
    #[n(0)]
    pub epoch: u64,
    #[n(1)]
    pub body: Body,
    /// The user whose rights a request about files has. If absent, the guest acts with its own rights, which no
    /// permission limits.
    #[n(2)]
    pub acting: Option<Acting>,
}

/// What the host asks for. The guest answers each request once, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Body {
    /// Raises the fence to the request's epoch. With [`Running::Kill`], the guest also ends everything started
    /// before the epoch `before`, or before the request's own. Answered by [`Reply::Done`], once all of it is dead.
    /// Older guests know only the request's own epoch.
    #[n(0)]
    Fence {
        #[n(0)]
        running: Running,
        #[n(1)]
        before: Option<u64>,
    },
    /// Answered by [`Reply::Status`]. A request with `unnoticed` does not count as use: a caller that only watches
    /// does not keep the sandbox alive. Older guests ignore it.
    #[n(1)]
    Status {
        #[n(0)]
        unnoticed: Option<bool>,
    },
    /// Answered by [`Reply::Started`].
    #[n(2)]
    Start {
        #[n(0)]
        exec: String,
        #[n(1)]
        command: Command,
    },
    /// Reads chunks after `since`. Waits up to `wait_ms` for one or for the end of the exec. Answered by
    /// [`Reply::Output`].
    #[n(3)]
    Read {
        #[n(0)]
        exec: String,
        #[n(1)]
        since: u64,
        #[n(2)]
        max_chunks: u32,
        #[n(3)]
        wait_ms: u64,
    },
    /// Waits up to `wait_ms` for the end. Answered by [`Reply::State`].
    #[n(4)]
    Wait {
        #[n(0)]
        exec: String,
        #[n(1)]
        wait_ms: u64,
    },
    /// Answered by [`Reply::Done`] once all of it is in the command's pipe.
    #[n(5)]
    Input {
        #[n(0)]
        exec: String,
        #[cbor(n(1), with = "minicbor::bytes")]
        data: Vec<u8>,
        #[n(2)]
        eof: bool,
    },
    /// Sends a signal to the command's process group.
    #[n(6)]
    Signal {
        #[n(0)]
        exec: String,
        #[n(1)]
        signal: i32,
    },
    /// Ends the whole process tree: TERM, a grace, KILL. Answered by [`Reply::State`] when it has ended.
    #[n(7)]
    Stop {
        #[n(0)]
        exec: String,
        #[n(1)]
        grace_ms: Option<u64>,
    },
    #[n(8)]
    Resize {
        #[n(0)]
        exec: String,
        #[n(1)]
        size: Terminal,
    },
    /// Answered by [`Reply::Execs`].
    #[n(9)]
    Execs {},
    /// Makes this connection an attendant of the exec: the guest drops no output it has not read; the command waits
    /// instead. Ends with the connection; the guest then hangs up a terminal. Answered by [`Reply::Done`].
    #[n(10)]
    Attend {
        #[n(0)]
        exec: String,
        #[n(1)]
        since: u64,
    },
    /// Gives a spare sandbox to its caller, with those parts of the caller's spec it was not built with. Answered
    /// by [`Reply::Done`], or by [`Reply::AdoptedTied`].
    #[n(11)]
    Adopt {
        /// Added to the environment of all commands; replaces existing values.
        #[cbor(n(0), with = "crate::bytes::pairs")]
        env: Vec<(Vec<u8>, Vec<u8>)>,
        #[cbor(n(1), with = "minicbor::bytes")]
        workdir: Vec<u8>,
        #[n(2)]
        ttl_ms: u64,
        /// Also ties the sandbox to this connection, as [`Body::Tie`] with this grace does, which saves a round trip.
        /// Older guests ignore it and answer [`Reply::Done`], which says that nothing is tied.
        #[n(3)]
        tie_grace_ms: Option<u64>,
    },
    /// Gives an exec that was started ahead to the request's epoch, with these limits; its time counts from now.
    /// Answered by [`Reply::Done`].
    #[n(12)]
    Renew {
        #[n(0)]
        exec: String,
        #[n(1)]
        deadline_ms: u64,
        #[n(2)]
        grace_ms: u64,
        #[n(3)]
        output_bytes: u64,
    },
    /// Answered by [`Reply::File`].
    #[n(20)]
    FileRead {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        #[n(1)]
        offset: u64,
        #[n(2)]
        max_bytes: u32,
    },
    /// Begins or completes a file. With `last` the complete file appears under its name; a connection that closes
    /// before that leaves nothing. Answered by [`Reply::Written`].
    #[n(21)]
    FileWrite {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        #[n(1)]
        mode: u32,
        #[n(2)]
        overwrite: bool,
        #[cbor(n(3), with = "minicbor::bytes")]
        data: Vec<u8>,
        #[n(4)]
        last: bool,
        /// Older guests ignore it: they replace a link and set `mode`.
        #[n(5)]
        placing: Option<Placing>,
    },
    /// Adds to the file begun on this connection. Answered by [`Reply::Written`].
    #[n(22)]
    FileMore {
        #[cbor(n(0), with = "minicbor::bytes")]
        data: Vec<u8>,
        #[n(1)]
        last: bool,
    },
    /// Answered by [`Reply::Entries`]; while `more` is set, [`Body::FileListMore`] returns the rest.
    #[n(23)]
    FileList {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        #[n(1)]
        recursive: bool,
        /// Fail on what cannot be listed, instead of leaving it out. Older guests always leave it out.
        #[n(2)]
        whole: Option<bool>,
    },
    #[n(24)]
    FileListMore {},
    /// Answered by [`Reply::Entries`] with one entry; does not follow a symlink.
    #[n(25)]
    FileStat {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
    },
    #[n(26)]
    FileMove {
        #[cbor(n(0), with = "minicbor::bytes")]
        from: Vec<u8>,
        #[cbor(n(1), with = "minicbor::bytes")]
        to: Vec<u8>,
        #[n(2)]
        overwrite: bool,
        /// As in [`Body::FileOpen`], for both paths.
        #[n(3)]
        top: Option<u32>,
    },
    #[n(27)]
    FileDelete {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        #[n(1)]
        recursive: bool,
    },
    /// Opens a file and reads its beginning. After that [`Body::FileGoOn`] reads on in this same file, even if its
    /// name now leads to another, until a piece is shorter than asked for, another file is opened or the connection
    /// ends. Answered by [`Reply::Opened`].
    #[n(28)]
    FileOpen {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        #[n(1)]
        max_bytes: u32,
        /// Follow a link at the end of the path. Without it, a link there is a fault.
        #[n(2)]
        follow: bool,
        /// How many bytes of the path name the top of a tree; from there on the guest follows no link. Older guests
        /// ignore it, and follow links on the way.
        #[n(3)]
        top: Option<u32>,
    },
    /// Reads on in the file opened on this connection. Answered by [`Reply::File`].
    #[n(29)]
    FileGoOn {
        #[n(0)]
        offset: u64,
        #[n(1)]
        max_bytes: u32,
    },
    /// Makes a directory for its owner alone, and its parents. Leaves an existing one as it is. Answered by
    /// [`Reply::Done`].
    #[n(50)]
    FileDirectory {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        /// As in [`Body::FileOpen`].
        #[n(1)]
        top: Option<u32>,
    },
    /// Makes a symbolic link. Replaces an existing file or link. Answered by [`Reply::Done`].
    #[n(51)]
    FileLink {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        #[cbor(n(1), with = "minicbor::bytes")]
        target: Vec<u8>,
        #[n(2)]
        mtime: Time,
        /// As in [`Body::FileOpen`].
        #[n(3)]
        top: Option<u32>,
    },
    /// Sets the permissions and the time of a directory once all its entries are in it. Answered by
    /// [`Reply::Done`].
    #[n(52)]
    FileFinish {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        #[n(1)]
        mode: u32,
        #[n(2)]
        mtime: Time,
        /// As in [`Body::FileOpen`].
        #[n(3)]
        top: Option<u32>,
    },
    /// Waits for a command to connect to one of the listeners. Answered by [`Reply::Accepted`]; from then on the
    /// connection carries that command's bytes. Ignores the epoch: the network belongs to the sandbox, not to its
    /// owner.
    #[n(40)]
    Accept {},
    /// Connects to a port of the sandbox. Answered by [`Reply::Done`]; from then on the connection carries the
    /// bytes of that port, until the guest sees a newer epoch.
    #[n(41)]
    Connect {
        #[n(0)]
        port: u16,
    },
    /// Runs a program of the host's as a user of the sandbox, confined like a command. Answered by [`Reply::Done`]; then
    /// the host sends its `size` bytes, and the guest answers once more, with [`Reply::Done`] when the program runs. From
    /// then on the connection is its standard input and output. It ends with the connection, and when the guest sees a
    /// newer epoch.
    #[n(70)]
    Program {
        #[n(0)]
        size: u64,
        /// The user it runs as; root if absent.
        #[cbor(n(1), with = "minicbor::bytes")]
        user: Option<Vec<u8>>,
    },
    /// Freezes the commands and stops their clocks and the guest's own. From then on the guest refuses changes, but
    /// not reads. Asking twice is fine. Answered by [`Reply::Done`] once every process is frozen.
    #[n(30)]
    Pause {},
    /// Undoes [`Body::Pause`]. Does nothing if the sandbox is not paused.
    #[n(31)]
    Resume {},
    /// Keeps everything as it is until [`Body::LetGo`] on the same connection, the connection's end, or the end of
    /// `lease_ms`: the guest freezes commands and makes changes wait. With `changes_only` commands go on. Answered
    /// by [`Reply::Held`].
    ///
    /// Asked again on the connection that holds, it restarts the lease; once the hold is over the guest refuses
    /// that as [`FaultCode::Conflict`]. Older guests know neither field, and must not be asked twice.
    #[n(32)]
    Hold {
        #[n(0)]
        lease_ms: Option<u64>,
        #[n(1)]
        changes_only: Option<bool>,
    },
    #[n(33)]
    LetGo {},
    /// Ties something to this connection. An exec, or without one the sandbox itself, ends when the last connection
    /// it is tied to has ended and no client has tied it again within `grace_ms`. The connection goes on carrying
    /// requests. An exec is tied before it is started; afterwards only one that is tied already can be tied to
    /// another connection. A newer epoch unties. Answered by [`Reply::Done`].
    #[n(61)]
    Tie {
        #[n(0)]
        exec: Option<String>,
        #[n(1)]
        grace_ms: u64,
    },
}

/// What a request does, and to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nature {
    ReadsFiles,
    ChangesFiles,
    /// Changes anything else in the sandbox.
    Changes,
    /// Changes nothing in the sandbox.
    Other,
}

impl Body {
    /// Tells whether the request changes anything in the sandbox; the guest refuses changes while the sandbox is
    /// paused, except for the end of an exec.
    pub fn is_change(&self) -> bool {
        matches!(self.nature(), Nature::ChangesFiles | Nature::Changes)
    }

    /// Tells whether the request is about files, and so has the rights of the user it names.
    pub fn is_about_files(&self) -> bool {
        matches!(self.nature(), Nature::ReadsFiles | Nature::ChangesFiles)
    }

    /// Lists every request: one about files that is missing here would have all the rights of the guest.
    fn nature(&self) -> Nature {
        match self {
            Self::FileRead { .. }
            | Self::FileList { .. }
            | Self::FileListMore {}
            | Self::FileStat { .. }
            | Self::FileOpen { .. }
            | Self::FileGoOn { .. } => Nature::ReadsFiles,
            Self::FileWrite { .. }
            | Self::FileMore { .. }
            | Self::FileMove { .. }
            | Self::FileDelete { .. }
            | Self::FileDirectory { .. }
            | Self::FileLink { .. }
            | Self::FileFinish { .. } => Nature::ChangesFiles,
            Self::Start { .. }
            | Self::Input { .. }
            | Self::Signal { .. }
            | Self::Stop { .. }
            | Self::Adopt { .. }
            | Self::Renew { .. }
            | Self::Program { .. } => Nature::Changes,
            Self::Fence { .. }
            | Self::Status { .. }
            | Self::Read { .. }
            | Self::Wait { .. }
            | Self::Resize { .. }
            | Self::Execs {}
            | Self::Attend { .. }
            | Self::Pause {}
            | Self::Resume {}
            | Self::Hold { .. }
            | Self::LetGo {}
            | Self::Accept {}
            | Self::Connect { .. }
            | Self::Tie { .. } => Nature::Other,
        }
    }
}

/// The guest's answer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    #[n(0)]
    Done {},
    #[n(1)]
    Fault(#[n(0)] Fault),
    #[n(2)]
    Status(#[n(0)] Status),
    /// `existing` if an exec had been started before under the same id.
    #[n(3)]
    Started {
        #[n(0)]
        existing: bool,
    },
    #[n(4)]
    Output {
        #[n(0)]
        chunks: Vec<Chunk>,
        #[n(1)]
        state: ExecState,
    },
    #[n(5)]
    State(#[n(0)] ExecState),
    #[n(6)]
    Execs(#[n(0)] Vec<ExecSummary>),
    /// The sandbox is the caller's, and is tied to the connection. Only in answer to a request with `tie_grace_ms`,
    /// so that older hosts never see it.
    #[n(11)]
    AdoptedTied {},
    #[n(20)]
    File {
        #[cbor(n(0), with = "minicbor::bytes")]
        data: Vec<u8>,
        #[n(1)]
        size: u64,
    },
    /// The absolute path of the written file.
    #[n(21)]
    Written {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
    },
    #[n(22)]
    Entries {
        #[n(0)]
        entries: Vec<Entry>,
        #[n(1)]
        more: bool,
    },
    /// The opened file, and its beginning.
    #[n(28)]
    Opened {
        #[n(0)]
        entry: Entry,
        #[cbor(n(1), with = "minicbor::bytes")]
        data: Vec<u8>,
    },
    /// A command has connected to the listener of this number.
    #[n(40)]
    Accepted {
        #[n(0)]
        listener: u32,
    },
    /// `idle` if there is no process of a command and no file half written. `lease_ms` is the requested lease;
    /// absent from older guests, which hold until the connection ends.
    #[n(30)]
    Held {
        #[n(0)]
        idle: bool,
        #[n(1)]
        lease_ms: Option<u64>,
    },
}

/// Why the guest did not carry out a request.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Fault {
    #[n(0)]
    pub code: FaultCode,
    /// What the guest attempted, and on what.
    #[n(1)]
    pub message: String,
    /// The kernel's error number, if the kernel refused.
    #[n(2)]
    pub errno: Option<i32>,
}

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum FaultCode {
    /// The request's epoch is older than `current`.
    #[n(0)]
    StaleEpoch {
        #[n(0)]
        current: u64,
    },
    #[n(1)]
    NotFound,
    /// The exec id belongs to another command.
    #[n(2)]
    Conflict,
    #[n(3)]
    Invalid,
    /// The command could not be started; `stage` says where it failed.
    #[n(4)]
    NotStarted {
        #[n(0)]
        stage: Stage,
    },
    /// The kernel refused a file operation.
    #[n(5)]
    File,
    /// A limit of the guest's own: execs, connections, bytes.
    #[n(6)]
    Limit,
    /// The guest is older than the host and does not know this request.
    #[n(7)]
    Unknown,
    #[n(8)]
    Internal,
    /// The sandbox lacks what this takes.
    #[n(30)]
    Unsupported,
}

/// The step at which starting a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Stage {
    #[n(0)]
    Prepare,
    #[n(1)]
    Fork,
    #[n(2)]
    Directory,
    #[n(3)]
    User,
    #[n(4)]
    Confine,
    #[n(5)]
    Execute,
}
