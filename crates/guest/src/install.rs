//! `guest install`: puts this very program where an engine's sandboxes find it, and a place for its socket beside it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::UNIX_EPOCH;

/// Where the engine has mounted what is to hold the program.
const TARGET: &str = "/target";

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

fn install() -> io::Result<()> {
    match fs::create_dir(format!("{TARGET}/run")) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Another instance may be putting the same program here at this moment.
    let lock = File::options().create(true).truncate(false).write(true).open(format!("{TARGET}/.lock"))?;
    lock.lock()?;
    // Another may be at it, in a container that looks the same from inside.
    let moment = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let draft = format!("{TARGET}/.draft-{moment}");
    let mut file = File::create(&draft)?;
    io::copy(&mut File::open("/proc/self/exe")?, &mut file)?;
    file.set_permissions(Permissions::from_mode(0o555))?;
    file.sync_all()?;
    drop(file);
    fs::rename(draft, format!("{TARGET}/guest"))
}
