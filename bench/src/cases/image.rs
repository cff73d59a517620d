//! The image for the container engines: busybox and our programs, made on the spot.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::complaint;
use crate::workshop::Workshop;

/// What the engines call it.
pub const NAME: &str = "localhost/coracle-bench";

/// Returns an archive of its root.
pub fn archive(workshop: &Workshop) -> Result<PathBuf> {
    let (root, archive) = (workshop.path("image"), workshop.path("image.tar"));
    if !archive.exists() {
        fill(workshop, &root)?;
        let mut tar = Command::new("tar");
        complaint::run(
            tar.arg("--create").arg("--file").arg(&archive).arg("--directory").arg(&root).arg("."),
        )?;
    }
    Ok(archive)
}

fn fill(workshop: &Workshop, root: &Path) -> Result<()> {
    for directory in ["bin", "etc", "tmp", "workspace"] {
        std::fs::create_dir_all(root.join(directory))?;
    }
    std::fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n")?;
    std::fs::copy(&workshop.programs.nothing, root.join("true"))?;
    std::fs::copy(&workshop.programs.waiting, root.join("wait"))?;
    let busybox = root.join("bin/busybox");
    let applets = complaint::run(Command::new("busybox").arg("--list"))?;
    let found = complaint::run(Command::new("sh").args(["-c", "command -v busybox"]))?;
    std::fs::copy(String::from_utf8(found)?.trim(), &busybox).context("could not copy busybox")?;
    for applet in String::from_utf8(applets)?.lines().filter(|applet| *applet != "busybox") {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    Ok(())
}
