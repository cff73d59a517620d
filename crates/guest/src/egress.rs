//! Binds the listeners on the loopback interface that lead outside, and maps host names to them.
//!
//! The guest only binds and accepts. The host, which does not trust the guest, decides what a sandbox may reach.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use coracle_sys::rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, unlinkat};
use coracle_sys::rustix::io::Errno;

use crate::boot::{Failure, Plan};

/// The longest `/etc/hosts` of an image that the guest reads. A longer one is not a plausible list of hosts.
const HOSTS_MAX: u64 = 64 << 10;
const LOCALHOST: &str = "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost sandbox\n";

/// Binds every listener of the plan, in its order. Call it before privileges are dropped: ports 80 and 443 need
/// one.
pub fn bind(plan: &Plan) -> Result<Vec<TcpListener>, Failure> {
    let Some(egress) = &plan.boot.egress else { return Ok(Vec::new()) };
    if !egress.hosts.is_empty() {
        name_hosts(&egress.hosts).map_err(Failure::at("name the allowed hosts in /etc/hosts"))?;
    }
    let bound = egress.listeners.iter().map(|place| {
        let listener = TcpListener::bind((Ipv4Addr::from_bits(place.address), place.port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.collect::<std::io::Result<_>>().map_err(Failure::at("listen for the network"))
}

/// The prefix of every listener's address except the proxy's.
const OURS: &str = "127.77.";

/// Adds lines to `/etc/hosts`. The image wrote that file, so this follows no link and replaces anything but a plain
/// file. Fails if the caller has mounted a directory at `/etc`, which is not ours to write to.
fn name_hosts(lines: &str) -> std::io::Result<()> {
    match mkdirat(CWD, "/etc", Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let etc =
        openat2(CWD, "/etc", directory, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV)?;
    let mut text = without_ours(&own_hosts(&etc));
    text.push_str(lines);
    let fresh = match unlinkat(&etc, "hosts", AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => OFlags::CREATE | OFlags::EXCL,
        // A container engine mounts its own file there.
        Err(Errno::BUSY) => OFlags::TRUNC,
        Err(error) => return Err(error.into()),
    };
    let fresh = fresh | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(openat(&etc, "hosts", fresh, Mode::from_raw_mode(0o644))?);
    file.write_all(text.as_bytes())
}

/// Gives `localhost` and the sandbox's own name their usual addresses where a container engine has mounted its own
/// file.
pub fn name_ourselves() {
    let beneath = ResolveFlags::NO_SYMLINKS;
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let directory = openat2(CWD, "/etc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), beneath);
    let Ok(hosts) = openat2(CWD, "/etc/hosts", flags, Mode::empty(), beneath).map(std::fs::File::from) else {
        return;
    };
    let device = |metadata: std::io::Result<std::fs::Metadata>| metadata.ok().map(|metadata| metadata.dev());
    let of_engine =
        directory.is_ok_and(|etc| device(std::fs::File::from(etc).metadata()) != device(hosts.metadata()));
    if of_engine && hosts.metadata().is_ok_and(|metadata| metadata.is_file()) && hosts.set_len(0).is_ok() {
        // If this fails, programs still find hosts by address.
        let _ = (&hosts).write_all(LOCALHOST.as_bytes());
    }
}

/// Drops the lines that the sandbox this one was forked from had there.
fn without_ours(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with(OURS)).flat_map(|line| [line, "\n"]).collect()
}

/// Returns the image's `/etc/hosts`, or at least the address of `localhost`.
fn own_hosts(etc: &OwnedFd) -> String {
    // Does not block: the file may be a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened =
        openat2(etc, "hosts", flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS);
    let file = opened.map(std::fs::File::from).ok().filter(|file| {
        file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= HOSTS_MAX)
    });
    let mut text = String::new();
    match file.map(|file| file.take(HOSTS_MAX).read_to_string(&mut text)) {
        Some(Ok(length)) if length > 0 => text,
        _ => LOCALHOST.to_owned(),
    }
}
