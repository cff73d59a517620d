//! Walls of a sandbox that a test build can leave out, one by one.
//!
//! An attack that fails everywhere proves nothing: it has to succeed once the wall that should stop it is gone.
//! Only builds with the feature `weaken` ever look at this.

/// One defence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Wall {
    /// Commands run under the system call filter.
    Seccomp,
    NoNewPrivileges,
    /// Landlock confines commands.
    Landlock,
    /// Commands hold no capability and can gain none.
    Capabilities,
    UserNamespace,
    PidNamespace,
    IpcNamespace,
    CgroupNamespace,
    /// No inherited descriptor is open in a command.
    Descriptors,
    /// The parts of `/proc` that speak of the machine are covered, or read-only.
    Masks,
    /// The covers come from our own `/dev`, never from the image.
    Covers,
    /// The guest writes to `/proc` only once it has mounted it itself.
    Procfs,
    /// Commands cannot make user namespaces, even without the filter.
    Nesting,
    /// `/proc` does not show processes of other users.
    Hidepid,
    /// Other processes cannot trace or read the guest, its forker, or a command before its program.
    Opaque,
    /// `/dev` holds only harmless devices.
    Devices,
    /// Mounts are `nosuid` and `nodev`.
    Attributes,
    /// The machine's own directories are read-only lower layers.
    Layers,
    /// The guest unmounts the machine's root.
    Pivot,
    /// The guest follows no links to a mount point.
    Targets,
    /// Limits on memory, processes and CPU.
    Limits,
    /// Limits on space and files.
    Disk,
    /// The guest keeps a bounded part of the output.
    Output,
    /// The guest limits the number of running execs.
    Execs,
    /// The guest kills all processes of an exec, by its cgroup.
    Killing,
    /// The kernel resolves paths of file operations within their root. Without it, they are checked by name and
    /// then opened.
    Resolution,
    /// Without it, a path is not even checked before it is opened.
    Confinement,
    /// The guest deletes trees by descriptor.
    Removal,
    /// With a container engine, the guest's socket is where no command can reach it.
    Socket,
    /// The host refuses a sandbox that lacks one of its walls.
    Observation,
    /// The sandbox has its own network namespace, with only the loopback interface in it.
    NetworkNamespace,
    /// Commands reach only hosts that a rule admits.
    EgressRules,
    /// They reach only public addresses, and those a rule lists.
    EgressAddress,
    /// The name on a connection must be that of the host it was made to.
    EgressName,
    /// The proxy reads a host name in one way only, and refuses ambiguous ones.
    EgressSpelling,
    /// The proxy judges one request per connection and passes only that one on.
    EgressRequests,
    /// Connections end when a narrower network no longer allows them.
    EgressNarrowing,
    /// The proxy limits the number of connections and names.
    EgressCaps,
    /// A caller of a door with a ceiling gets no sandbox beyond it.
    Ceiling,
    /// A caller that pulls a blob does not wait for another that does.
    Pulls,
    /// With a container engine, file operations do not reach the guest's own directory.
    GuestDirectory,
    /// The sweep of a call waits for no container engine.
    Sweeps,
    /// Directories that contain unix sockets are not mounted unless the caller allows it.
    Sockets,
    /// With a container engine, commands do not use up the file watches of the machine's own users.
    Watches,
    /// Removing a sandbox that was never made there needs no container engine.
    Rooms,
    /// Answers carry a bounded part of a command's output, and count against their caller's share until they are
    /// written.
    Answers,
    /// What TCP and UDP hold in transit is bounded along with memory.
    SocketBuffers,
    /// Only proof of a guest's death counts as its death. Without it, any failure to reach the guest does.
    Proof,
    /// A home is recognised by more than its database: by a file, by its rooms, and by what is missing.
    Mark,
    /// The owner changes while changes wait, and what the old owner started meanwhile ends before the new one is
    /// served.
    Handover,
    /// An attendant of an older epoch does not hold a command back.
    Attendants,
    /// A hold ends by itself if its holder does not renew it.
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

    /// Returns the bit of this wall in a set of walls.
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }
}
