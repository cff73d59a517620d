//! Files used as disks: loop devices, which the kernel removes with their last user.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// A file that is a block device until its last mount and its last descriptor are gone.
#[derive(Debug)]
pub struct Attached {
    /// Keeps the device alive while nothing is mounted from it yet.
    _device: File,
    pub path: PathBuf,
}

/// `struct loop_info64` of the kernel.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of the kernel.
#[repr(C)]
struct Configuration {
    file: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const BLOCK: u32 = 4096;
/// In each round another process took the device the kernel offered us.
const ROUNDS: usize = 1000;

/// Shuts a filesystem down at once and drops all data not yet written, because no process will need it. Processes
/// with open files on it get errors from then on.
pub fn shut_down(mounted: BorrowedFd<'_>) -> io::Result<()> {
    const SHUTDOWN: libc::c_ulong = 0x8004_587D;
    let without_flush: u32 = 2;
    let root = rustix::fs::openat(
        mounted,
        ".",
        rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    // SAFETY: the argument is a live number, which the kernel reads.
    match unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN, &raw const without_flush) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Tells whether a device is backed by this very file. Its name is not enough: the kernel reports it as another
/// process saw it.
pub fn is_made_of(device: &File, file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: a structure of integers and byte arrays, for which all zeroes is a value.
    let mut info: Info = unsafe { std::mem::zeroed() };
    // SAFETY: the argument is a live, exclusive `loop_info64`, which the kernel fills.
    if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) } != 0 {
        let error = io::Error::last_os_error();
        // The device has no file.
        return if error.raw_os_error() == Some(libc::ENXIO) { Ok(false) } else { Err(error) };
    }
    let found = file.metadata()?;
    Ok((info.device, info.inode) == (found.dev(), found.ino()))
}

/// Tells whether this process may make loop devices.
pub fn is_available() -> bool {
    control().is_ok()
}

/// Makes `file` a block device.
pub fn attach(file: BorrowedFd<'_>) -> io::Result<Attached> {
    let control = control()?;
    for _ in 0..ROUNDS {
        let path = free(&control)?;
        match configure(&path, file) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            device => return Ok(Attached { _device: device?, path }),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Returns the block device that `file` is already, if it is one, and keeps it from going away.
pub fn find(file: &File) -> io::Result<Option<Attached>> {
    for entry in std::fs::read_dir("/sys/block")? {
        let entry = entry?;
        if !entry.path().join("loop/backing_file").exists() {
            continue;
        }
        if let Some(found) = open(&Path::new("/dev").join(entry.file_name()), file)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the device of this name, if it is backed by `file`, and keeps it from going away.
pub fn open(path: &Path, file: &File) -> io::Result<Option<Attached>> {
    // While it is open it can neither go away nor get another file after the check.
    let device = match File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        device => device?,
    };
    Ok(is_made_of(&device, file)?.then(|| Attached { _device: device, path: path.to_owned() }))
}

fn control() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/loop-control")
}

fn free(control: &File) -> io::Result<PathBuf> {
    // SAFETY: takes a descriptor and no argument; answers with a number.
    match unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) } {
        number if number >= 0 => Ok(PathBuf::from(format!("/dev/loop{number}"))),
        _ => Err(io::Error::last_os_error()),
    }
}

fn configure(path: &Path, file: BorrowedFd<'_>) -> io::Result<File> {
    let device = File::options().read(true).write(true).open(path)?;
    // SAFETY: a structure of integers and byte arrays; all zeroes asks for the defaults.
    let mut configuration: Configuration = unsafe { std::mem::zeroed() };
    configuration.file = file.as_raw_fd() as u32;
    configuration.block_size = BLOCK;
    configuration.info.flags = LO_FLAGS_AUTOCLEAR;
    // SAFETY: the argument is a live `loop_config`, which the kernel reads.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const configuration) } {
        0 => Ok(device),
        _ => Err(io::Error::last_os_error()),
    }
}
