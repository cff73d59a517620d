//! What is ordered from porter, and what it answers.

use minicbor::{Decode, Encode};

/// One order. Porter carries it out, answers and ends.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Order {
    /// Fetches a commit over this connection and checks it out. Answered by [`Answer::CheckedOut`].
    #[n(0)]
    Checkout(#[n(0)] Checkout),
    /// Answers a question about the objects of one repository, on the host.
    #[n(1)]
    Ask {
        #[n(0)]
        question: Question,
        /// The object directory, where the host cannot give a mount of it.
        #[cbor(n(1), with = "minicbor::bytes")]
        directory: Option<Vec<u8>>,
    },
}

/// What the host wants to know. Commits and trees are named by their ids, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Question {
    /// The history of a commit, newest first. Answered by [`Answer::Log`].
    #[n(0)]
    Log {
        #[n(0)]
        from: String,
        #[n(1)]
        max: u32,
    },
    /// What differs between two commits or trees; without an old one everything is new. Answered by [`Answer::Diff`].
    #[n(1)]
    Diff {
        #[n(0)]
        old: Option<String>,
        #[n(1)]
        new: String,
        /// The most files to name.
        #[n(2)]
        files_max: u32,
        /// The most bytes of changed lines; with 0 only files are named, and nothing is counted in them.
        #[n(3)]
        text_max: u32,
    },
    /// Merges two commits, in memory. Answered by [`Answer::Merged`].
    #[n(2)]
    Merge(#[n(0)] Merge),
    /// Whether a commit is another's ancestor, or the same. Answered by [`Answer::IsAncestor`].
    #[n(3)]
    IsAncestor {
        #[n(0)]
        ancestor: String,
        #[n(1)]
        descendant: String,
    },
}

/// Two commits to merge.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Merge {
    /// The commit to merge from; the best common ancestor if absent.
    #[n(0)]
    pub base: Option<String>,
    #[n(1)]
    pub ours: String,
    #[n(2)]
    pub theirs: String,
    /// The commit to make of the merged tree; none if absent.
    #[n(3)]
    pub commit: Option<NewCommit>,
}

/// A commit to make.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct NewCommit {
    #[n(0)]
    pub parents: Vec<String>,
    #[n(1)]
    pub message: String,
    #[n(2)]
    pub author_name: String,
    #[n(3)]
    pub author_email: String,
    /// Seconds since 1970.
    #[n(4)]
    pub time: i64,
}

/// A repository to make in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Checkout {
    /// The top of the work tree. It is there, and empty.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub directory: Vec<u8>,
    /// The commit to check out, in hexadecimal.
    #[n(1)]
    pub commit: String,
    /// The branch that `HEAD` names.
    #[n(2)]
    pub branch: String,
    /// The branch the commit is from; the work tree knows it as `origin/BASE`.
    #[n(3)]
    pub base_branch: String,
    /// How many commits of the history to bring; all if absent.
    #[n(4)]
    pub depth: Option<u32>,
    #[n(5)]
    pub author_name: String,
    #[n(6)]
    pub author_email: String,
    /// What `origin` is called in the configuration; without it there is no such remote.
    #[n(7)]
    pub origin: Option<String>,
    /// How many threads it may use.
    #[n(8)]
    pub threads: u32,
}

/// What porter did.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Answer {
    #[n(0)]
    Failed(#[n(0)] Failed),
    #[n(1)]
    CheckedOut(#[n(0)] CheckedOut),
    #[n(2)]
    Log {
        #[n(0)]
        commits: Vec<LogEntry>,
        /// There are older ones.
        #[n(1)]
        more: bool,
    },
    #[n(3)]
    Diff {
        #[n(0)]
        files: Vec<FileChange>,
        /// There are more files.
        #[n(1)]
        more: bool,
    },
    #[n(4)]
    Merged(#[n(0)] Merged),
    #[n(5)]
    IsAncestor {
        #[n(0)]
        yes: bool,
    },
}

/// One commit of a history.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct LogEntry {
    #[n(0)]
    pub commit: String,
    #[n(1)]
    pub parents: Vec<String>,
    #[n(2)]
    pub author_name: String,
    #[n(3)]
    pub author_email: String,
    /// Seconds since 1970.
    #[n(4)]
    pub author_time: i64,
    #[n(5)]
    pub commit_time: i64,
    /// Its beginning, if it is long.
    #[n(6)]
    pub message: String,
}

/// One file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct FileChange {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    #[n(1)]
    pub status: FileStatus,
    /// Its modes, as in a tree; 0 where it is not there.
    #[n(2)]
    pub old_mode: u32,
    #[n(3)]
    pub new_mode: u32,
    /// Its objects; absent where it is not there.
    #[n(4)]
    pub old_id: Option<String>,
    #[n(5)]
    pub new_id: Option<String>,
    /// Lines added and removed; absent in what is no text, or too large.
    #[n(6)]
    pub added: Option<u64>,
    #[n(7)]
    pub removed: Option<u64>,
    /// The changed lines, as `diff -u` has them, if there was room.
    #[cbor(n(8), with = "minicbor::bytes")]
    pub text: Option<Vec<u8>>,
}

/// How a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum FileStatus {
    #[n(0)]
    Added,
    #[n(1)]
    Deleted,
    #[n(2)]
    Modified,
    /// A file has become a link, or the reverse.
    #[n(3)]
    Retyped,
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Merged {
    /// The commit it was merged from, if there is a common ancestor.
    #[n(0)]
    pub base: Option<String>,
    /// The merged tree, and the commit of it; both absent if there are conflicts.
    #[n(1)]
    pub tree: Option<String>,
    #[n(2)]
    pub commit: Option<String>,
    /// A pack with every new object; empty if there is none.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub pack: Vec<u8>,
    #[n(4)]
    pub conflicts: Vec<Conflict>,
    /// There are more conflicts.
    #[n(5)]
    pub more: bool,
}

/// One path that could not be merged.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Conflict {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    #[n(1)]
    pub kind: ConflictKind,
    /// The objects at the path; absent where it is not there.
    #[n(2)]
    pub base: Option<String>,
    #[n(3)]
    pub ours: Option<String>,
    #[n(4)]
    pub theirs: Option<String>,
}

/// Why a path could not be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ConflictKind {
    /// Both have changed the same lines, or what is no text.
    #[n(0)]
    Content,
    /// One has changed it, the other removed it.
    #[n(1)]
    ModifyDelete,
    /// Both have added it, differently.
    #[n(2)]
    AddAdd,
    /// One has a file where the other has a directory or a link.
    #[n(3)]
    Type,
    /// Both have renamed it, or one what the other removed.
    #[n(4)]
    Rename,
    #[n(5)]
    Submodule,
    #[n(6)]
    Other,
}

/// A repository that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CheckedOut {
    #[n(0)]
    pub objects: u64,
    #[n(1)]
    pub files: u64,
    #[n(2)]
    pub bytes: u64,
}

/// Why porter did not do it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Failed {
    #[n(0)]
    pub why: Why,
    /// What was attempted, on what, and the cause.
    #[n(1)]
    pub message: String,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Why {
    /// The order itself makes no sense.
    #[n(0)]
    Invalid,
    /// The repository has a name or an object that must not be written.
    #[n(1)]
    Refused,
    /// The directory is not empty.
    #[n(2)]
    Occupied,
    /// There is no such object.
    #[n(3)]
    NotFound,
    /// A bound was reached: the disk, memory, or one of porter's own.
    #[n(4)]
    Limit,
    /// The system or the other side of the connection failed.
    #[n(5)]
    Broken,
}

impl Failed {
    pub fn new(why: Why, message: impl Into<String>) -> Self {
        Self { why, message: message.into() }
    }

    /// Returns a failure of the system, whose cause is part of the message: it is told to the other side, which has no
    /// other way to learn it.
    pub fn broken(attempted: impl std::fmt::Display, cause: impl std::fmt::Display) -> Self {
        Self::new(Why::Broken, format!("could not {attempted}: {cause}"))
    }
}
