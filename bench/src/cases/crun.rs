//! crun with a bundle written by hand: all namespaces, a mapped root, no capabilities.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::apart::Apart;
use super::name;

/// crun refuses a hybrid cgroup tree; without the second hierarchy in its sight it is a plain first one.
const PREPARATION: &str = "umount /sys/fs/cgroup/unified 2>/dev/null || true";

/// Makes the case.
pub fn case(workshop: &Path, program: &Path) -> Result<Apart> {
    let bundle = workshop.join("crun");
    let root = bundle.join("rootfs");
    for directory in ["proc", "dev", "tmp"] {
        std::fs::create_dir_all(root.join(directory))?;
    }
    std::fs::copy(program, root.join("true")).context("could not fill the bundle")?;
    std::fs::write(bundle.join("config.json"), specification().to_string())?;
    let mut command = Command::new("crun");
    command.arg("--root").arg(workshop.join("crun-state")).args([
        "--cgroup-manager=disabled",
        "run",
        "--bundle",
    ]);
    command.arg(&bundle).arg(format!("coracle-bench-{}", std::process::id()));
    Apart::new(name::CRUN, PREPARATION, &command)
}

fn specification() -> serde_json::Value {
    let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({"type": kind}));
    json!({
        "ociVersion": "1.0.0",
        "process": {"terminal": false, "user": {"uid": 0, "gid": 0}, "args": ["/true"], "env": ["PATH=/"], "cwd": "/",
            "capabilities": {}, "noNewPrivileges": true},
        "root": {"path": "rootfs", "readonly": true},
        "hostname": "bench",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]},
        ],
        "linux": {"namespaces": namespaces},
    })
}
