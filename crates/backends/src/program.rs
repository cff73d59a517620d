//! The guest's program: embedded, kept once per content in the home, executed by descriptor.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::place;

/// The program itself.
pub const GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest"));

/// Identifies this program.
pub const FINGERPRINT: &str = env!("CORACLE_GUEST_FINGERPRINT");

/// Opens the program. Writes it to `directory` first if it is missing. No other user may write to the directory, so
/// a file of the right name and size is the right file.
pub fn open(directory: &Path) -> io::Result<OwnedFd> {
    let path = directory.join(format!("guest-{FINGERPRINT}"));
    if let Ok(file) = File::open(&path)
        && file.metadata()?.len() == GUEST.len() as u64
    {
        return Ok(file.into());
    }
    place::private(directory)?;
    // The name is this thread's alone. An existing draft is from an earlier process with the same pid.
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let draft = directory.join(format!(".draft-{}-{serial}", std::process::id()));
    let _ = fs::remove_file(&draft);
    // The guest's user has no rights on this machine, so all users may execute the file; but only we can reach the
    // directory.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o500).open(&draft)?;
    file.write_all(GUEST)?;
    file.set_permissions(fs::Permissions::from_mode(0o555))?;
    drop(file);
    fs::rename(&draft, &path)?;
    Ok(File::open(path)?.into())
}
