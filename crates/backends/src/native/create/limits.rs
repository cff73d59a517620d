//! Translates the limits of a spec into the kernel's.

use coracle_core::Spec;
use coracle_sys::cgroup::Values;

use crate::weak;

/// Sockets may use one part in this many of the memory limit, beside it. Enough for a full window on some
/// connections, and little compared with what a sandbox may have anyway.
const SOCKETS: u64 = 4;
/// A connection without any buffer would stand still.
const SOCKETS_MIN: u64 = 4 << 20;

/// Returns the limits in the kernel's units.
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
