//! The limits of a spec, as the kernel takes them.

use coracle_core::Spec;
use coracle_sys::cgroup::Values;

use crate::weak;

/// Returns the limits as the kernel takes them.
pub fn values(spec: &Spec) -> Values {
    let limits = &spec.limits;
    if weak::off(weak::Wall::Limits) {
        return Values::default();
    }
    Values {
        cpu_millicores: limits.cpu_millicores,
        memory_bytes: limits.memory_mb.map(|megabytes| megabytes << 20),
        pids: limits.pids,
    }
}
