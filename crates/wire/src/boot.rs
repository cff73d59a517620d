//! What the host tells a guest at boot, before there are requests.
//!
//! Both come out of one binary, so this has no versions.

use minicbor::{Decode, Encode};

/// What the guest is started with, sent once over its boot socket; the descriptors travel beside it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Boot {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub secret: Vec<u8>,
    #[n(1)]
    pub epoch: u64,
    #[n(2)]
    pub hostname: String,
    /// How long the guest may go without an operation and without a running exec.
    #[n(3)]
    pub ttl_ms: u64,
    #[cbor(n(4), with = "minicbor::bytes")]
    pub workdir: Vec<u8>,
    #[cbor(n(5), with = "crate::bytes::pairs")]
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// The capabilities commands keep, as a bit mask.
    #[n(6)]
    pub capabilities: u64,
    /// Commands may trace each other, so that a debugger may keep what was killed.
    #[n(24)]
    pub may_trace: bool,
    /// Compiled filters, as `sock_filter` arrays in memory order: for all commands, and the one each adds last.
    #[cbor(n(7), with = "minicbor::bytes")]
    pub filter: Vec<u8>,
    #[cbor(n(8), with = "minicbor::bytes")]
    pub last_filter: Vec<u8>,
    /// Filters for all commands beside the first.
    #[cbor(n(21), with = "crate::bytes::list")]
    pub more_filters: Vec<Vec<u8>>,
    /// Directories that are an overlay of their own, relative to the root, in the order of their descriptors. One with
    /// several lower layers is named as often, the topmost first.
    #[n(9)]
    pub overlays: Vec<String>,
    /// Size of `/dev/shm`.
    #[n(10)]
    pub shm_bytes: u64,
    /// How many cgroup `tasks` files the forker joins by, in the order of their descriptors.
    #[n(11)]
    pub joins: u32,
    /// Whether counters of memory and of pids travel along.
    #[n(12)]
    pub memory_counter: bool,
    #[n(13)]
    pub pids_counter: bool,
    /// How many layers the root has, the topmost first, in the order of their descriptors.
    #[n(14)]
    pub layers: u32,
    /// Where the sandbox's own files are kept, if not in a directory that travels along.
    #[n(15)]
    pub memory: Option<MemoryStorage>,
    /// The directory that travels along is a disk of the sandbox's own.
    #[n(22)]
    pub on_disk: bool,
    /// Directories brought in, outer ones first, in the order of their descriptors.
    #[n(16)]
    pub mounts: Vec<MountPoint>,
    /// What the guest opens itself, in the stead and in the order of descriptors: without root outside, only it can.
    #[n(17)]
    pub sources: Vec<Source>,
    /// Who commands run as unless they say otherwise, as `passwd` of the image knows them; root if absent. The workspace
    /// is theirs.
    #[cbor(n(18), with = "minicbor::bytes")]
    pub user: Option<Vec<u8>>,
    /// The host waits to be told who `user` is: what it brings in shows as that user's, and is not to be attached before.
    #[n(23)]
    pub asks_owner: bool,
    /// Commands have no cgroup: they are told apart by a namespace, and this many processes bounds them.
    #[n(19)]
    pub without_cgroups: Option<ProcessLimit>,
    /// Disks with files this sandbox starts from, the topmost first, in the order of their descriptors: the last
    /// generation of each that is meant.
    #[n(40)]
    pub bases: Vec<u32>,
    /// Walls a test build leaves out, as bits of [`Wall`](crate::Wall). Other builds of the guest ignore it.
    #[n(20)]
    pub weakened: Option<u64>,
    /// Where commands find the network; absent where there is none.
    #[n(30)]
    pub egress: Option<Egress>,
    /// The sandbox ends when the host's end of the boot socket is closed, unless it is tied to another connection by then.
    #[n(60)]
    pub tied: bool,
    /// The root and the namespaces are an engine's work, and done.
    #[n(50)]
    pub contained: bool,
    /// Added to the filters where the engine gives the sandbox no user namespace.
    #[cbor(n(51), with = "minicbor::bytes")]
    pub shared_users_filter: Option<Vec<u8>>,
}

impl Boot {
    /// The first byte of the guest's word that it serves. Two follow: whether Landlock stands, and whether it knows `user`.
    pub const READY: u8 = 1;
    /// The first byte of what the guest says of `user`: its numbers follow, of the user and of the group. The host answers
    /// with one byte.
    pub const OWNER: u8 = 2;
}

/// What a guest in a container of an engine's answers to its boot plan: its report, or what went wrong.
pub type Report = Result<GuestReport, String>;

/// What a guest in a container reports of itself, because the host cannot look there. It does so before any code of the
/// image has run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct GuestReport {
    /// Landlock stands around commands.
    #[n(0)]
    pub fenced: bool,
    /// What the kernel shows of the forker, which every command is forked from: its `status`.
    #[n(1)]
    pub status: String,
    /// The ids of its user namespace and those outside.
    #[n(2)]
    pub uid_map: String,
    /// It sees how often the kernel enforced the limits on memory and on processes.
    #[n(3)]
    pub memory_counter: bool,
    #[n(4)]
    pub pids_counter: bool,
    /// The image knows the user commands are to run as.
    #[n(5)]
    pub knows_user: bool,
}

/// The addresses on the loopback interface that lead outside.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Egress {
    /// Each is known by its index from then on.
    #[n(0)]
    pub listeners: Vec<ListenAddress>,
    /// Lines for `/etc/hosts`.
    #[n(1)]
    pub hosts: String,
}

/// An IPv4 address, as a number, and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ListenAddress {
    #[n(0)]
    pub address: u32,
    #[n(1)]
    pub port: u16,
}

/// What the guest's program is told where it is to put a new generation of files on top of a sandbox's, from inside. The
/// descriptors travel beside it: the image's layers, the storage, the lower layers of `overlays`, the bases.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Restack {
    #[n(0)]
    pub layers: u32,
    #[n(1)]
    pub overlays: Vec<String>,
    #[n(2)]
    pub bases: Vec<u32>,
    #[n(3)]
    pub weakened: Option<u64>,
    /// How to make sure, on the connection that holds the sandbox, that it is still held. Absent where the guest holds
    /// until that connection ends.
    #[n(4)]
    pub renewal: Option<Renewal>,
}

impl Restack {
    /// The first byte of the answer where it was done: the last frozen generation and the device of the new root follow.
    pub const DONE: u8 = 1;
    /// The answer where the disk takes no further generation: nothing was done.
    pub const FULL: u8 = 2;
}

/// What renews a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Renewal {
    /// The epoch to ask under.
    #[n(0)]
    pub epoch: u64,
    /// How long the hold is to last for the step that cannot be undone, and again afterwards.
    #[n(1)]
    pub lease_ms: u64,
}

/// Files kept in memory, and how many of what size.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct MemoryStorage {
    #[n(0)]
    pub bytes: u64,
    #[n(1)]
    pub inodes: u64,
}

/// Where a directory brought in appears.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct MountPoint {
    /// An absolute path without `.` and `..`.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub target: Vec<u8>,
    /// Changes go to the sandbox's own files.
    #[n(1)]
    pub overlay: bool,
    /// Its top is to be given to the user commands run as: a volume that no other sandbox uses. A directory of the machine
    /// stays its owner's.
    #[n(2)]
    pub given: bool,
}

/// A file or directory of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Source {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    #[n(1)]
    pub read_only: bool,
}

/// How many processes commands may have; absent where that is not bounded.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ProcessLimit {
    #[n(0)]
    pub pids: Option<u64>,
}
