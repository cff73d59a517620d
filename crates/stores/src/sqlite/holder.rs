//! Which process holds a file lock, and whether it can release it: a stopped process (Ctrl-Z, SIGSTOP) cannot.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

const LOCKS: &str = "/proc/locks";

/// Returns the pid of a stopped process that holds a lock on a file.
///
/// `None` where the holder runs, or is invisible: it may be in another pid namespace.
pub fn stopped(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let (device, inode) = (found.dev(), found.ino());
    let place = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let locks = fs::read_to_string(LOCKS).ok()?;
    let holder = locks.lines().find_map(|line| holder_in(line, &place))?;
    is_stopped(holder).then_some(holder)
}

/// Reads a line such as `1: FLOCK  ADVISORY  WRITE 708 fe:00:99 0 EOF`. The line of a waiting process has an arrow
/// before the kind.
fn holder_in(line: &str, place: &str) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [_, "FLOCK", _, _, holder, at, ..] if *at == place => holder.parse().ok(),
        _ => None,
    }
}

fn is_stopped(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the process name, which may contain anything.
    status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 't']))
}

/// Splits device numbers as the kernel packs them for programs.
fn major(device: u64) -> u64 {
    (device >> 8 & 0xfff) | (device >> 32 & !0xfff)
}

fn minor(device: u64) -> u64 {
    (device & 0xff) | (device >> 12 & !0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_and_who_waits_is_not() {
        assert_eq!(holder_in("1: FLOCK  ADVISORY  WRITE 708 fe:00:99 0 EOF", "fe:00:99"), Some(708));
        assert_eq!(holder_in("1: -> FLOCK  ADVISORY  WRITE 709 fe:00:99 0 EOF", "fe:00:99"), None);
        assert_eq!(holder_in("1: POSIX  ADVISORY  WRITE 710 fe:00:99 0 EOF", "fe:00:99"), None);
    }

    #[test]
    fn a_holder_that_works_is_not_stopped() {
        let file = tempfile::tempfile().expect("a file");
        file.lock().expect("locks");

        let own = fs::read_to_string(LOCKS).expect("/proc is mounted");

        assert!(own.contains(&format!(" {} ", std::process::id())), "the kernel shows it");
        assert_eq!(stopped(&file), None);
    }
}
