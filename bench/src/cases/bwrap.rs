//! bubblewrap with all namespaces, the machine's system read-only and a fresh /proc, /dev and /tmp. Runs the same
//! `true` of the machine as our one-shots do.

use std::process::Command;

use anyhow::Result;

use super::name;
use super::process::Process;

/// Makes the case.
pub fn case() -> Result<Process> {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]);
    for link in ["bin", "lib", "lib64"] {
        command.args(["--symlink", &format!("usr/{link}"), &format!("/{link}")]);
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "true"]);
    Process::new(name::BWRAP, command)
}
