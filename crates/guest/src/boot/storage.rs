//! The sandbox's own files: what it writes over its image, and its workspace. One filesystem, so that one bound holds
//! for all of it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use coracle_sys::mount;
use coracle_sys::rustix::fs::{CWD, Mode, mkdirat};

use super::plan::Plan;
use super::{Failure, root};

const PLACE: &str = "storage";

/// Attaches the storage in the scratch directory.
pub fn bring(plan: &Plan) -> Result<(), Failure> {
    let made = match (&plan.boot.memory, &plan.storage) {
        (Some(memory), _) => {
            let (size, inodes) = (memory.bytes.to_string(), memory.inodes.to_string());
            let options = [("mode", Some("0755")), ("size", Some(&*size)), ("nr_inodes", Some(&*inodes))];
            Some(
                mount::make("tmpfs", &options, mount::plain())
                    .map_err(Failure::at("make storage in memory"))?,
            )
        }
        (None, _) => None,
    };
    let storage = made.as_ref().or(plan.storage.as_ref()).map(AsFd::as_fd);
    let storage = storage.ok_or_else(|| Failure::at("find the storage")(std::io::ErrorKind::NotFound))?;
    root::make_directory(PLACE)?;
    mount::attach(storage, PLACE).map_err(Failure::at("attach the storage"))?;
    make("workspace").map(drop)
}

/// Returns the workspace, to be mounted.
pub fn workspace() -> Result<OwnedFd, Failure> {
    mount::copy(Path::new(&format!("{PLACE}/workspace"))).map_err(Failure::at("open the workspace"))
}

/// Makes the upper and the working directory of an overlay.
pub fn make_upper(name: &str) -> Result<(String, String), Failure> {
    Ok((make(&format!("upper-{name}"))?, make(&format!("work-{name}"))?))
}

fn make(name: &str) -> Result<String, Failure> {
    let path = format!("{PLACE}/{name}");
    mkdirat(CWD, &path, Mode::from_raw_mode(0o755))
        .map_err(Failure::at("make a directory in the storage"))?;
    Ok(path)
}
