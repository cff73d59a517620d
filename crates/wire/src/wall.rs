//! Walls of a sandbox that a test build can leave out, one by one.
//!
//! An attack that fails everywhere proves nothing: it has to succeed once the wall that is said to hold it is gone.
//! Only builds with the feature `weaken` ever look at this.

/// One defence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Wall {
    /// Commands stand under the system call filter.
    Seccomp,
    NoNewPrivileges,
    /// Landlock stands around commands.
    Landlock,
    /// Commands hold no capability and can gain none.
    Capabilities,
    UserNamespace,
    PidNamespace,
    IpcNamespace,
    CgroupNamespace,
    /// Nothing inherited is open in a command.
    Descriptors,
    /// What of `/proc` speaks of the machine is covered, or read-only.
    Masks,
    /// What covers it is taken from our own `/dev`, never from the image.
    Covers,
    /// `/proc` is written to only once it is mounted by us.
    Procfs,
    /// Commands cannot make user namespaces, filter or not.
    Nesting,
    /// Processes of others are not shown in `/proc`.
    Hidepid,
    /// The guest, its forker and a command before its program cannot be traced or read.
    Opaque,
    /// `/dev` holds only harmless devices.
    Devices,
    /// Mounts are `nosuid` and `nodev`.
    Attributes,
    /// The machine's own directories are lower layers, read-only.
    Layers,
    /// The machine's root is let go of.
    Pivot,
    /// What we mount on is found without following links.
    Targets,
    /// Limits on memory, processes and CPU.
    Limits,
    /// Limits on space and files.
    Disk,
    /// Output is kept within bounds.
    Output,
    /// Running execs are counted.
    Execs,
    /// All of an exec is killed, by its cgroup.
    Killing,
    /// Paths of the file API are resolved by the kernel within their root; without it, by name and then opened.
    Resolution,
    /// Without it a path is not even looked at before it is opened.
    Confinement,
    /// Trees are deleted by descriptor.
    Removal,
    /// The guest's socket is where no command can get at it, at an engine.
    Socket,
    /// A sandbox without one of its walls is refused.
    Observation,
    /// The sandbox has a network of its own, with nothing in it but the loopback interface.
    NetworkNamespace,
    /// Only hosts a rule admits are reached.
    EgressRules,
    /// Only public addresses are, and those a rule lists.
    EgressAddress,
    /// The name on a connection is that of the host it was made to.
    EgressName,
    /// Hosts are read in one way, and what is ambiguous is refused.
    EgressSpelling,
    /// One request on a connection is judged and one is passed on.
    EgressRequests,
    /// Connections end when the network they were made under does.
    EgressNarrowing,
    /// Connections and names are counted.
    EgressCaps,
    /// Who speaks through a door with a ceiling gets no sandbox beyond it.
    Ceiling,
    /// Who pulls a blob waits for nobody else who does.
    Pulls,
    /// File operations do not reach the guest's own directory, at an engine.
    GuestDirectory,
    /// A call's own sweep waits for no engine.
    Sweeps,
    /// Directories with unix sockets in them are not mounted unless the caller says so.
    Sockets,
    /// Commands do not use up what the machine's own users can watch files with, at an engine.
    Watches,
    /// No engine is needed to remove what was never made there.
    Rooms,
    /// Answers carry a bounded part of a command's output, and take from their caller's share until they are written.
    Answers,
    /// What TCP and UDP hold on their way is bounded with the memory.
    SocketBuffers,
    /// Only proof of a guest's death counts as one; without it any failure to reach it does.
    Proof,
    /// A home is known by more than its database: by a file, by its rooms, and by what is not where it should be.
    Mark,
    /// An owner is changed while changes wait, and what the old one started meanwhile ends before the new one is served.
    Handover,
    /// Who attends a command under an older epoch does not hold it back.
    Attendants,
    /// A hold ends by itself when its holder does not renew it.
    Leases,
    /// File operations have the rights of the user they act for; without it, the guest's own.
    FileRights,
}

impl Wall {
    pub const ALL: [Self; 53] = [
        Self::Seccomp,
        Self::NoNewPrivileges,
        Self::Landlock,
        Self::Capabilities,
        Self::UserNamespace,
        Self::PidNamespace,
        Self::IpcNamespace,
        Self::CgroupNamespace,
        Self::Descriptors,
        Self::Masks,
        Self::Covers,
        Self::Procfs,
        Self::Nesting,
        Self::Hidepid,
        Self::Opaque,
        Self::Devices,
        Self::Attributes,
        Self::Layers,
        Self::Pivot,
        Self::Targets,
        Self::Limits,
        Self::Disk,
        Self::Output,
        Self::Execs,
        Self::Killing,
        Self::Resolution,
        Self::Confinement,
        Self::Removal,
        Self::Socket,
        Self::Observation,
        Self::NetworkNamespace,
        Self::EgressRules,
        Self::EgressAddress,
        Self::EgressName,
        Self::EgressSpelling,
        Self::EgressRequests,
        Self::EgressNarrowing,
        Self::EgressCaps,
        Self::Ceiling,
        Self::Pulls,
        Self::GuestDirectory,
        Self::Sweeps,
        Self::Sockets,
        Self::Watches,
        Self::Rooms,
        Self::Answers,
        Self::SocketBuffers,
        Self::Proof,
        Self::Mark,
        Self::Handover,
        Self::Attendants,
        Self::Leases,
        Self::FileRights,
    ];

    /// Returns its bit in a set of walls.
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }
}
