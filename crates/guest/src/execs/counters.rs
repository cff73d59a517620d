//! How often the kernel enforced a limit on the commands of this sandbox.

use std::os::fd::OwnedFd;

use coracle_sys::rustix::io::pread;

/// The kernel's counter files. Absent where the limit is not enforced.
#[derive(Debug)]
pub struct Counters {
    pub memory: Option<OwnedFd>,
    pub pids: Option<OwnedFd>,
}

/// The values of the counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    pub memory: u64,
    pub pids: u64,
}

impl Counters {
    pub fn read(&self) -> Reading {
        Reading { memory: value(self.memory.as_ref(), "oom_kill"), pids: value(self.pids.as_ref(), "max") }
    }
}

fn value(file: Option<&OwnedFd>, name: &str) -> u64 {
    let mut buffer = [0; 512];
    let Some(length) = file.and_then(|file| pread(file, &mut buffer, 0).ok()) else { return 0 };
    let text = std::str::from_utf8(&buffer[..length]).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
