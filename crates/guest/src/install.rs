//! `guest install`: copies this program to where sandboxes of a container engine find it, and makes a place for its
//! socket beside it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// Where the container engine has mounted the volume for the program.
const TARGET: &str = "/target";
/// Installers older than this are dead: the copy is only two megabytes.
const DRAFT_MAX: Duration = Duration::from_secs(600);

/// Ends the process with 0 once the program is there, complete.
pub fn run() {
    if let Err(error) = install() {
        let _ = io::Write::write_all(
            &mut io::stderr(),
            format!("could not install the guest: {error}\n").as_bytes(),
        );
        coracle_sys::spawn::exit(1);
    }
}

/// Removes the drafts of killed installers.
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
    // Other installers may run now. Two writers of one draft could put it in place while one is half way.
    let draft = format!("{TARGET}/.draft-{}", fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim());
    sweep()?;
    let mut file = File::create_new(&draft)?;
    io::copy(&mut File::open("/proc/self/exe")?, &mut file)?;
    file.set_permissions(Permissions::from_mode(0o555))?;
    file.sync_all()?;
    drop(file);
    fs::rename(draft, format!("{TARGET}/guest"))
}
