//! The messages the host sends a guest at boot, before there are requests.
//!
//! Host and guest come out of one binary, so these messages have no versions. Except where a container wakes after an upgrade:
//! its guest is the one it was made with. So a plan may get more fields, which an older guest ignores, and lose none.

use minicbor::{Decode, Encode};

/// The boot plan. The host sends it once over the boot socket; the descriptors travel beside it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Boot {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub secret: Vec<u8>,
    #[n(1)]
    pub epoch: u64,
    #[n(2)]
    pub hostname: String,
    /// How long the guest may be without an operation and without a running exec before it ends.
    #[n(3)]
    pub ttl_ms: u64,
    #[cbor(n(4), with = "minicbor::bytes")]
    pub workdir: Vec<u8>,
    #[cbor(n(5), with = "crate::bytes::pairs")]
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// The capabilities commands keep, as a bit mask.
    #[n(6)]
    pub capabilities: u64,
    /// Commands may trace each other, so a debugger may keep killed processes.
    #[n(24)]
    pub may_trace: bool,
    /// Compiled filters, as `sock_filter` arrays in memory order: one for all commands, and one that each command
    /// adds last.
    #[cbor(n(7), with = "minicbor::bytes")]
    pub filter: Vec<u8>,
    #[cbor(n(8), with = "minicbor::bytes")]
    pub last_filter: Vec<u8>,
    /// Filters for all commands beside the first.
    #[cbor(n(21), with = "crate::bytes::list")]
    pub more_filters: Vec<Vec<u8>>,
    /// Directories that get an overlay of their own, relative to the root, in the order of their descriptors. One
    /// with several lower layers is listed once per layer, the topmost first.
    #[n(9)]
    pub overlays: Vec<String>,
    /// Size of `/dev/shm`.
    #[n(10)]
    pub shm_bytes: u64,
    /// How many cgroup `tasks` files the forker joins through, in the order of their descriptors.
    #[n(11)]
    pub joins: u32,
    /// Whether descriptors of the memory and pids counters travel along.
    #[n(12)]
    pub memory_counter: bool,
    #[n(13)]
    pub pids_counter: bool,
    /// How many layers the root has, the topmost first, in the order of their descriptors.
    #[n(14)]
    pub layers: u32,
    /// Where the sandbox's own files are, if not in a directory that travels along.
    #[n(15)]
    pub memory: Option<MemoryStorage>,
    /// The directory that travels along is a disk of the sandbox's own.
    #[n(22)]
    pub on_disk: bool,
    /// Directories the caller mounts, outer ones first, in the order of their descriptors.
    #[n(16)]
    pub mounts: Vec<MountPoint>,
    /// What the guest opens itself instead of receiving it, in the order of the descriptors: without root only the
    /// guest can.
    #[n(17)]
    pub sources: Vec<Source>,
    /// The user that commands run as by default, as in the image's `passwd`; root if absent. The workspace belongs
    /// to this user.
    #[cbor(n(18), with = "minicbor::bytes")]
    pub user: Option<Vec<u8>>,
    /// The host waits for the guest to say who `user` is: it maps its directories to that user before they are
    /// attached.
    #[n(23)]
    pub asks_owner: bool,
    /// Commands have no cgroup. The guest tells them apart by a namespace, and this limit bounds their processes.
    #[n(19)]
    pub without_cgroups: Option<ProcessLimit>,
    /// Disks with files this sandbox starts from, the topmost first, in the order of their descriptors: the last
    /// generation of each to use.
    #[n(40)]
    pub bases: Vec<u32>,
    /// The sandbox wakes: its storage has the files that its last guest left.
    #[n(41)]
    pub wakes: bool,
    /// The sandbox sleeps when its guest has ended: the guest leaves what it knows of its execs to the next.
    #[n(42)]
    pub sleeps: bool,
    /// Walls a test build leaves out, as bits of [`Wall`](crate::Wall). Other builds of the guest ignore it.
    #[n(20)]
    pub weakened: Option<u64>,
    /// The listeners that lead to the network; absent where there is none.
    #[n(30)]
    pub egress: Option<Egress>,
    /// The sandbox ends when the host's end of the boot socket closes, unless it is tied to another connection by
    /// then.
    #[n(60)]
    pub tied: bool,
    /// A container engine has already made the root and the namespaces.
    #[n(50)]
    pub contained: bool,
    /// Added to the filters where the container engine gives the sandbox no user namespace.
    #[cbor(n(51), with = "minicbor::bytes")]
    pub shared_users_filter: Option<Vec<u8>>,
}

impl Boot {
    /// The first byte of the guest's message that it serves. Two follow: whether Landlock is in force, and whether
    /// the image has `user`.
    pub const READY: u8 = 1;
    /// The first byte of the guest's message about `user`: the ids of the user and of the group follow. The host
    /// answers with one byte.
    pub const OWNER: u8 = 2;
}

/// The answer of a guest in a container engine's container to its boot plan: its report, or what went wrong.
pub type Report = Result<GuestReport, String>;

/// What a guest in a container reports of itself, because the host cannot look there. It reports before any code of
/// the image has run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct GuestReport {
    /// Landlock confines commands.
    #[n(0)]
    pub fenced: bool,
    /// The kernel's `status` file of the forker, from which every command is forked.
    #[n(1)]
    pub status: String,
    /// The id map of its user namespace.
    #[n(2)]
    pub uid_map: String,
    /// The guest can read how often the kernel enforced the limits on memory and on processes.
    #[n(3)]
    pub memory_counter: bool,
    #[n(4)]
    pub pids_counter: bool,
    /// The image has the user that commands run as.
    #[n(5)]
    pub knows_user: bool,
}

/// The addresses on the loopback interface that lead outside.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Egress {
    /// The index of each is its number from then on.
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

/// The order to put a new generation of files on top of a live sandbox's, for the guest's program inside it. The
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
    /// How to check, on the connection that holds the sandbox, that the guest still holds it. Absent where the
    /// guest holds until that connection ends.
    #[n(4)]
    pub renewal: Option<Renewal>,
}

impl Restack {
    /// The first byte of the answer after a success: the last frozen generation and the device of the new root
    /// follow.
    pub const DONE: u8 = 1;
    /// The answer if the disk has no room for another generation: nothing was changed.
    pub const FULL: u8 = 2;
}

/// How to renew a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Renewal {
    /// The epoch of the request.
    #[n(0)]
    pub epoch: u64,
    /// How long the hold lasts for the step that cannot be undone, and again afterwards.
    #[n(1)]
    pub lease_ms: u64,
}

/// Limits of files kept in memory: their size and their number.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct MemoryStorage {
    #[n(0)]
    pub bytes: u64,
    #[n(1)]
    pub inodes: u64,
}

/// Where a mounted directory appears.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct MountPoint {
    /// An absolute path without `.` and `..`.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub target: Vec<u8>,
    /// Changes go to the sandbox's own files.
    #[n(1)]
    pub overlay: bool,
    /// Its top belongs to the user that commands run as: a volume that no other sandbox uses. A directory of the
    /// machine keeps its owner.
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

/// How many processes commands may have; absent if not bounded.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ProcessLimit {
    #[n(0)]
    pub pids: Option<u64>,
}
