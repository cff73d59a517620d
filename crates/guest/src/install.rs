//! `guest install`: puts this very program where an engine's sandboxes find it, and a place for its socket beside it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// Where the engine has mounted what is to hold the program.
const TARGET: &str = "/target";
/// Whoever has not finished by then never will: it is a copy of two megabytes.
const DRAFT_MAX: Duration = Duration::from_secs(600);

/// Ends the process with 0 if the program is there, whole.
pub fn run() {
    if let Err(error) = install() {
        let _ = io::Write::write_all(
            &mut io::stderr(),
            format!("could not install the guest: {error}\n").as_bytes(),
        );
        coracle_sys::spawn::exit(1);
    }
}

/// Removes what installers that were killed have left.
fn sweep() -> io::Result<()> {
    for entry in fs::read_dir(TARGET)?.flatten() {
        let is_draft = entry.file_name().to_string_lossy().starts_with(".draft");
        let age = || entry.metadata()?.modified()?.elapsed().map_err(io::Error::other);
        if is_draft && age().is_ok_and(|age| age > DRAFT_MAX) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

fn install() -> io::Result<()> {
    match fs::create_dir(format!("{TARGET}/run")) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Others may be doing the same: a draft that two write to could be put in place by one while the other is half way.
    let draft = format!("{TARGET}/.draft-{}", fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim());
    sweep()?;
    let mut file = File::create_new(&draft)?;
    io::copy(&mut File::open("/proc/self/exe")?, &mut file)?;
    file.set_permissions(Permissions::from_mode(0o555))?;
    file.sync_all()?;
    drop(file);
    fs::rename(draft, format!("{TARGET}/guest"))
}
