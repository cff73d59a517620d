//! Has a process inside a sandbox put a new generation of files on top of its own.
//!
//! Right before the step that cannot be undone, that process checks that the sandbox is still held: we may have
//! been stopped in between.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_core::forking::{HeldSandbox, Lent};
use coracle_sys::cgroup::Group;
use coracle_sys::enter::{Enter, enter};
use coracle_sys::launch::Launched;
use coracle_sys::rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use coracle_sys::{descriptors, signal};
use coracle_wire::{Renewal, Restack};

use crate::native::cage::Cage;
use crate::native::create::trees::Site;
use crate::native::create::{Failure, at};
use crate::native::home::Uses;
use crate::native::image::Root;
use crate::native::storage::Storage;
use crate::native::{Native, ids};
use crate::{program, weak};

/// The process takes a millisecond; if it takes longer than this, it will never finish.
const PATIENCE: Duration = Duration::from_secs(20);

/// The guest of a sandbox.
struct Process {
    pid: i32,
    handle: OwnedFd,
}

/// The answer of the process inside.
enum Word {
    /// The disk has no room for another generation; nothing was changed.
    Full,
    Done(Done),
}

/// What the process has done.
struct Done {
    generation: u32,
    /// The device of the root it left.
    device: u64,
}

/// What we send to the process inside.
struct Materials<'a> {
    root: &'a Root,
    bases: &'a [u32],
    trees: Vec<OwnedFd>,
}

/// Restacks, and returns the last generation that no process writes to any more; `None` if the disk has no room for
/// another.
pub fn restack(
    native: &Native,
    held: &HeldSandbox<'_>,
    uses: &Uses,
    origin: &str,
) -> Result<Option<u32>, Failure> {
    let bases = &uses.bases;
    let root = native.root(origin, held.image.digest.as_deref());
    let root = root.map_err(io::Error::other).map_err(at("find its image"))?;
    let cage = native.cage(held.sandbox).map_err(io::Error::other).map_err(at("find its cgroup"))?;
    let guest = find_guest(held, &cage).map_err(at("find its guest"))?;
    let trees = open_trees(native, held, &guest, &root, bases)?;
    let materials = Materials { root: &root, bases, trees };
    let mut word = None;
    held.grip.lend(&mut |lent| word = Some(delegate(native, lent, &guest, cage.group(), &materials)));
    let missing = || at("put another generation on top")(io::ErrorKind::NotFound.into());
    match word.unwrap_or_else(|| Err(missing()))? {
        Word::Full => Ok(None),
        Word::Done(done) => {
            check(&guest, &done).map_err(at("check the new root"))?;
            Ok(Some(done.generation))
        }
    }
}

/// Has the process inside do it, and waits until it has ended.
fn delegate(
    native: &Native,
    lent: &Lent<'_>,
    guest: &Process,
    group: Option<&Group<'_>>,
    materials: &Materials<'_>,
) -> Result<Word, Failure> {
    let (ours, theirs) = UnixStream::pair().map_err(at("make a socket"))?;
    let helper = start(native, lent, guest, group, theirs)?;
    (native.config.crash)("native.fork.entered");
    let told = tell(&ours, lent, materials).and_then(|()| listen(&ours));
    end(&helper);
    told.map_err(at("put another generation on top"))
}

/// Finds the guest's process by its pid. The kernel may have reused it, so only a process in the guest's cgroup
/// counts.
fn find_guest(held: &HeldSandbox<'_>, cage: &Cage<'_>) -> io::Result<Process> {
    let gone = || io::Error::other("it is gone");
    let pid = held.placement.0["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(gone)?;
    let handle = pidfd_open(Pid::from_raw(pid).ok_or_else(gone)?, PidfdFlags::empty())?;
    match cage.group().map(|group| group.has_guest(pid)).transpose()? {
        Some(true) => Ok(Process { pid, handle }),
        Some(false) | None => Err(gone()),
    }
}

fn open_trees(
    native: &Native,
    held: &HeldSandbox<'_>,
    guest: &Process,
    root: &Root,
    bases: &[u32],
) -> Result<Vec<OwnedFd>, Failure> {
    let namespace = File::open(format!("/proc/{}/ns/user", guest.pid)).map_err(at("open its namespace"))?;
    let dir = native.home.dir(held.sandbox).map_err(at("open its directory"))?;
    let known: Vec<_> = native.home.disks(held.sandbox).into_iter().map(|(_, device)| device).collect();
    let site = Site {
        root,
        dir: &dir,
        storage: Storage::choose(held.spec, native.privilege),
        brought: &[],
        wakes: false,
        bases: bases.len(),
        known: &known,
        base: ids::base(held.sandbox),
        namespace: namespace.as_fd(),
    };
    site.opened_again()
}

/// Starts the process beside the guest. It has a copy of the connection that holds the sandbox, so the guest goes
/// on only after it has ended.
fn start(
    native: &Native,
    lent: &Lent<'_>,
    guest: &Process,
    group: Option<&Group<'_>>,
    socket: UnixStream,
) -> Result<Launched, Failure> {
    let program = program::open(&native.home.guest).map_err(at("open the guest's program"))?;
    let null = File::options().read(true).write(true).open("/dev/null").map_err(at("open /dev/null"))?;
    let cgroup = group.map(Group::guest).transpose().map_err(at("open the cgroup"))?;
    let order = Enter {
        program: program.as_fd(),
        socket: socket.as_fd(),
        held: lent.stream,
        null: null.as_fd(),
        process: guest.handle.as_fd(),
        cgroup: cgroup.as_ref().map(AsFd::as_fd),
    };
    enter(&order).map_err(at("enter the sandbox"))
}

fn tell(socket: &UnixStream, lent: &Lent<'_>, materials: &Materials<'_>) -> io::Result<()> {
    let Materials { root, bases, trees } = materials;
    let renewal = lent.renewal.map(|renewal| Renewal {
        epoch: renewal.epoch.0,
        lease_ms: u64::try_from(renewal.lease.as_millis()).unwrap_or(u64::MAX),
    });
    let plan = Restack {
        layers: root.layers.len() as u32,
        overlays: root.shared_names(),
        bases: bases.to_vec(),
        weakened: weak::weakened(),
        renewal,
    };
    let payload = coracle_wire::encode(&plan).map_err(io::Error::other)?;
    let sent: Vec<_> = trees.iter().map(AsFd::as_fd).collect();
    descriptors::send(socket, &payload[coracle_wire::HEADER_LEN..], &sent)
}

/// Reads its answer: `DONE`, `FULL`, or a 0 and what went wrong.
fn listen(mut socket: &UnixStream) -> io::Result<Word> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut word = [0; 13];
    socket.read_exact(&mut word[..1]).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("the process inside ended at once"),
        _ => error,
    })?;
    if word[0] == Restack::FULL {
        return Ok(Word::Full);
    }
    if word[0] != Restack::DONE {
        let mut reason = String::new();
        let _ = socket.take(4096).read_to_string(&mut reason);
        return Err(io::Error::other(reason));
    }
    socket.read_exact(&mut word[1..])?;
    let [_, a, b, c, d, device @ ..] = word;
    Ok(Word::Done(Done { generation: u32::from_le_bytes([a, b, c, d]), device: u64::from_le_bytes(device) }))
}

/// Kills the process, which has ended by itself after a success, and waits for its end.
fn end(helper: &Launched) {
    use coracle_sys::rustix::event::{PollFd, PollFlags, poll};
    let soon = coracle_sys::rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
    if poll(&mut [PollFd::new(&helper.pidfd, PollFlags::IN)], Some(&soon)) != Ok(1) {
        let _ = pidfd_send_signal(&helper.pidfd, Signal::KILL);
        let _ = poll(&mut [PollFd::new(&helper.pidfd, PollFlags::IN)], None);
    }
    signal::reap_descriptor(&helper.pidfd);
}

/// Checks that the guest, and the forker that all commands come from, have the new root: what they wrote to the old
/// one would show in the files that were taken.
fn check(guest: &Process, done: &Done) -> io::Result<()> {
    let pid = guest.pid;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let forker = children.split_whitespace().next().unwrap_or_default();
    for process in [&*pid.to_string(), forker] {
        if fs::metadata(format!("/proc/{process}/root"))?.dev() != done.device {
            return Err(io::Error::other("a process still has the old one"));
        }
    }
    Ok(())
}
