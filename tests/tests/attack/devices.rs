//! DV: devices in `/dev`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use coracle_tests::Attack;
use coracle_tests::attack::Ground;

use crate::GROUND;

/// All there may be.
const EXPECTED: [&str; 13] = [
    "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom",
    "zero",
];
/// The numbers of null, zero, full, random, urandom and tty.
const HARMLESS: [u64; 6] = [0x103, 0x105, 0x107, 0x108, 0x109, 0x500];
/// The major numbers of terminals.
const TERMINALS: std::ops::RangeInclusive<u64> = 136..=143;

#[test]
fn dv_01_only_harmless_devices_are_there() {
    let title = "list `/dev` from outside and look at each device's number";
    Attack::starred(GROUND, "DV-01", title).without(&["Devices", "UserNamespace"]).run(|arena| {
        arena.sleeper(|process| {
            let dev = PathBuf::from(format!("/proc/{}/root/dev", process.pid));
            let names = fs::read_dir(&dev).expect("it sleeps").flatten();
            let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            // Engines mount the queues of the container's own namespace there.
            let engines = |name: &str| GROUND == Ground::Docker && name == "mqueue";
            let more = names
                .filter(|name| !EXPECTED.contains(&name.as_str()) && !engines(name))
                .map(|name| format!("there is {name}"));
            more.chain(
                devices(&dev)
                    .into_iter()
                    .filter(|path| !is_harmless(path))
                    .map(|path| format!("{}", path.display())),
            )
            .collect()
        })
    });
}

/// Returns the devices of a directory and of those directly below it.
fn devices(directory: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let below =
        entries(directory).filter(|path| path.is_dir() && !path.is_symlink()).flat_map(|path| entries(&path));
    let is_device = |path: &PathBuf| {
        fs::symlink_metadata(path)
            .is_ok_and(|file| file.file_type().is_char_device() || file.file_type().is_block_device())
    };
    entries(directory).chain(below).filter(is_device).collect()
}

fn is_harmless(path: &Path) -> bool {
    let Ok(file) = fs::symlink_metadata(path) else { return true };
    let (number, major) = (file.rdev(), file.rdev() >> 8 & 0xfff);
    let multiplexer = number == 0x502 && path.ends_with("pts/ptmx");
    file.file_type().is_char_device()
        && (HARMLESS.contains(&number) || TERMINALS.contains(&major) || multiplexer)
}

#[test]
fn dv_03_no_device_of_the_machine_opens() {
    let title = "open kvm, fuse, tun, mem, kmsg, loop, vhost, disks and consoles";
    Attack::row(GROUND, "DV-03", title)
        .without(&["Devices", "UserNamespace", "Capabilities"])
        .every(&["kmsg"])
        .run(|arena| arena.confess(include_str!("payloads/open_devices.py"), &[]));
}
