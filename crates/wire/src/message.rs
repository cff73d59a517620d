//! Requests, replies and faults.

use minicbor::{Decode, Encode};

use crate::value::{
    Acting, Chunk, Command, Entry, ExecState, ExecSummary, Placing, Running, Status, Terminal, Time,
};

/// One thing asked of the guest, stamped with the epoch it is asked under.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Request {
    #[n(0)]
    pub epoch: u64,
    #[n(1)]
    pub body: Body,
    /// Whose rights a request about files is carried out with. Absent, it is the guest itself, whom no permission stops.
    #[n(2)]
    pub acting: Option<Acting>,
}

/// What is asked. Answers come in the order of the requests, one for each.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Body {
    /// Raises the fence to the request's epoch. Answered by [`Reply::Done`], with [`Running::Kill`] once all of it is dead:
    /// what was started before the epoch `before`, or before the request's own. Older guests know only the latter.
    #[n(0)]
    Fence {
        #[n(0)]
        running: Running,
        #[n(1)]
        before: Option<u64>,
    },
    /// Answered by [`Reply::Status`]. Asked `unnoticed`, the sandbox is not in use by that: whoever only watches does not
    /// keep it from ending. Older guests do not make the difference.
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
    /// Chunks after `since`; waits up to `wait_ms` until there is one or the exec has ended. Answered by
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
    /// Answered by [`Reply::Done`] once the command's pipe has taken all of it.
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
    /// TERM, a grace, KILL of the whole tree. Answered by [`Reply::State`] when it has ended.
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
    /// This connection attends the exec: what it has not read yet is not dropped, the command waits instead. It ends
    /// with the connection; a terminal is hung up then. Answered by [`Reply::Done`].
    #[n(10)]
    Attend {
        #[n(0)]
        exec: String,
        #[n(1)]
        since: u64,
    },
    /// Makes a sandbox that was made ahead somebody's: what of their spec it was not built by. Answered by
    /// [`Reply::Done`].
    #[n(11)]
    Adopt {
        /// Joins the environment of all commands, and wins over what is there.
        #[cbor(n(0), with = "crate::bytes::pairs")]
        env: Vec<(Vec<u8>, Vec<u8>)>,
        #[cbor(n(1), with = "minicbor::bytes")]
        workdir: Vec<u8>,
        #[n(2)]
        ttl_ms: u64,
    },
    /// Makes an exec that was started ahead the asking epoch's, with its time counted from now and these bounds. Answered
    /// by [`Reply::Done`].
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
    /// Begins or completes a file. With `last` the file is there, whole, under its name; until then a connection that
    /// closes leaves nothing. Answered by [`Reply::Written`].
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
        /// Older guests do not know it: they replace a link and set `mode`.
        #[n(5)]
        placing: Option<Placing>,
    },
    /// More of the file begun on this connection. Answered by [`Reply::Written`].
    #[n(22)]
    FileMore {
        #[cbor(n(0), with = "minicbor::bytes")]
        data: Vec<u8>,
        #[n(1)]
        last: bool,
    },
    /// Answered by [`Reply::Entries`]; while `more`, the rest comes by [`Body::FileListMore`].
    #[n(23)]
    FileList {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        #[n(1)]
        recursive: bool,
        /// What cannot be listed is a fault instead of being left out. Older guests always leave it out.
        #[n(2)]
        whole: Option<bool>,
    },
    #[n(24)]
    FileListMore {},
    /// Answered by [`Reply::Entries`] with one entry; a symlink is not followed.
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
    /// Opens a file and reads its beginning. Until a piece is shorter than what was asked for, another one is opened or the connection ends,
    /// [`Body::FileGoOn`] reads on in it, whatever has its name by then. Answered by [`Reply::Opened`].
    #[n(28)]
    FileOpen {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        #[n(1)]
        max_bytes: u32,
        /// A link at the end of the path is followed; otherwise it is a fault.
        #[n(2)]
        follow: bool,
        /// How many bytes of the path name the top of a tree; from there on no link is followed. Older guests do not know
        /// it, and follow links on the way.
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
    /// Makes a directory for its owner alone, and those above it. One that is there stays as it is. Answered by
    /// [`Reply::Done`].
    #[n(50)]
    FileDirectory {
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        /// As in [`Body::FileOpen`].
        #[n(1)]
        top: Option<u32>,
    },
    /// Makes a symbolic link, in the place of a file or link that is there. Answered by [`Reply::Done`].
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
    /// Gives a directory its permissions and time once all is in it. Answered by [`Reply::Done`].
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
    /// connection is that command's, byte by byte. Whatever the epoch: the network is the sandbox's, not its owner's.
    #[n(40)]
    Accept {},
    /// Connects to a port of the sandbox. Answered by [`Reply::Done`]; from then on the connection is the one to that
    /// port, byte by byte, until a newer epoch is seen.
    #[n(41)]
    Connect {
        #[n(0)]
        port: u16,
    },
    /// Freezes the commands and stops their clocks and the guest's own. What changes anything is refused from then on;
    /// what only looks is not. Asking twice is fine. Answered by [`Reply::Done`] once every process stands still.
    #[n(30)]
    Pause {},
    /// Undoes [`Body::Pause`]. Asking for it when nothing is paused is fine.
    #[n(31)]
    Resume {},
    /// Keeps everything as it is until [`Body::LetGo`] on the same connection, the connection's end, or the end of
    /// `lease_ms`: commands stand still, and whoever wants a change waits. With `changes_only` commands go on. Answered
    /// by [`Reply::Held`].
    ///
    /// Asked again on the connection that holds, it counts the lease from now; once the hold is over that is refused as
    /// [`FaultCode::Conflict`]. Older guests know neither field, and must not be asked twice.
    #[n(32)]
    Hold {
        #[n(0)]
        lease_ms: Option<u64>,
        #[n(1)]
        changes_only: Option<bool>,
    },
    #[n(33)]
    LetGo {},
    /// Ties something to this connection: an exec, or without one the sandbox itself, ends when the last connection it is
    /// tied to has ended and nobody has tied it again within `grace_ms`. The connection goes on carrying requests.
    /// An exec is tied before it is started; afterwards only one that is tied already can be tied to another connection.
    /// A newer epoch unties. Answered by [`Reply::Done`].
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
    /// Anything else in the sandbox.
    Changes,
    /// Changes nothing in the sandbox.
    Other,
}

impl Body {
    /// Tells whether it changes anything in the sandbox, and so is refused while the sandbox is paused.
    pub fn is_change(&self) -> bool {
        matches!(self.nature(), Nature::ChangesFiles | Nature::Changes)
    }

    /// Tells whether it is about files, and so done with the rights of the user the request names.
    pub fn is_about_files(&self) -> bool {
        matches!(self.nature(), Nature::ReadsFiles | Nature::ChangesFiles)
    }

    /// Every request is listed: one that is about files and forgotten here would have all the rights of the guest.
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
            | Self::Renew { .. } => Nature::Changes,
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

/// What the guest answers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    #[n(0)]
    Done {},
    #[n(1)]
    Fault(#[n(0)] Fault),
    #[n(2)]
    Status(#[n(0)] Status),
    /// `existing` if the exec had been started before under the same id.
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
    #[n(20)]
    File {
        #[cbor(n(0), with = "minicbor::bytes")]
        data: Vec<u8>,
        #[n(1)]
        size: u64,
    },
    /// The absolute path that was written.
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
    /// The file that was opened, and its beginning.
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
    /// `idle` if there is no process of a command and no file half written. `lease_ms` is the lease that was asked for;
    /// absent from older guests, which hold until the connection ends.
    #[n(30)]
    Held {
        #[n(0)]
        idle: bool,
        #[n(1)]
        lease_ms: Option<u64>,
    },
}

/// Why the guest did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Fault {
    #[n(0)]
    pub code: FaultCode,
    /// What was attempted, on what.
    #[n(1)]
    pub message: String,
    /// The kernel's number, where it was the kernel that said no.
    #[n(2)]
    pub errno: Option<i32>,
}

/// What kind of fault it was.
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
    /// The same exec id with another command.
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
    /// A file operation the kernel refused.
    #[n(5)]
    File,
    /// A bound of the guest's own: execs, connections, bytes.
    #[n(6)]
    Limit,
    /// The guest does not know this request: it is older than the host.
    #[n(7)]
    Unknown,
    #[n(8)]
    Internal,
    /// The sandbox has not what this takes.
    #[n(30)]
    Unsupported,
}

/// How far starting a command came.
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
