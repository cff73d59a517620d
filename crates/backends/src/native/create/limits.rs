//! The limits of a spec, as the kernel takes them.

use coracle_core::Spec;
use coracle_sys::cgroup::Values;

use crate::weak;

/// The part of the memory that sockets may hold beside it. Enough for a full window on some connections, and little
/// beside what a sandbox may have anyway.
const SOCKETS: u64 = 4;
/// A connection that gets no buffer at all would stand still.
const SOCKETS_MIN: u64 = 4 << 20;

/// Returns the limits as the kernel takes them.
pub fn values(spec: &Spec) -> Values {
    let limits = &spec.limits;
    if weak::off(weak::Wall::Limits) {
        return Values::default();
    }
    Values {
        cpu_millicores: limits.cpu_millicores,
        memory_bytes: limits.memory_mb.map(|megabytes| megabytes << 20),
        socket_bytes: limits.memory_mb.filter(|_| !weak::off(weak::Wall::SocketBuffers)).map(sockets),
        pids: limits.pids,
    }
}

fn sockets(memory_mb: u64) -> u64 {
    ((memory_mb << 20) / SOCKETS).max(SOCKETS_MIN)
}
