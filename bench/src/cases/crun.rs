//! crun, which is written in C.

use super::name;
use super::oci::Runtime;

pub const RUNTIME: Runtime = Runtime {
    program: "crun",
    run: name::CRUN,
    exec: name::CRUN_EXEC,
    // crun refuses a hybrid cgroup tree; without the second hierarchy in its sight it is a plain first one.
    preparation: "umount /sys/fs/cgroup/unified 2>/dev/null || true",
    flags: &["--cgroup-manager=disabled"],
};
