//! The host's side of the unpacker: its program, its cage, its time limit, and which of its reports the host
//! believes.

mod program;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use coracle_sys::confine::{Confined, confine};
use coracle_sys::launch::Launched;
use coracle_sys::rustix::process::{
    Signal, WaitId, WaitIdOptions, getegid, geteuid, pidfd_send_signal, waitid,
};
use coracle_sys::{descriptors, mount};
use coracle_unpack::{Limits, Order, Outcome, Refusal, Report, Target};

/// The largest layer we accept takes less, at a speed that any disk has.
const TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// The machine's ids that stand for those of a layer while it is unpacked: below those that sandboxes get.
const FIRST_ID: u32 = 0x1fff_0000;
const IDS: u32 = 0x1_0000;

/// A layer to unpack.
#[derive(Debug)]
pub struct Job<'a> {
    /// The directory of the unpacker's program.
    pub programs: &'a Path,
    /// The file with the layer, and where in it.
    pub file: &'a File,
    pub offset: u64,
    pub length: u64,
    pub limits: Limits,
    /// An empty directory, inside one that no other user may enter.
    pub target: &'a Path,
}

/// Why a layer was not unpacked.
#[derive(Debug)]
pub enum Failure {
    /// The unpacker refused it.
    Refused(Refusal),
    /// The unpacker failed, or died.
    Broken { attempted: &'static str, cause: io::Error },
    /// It took too long.
    Late,
    /// The caller does not want it any more.
    Abandoned,
}

fn at(attempted: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |cause| Failure::Broken { attempted, cause }
}

/// Unpacks a layer. Calls `progress` with how much was read; it returns whether to go on.
pub fn unpack(job: &Job<'_>, progress: &mut dyn FnMut(u64) -> bool) -> Result<Outcome, Failure> {
    let program = program::open(job.programs).map_err(at("write the unpacker's program"))?;
    let null = File::options().read(true).write(true).open("/dev/null").map_err(at("open /dev/null"))?;
    let (ours, theirs) = UnixStream::pair().map_err(at("make a socket"))?;
    let confined =
        Confined { program: program.as_fd(), socket: theirs.as_fd(), null: null.as_fd(), name: c"unpack" };
    let caged = Caged(confine(&confined).map_err(at("make namespaces for the unpacker"))?);
    drop(theirs);
    caged.send(job, &ours)?;
    attend(&ours, progress)
}

/// A running unpacker; dropping it ends it.
struct Caged(Launched);

impl Drop for Caged {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.0.pidfd, Signal::KILL);
        // After the kill, it ends as soon as the kernel has finished its current call.
        while let Err(error) = waitid(WaitId::PidFd(self.0.pidfd.as_fd()), WaitIdOptions::EXITED) {
            if error != coracle_sys::rustix::io::Errno::INTR {
                break;
            }
        }
    }
}

impl Caged {
    /// Maps the unpacker's ids, lets it go on and sends it its order.
    fn send(&self, job: &Job<'_>, socket: &UnixStream) -> Result<(), Failure> {
        let order =
            |target| Order { offset: job.offset, length: job.length, limits: job.limits, target }.encode();
        let (order, mount) = if geteuid().is_root() {
            self.map_ids(&format!("0 {FIRST_ID} {IDS}"), &format!("0 {FIRST_ID} {IDS}"))?;
            (order(Target::Mount), Some(self.mount(job.target)?))
        } else {
            self.write("setgroups", "deny")?;
            self.map_ids(&format!("0 {} 1", geteuid().as_raw()), &format!("0 {} 1", getegid().as_raw()))?;
            (order(Target::Path(job.target.as_os_str().as_bytes().to_vec())), None)
        };
        (&*socket).write_all(&[1]).map_err(at("start the unpacker"))?;
        let given: Vec<BorrowedFd<'_>> =
            std::iter::once(job.file.as_fd()).chain(mount.as_ref().map(AsFd::as_fd)).collect();
        descriptors::send(socket, &order, &given).map_err(at("give the unpacker its order"))
    }

    fn map_ids(&self, users: &str, groups: &str) -> Result<(), Failure> {
        self.write("uid_map", users)?;
        self.write("gid_map", groups)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Failure> {
        fs::write(format!("/proc/{}/{file}", self.0.pid), text).map_err(at("map the unpacker's users"))
    }

    /// Makes the target a mount in which the unpacker is root: its files have plain ids on disk. Its user means
    /// nothing elsewhere.
    fn mount(&self, target: &Path) -> Result<OwnedFd, Failure> {
        let namespace =
            File::open(format!("/proc/{}/ns/user", self.0.pid)).map_err(at("find the unpacker"))?;
        let copy = mount::copy(target).map_err(at("make a mount for the layer"))?;
        let attributes = mount::plain() | mount::Attributes::MOUNT_ATTR_NOEXEC;
        mount::set(copy.as_fd(), attributes, Some(namespace.as_fd()))
            .map_err(at("show the layer's files with other ids, which this filesystem may not be able to"))?;
        Ok(copy)
    }
}

/// Reads reports until the unpacker is done or its time is over.
fn attend(socket: &UnixStream, progress: &mut dyn FnMut(u64) -> bool) -> Result<Outcome, Failure> {
    let deadline = Instant::now() + TIME_MAX;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::Late);
        }
        socket.set_read_timeout(Some(left)).map_err(at("wait for the unpacker"))?;
        match Report::read(&mut &*socket) {
            Ok(Report::Progress(read)) if progress(read) => {}
            Ok(Report::Progress(_)) => return Err(Failure::Abandoned),
            Ok(Report::Done(outcome)) => return Ok(outcome),
            Ok(Report::Refused(refusal)) => return Err(Failure::Refused(refusal)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(Failure::Late);
            }
            Err(error) => return Err(at("hear from the unpacker, which died")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A layer of random data that takes a while to unpack.
    fn noise() -> Vec<u8> {
        let mut header = [0; 512];
        let size = 48 << 20;
        header[..1].copy_from_slice(b"f");
        header[100..107].copy_from_slice(b"0000644");
        header[108..115].copy_from_slice(b"0000000");
        header[116..123].copy_from_slice(b"0000000");
        header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
        header[136..147].copy_from_slice(b"00000000000");
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        [header.as_slice(), &vec![7; size]].concat()
    }

    fn unpack_noise(progress: &mut dyn FnMut(u64) -> bool) -> Result<Outcome, Failure> {
        let directory = tempfile::TempDir::new().expect("a temporary directory can be made");
        let (archive, target) = (directory.path().join("layer"), directory.path().join("place"));
        fs::write(&archive, noise()).expect("there is space");
        fs::create_dir(&target).expect("the directory is ours");
        let file = File::open(&archive).expect("it was just written");
        let length = file.metadata().expect("it was just written").len();
        let job = Job {
            programs: directory.path(),
            file: &file,
            offset: 0,
            length,
            limits: Limits::default(),
            target: &target,
        };
        unpack(&job, progress)
    }

    /// Returns a field of the kernel's status of this thread's child.
    fn status(field: &str) -> String {
        let children = fs::read_to_string("/proc/thread-self/children").expect("the kernel tells");
        let child = children.split_whitespace().next().expect("it runs");
        let status = fs::read_to_string(format!("/proc/{child}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
        line.trim_start_matches(':').trim().to_owned()
    }

    #[test]
    fn an_unpacker_at_work_has_given_up_all_it_does_not_need() {
        let mut seen = Vec::new();

        let outcome = unpack_noise(&mut |_| {
            if seen.is_empty() {
                seen = ["Seccomp", "NoNewPrivs", "CapEff", "CapBnd", "Uid"].map(status).to_vec();
            }
            true
        });

        assert_eq!(outcome.map(|outcome| outcome.entries).ok(), Some(1));
        let [seccomp, no_new_privileges, effective, bounding, user] = seen.try_into().expect("it was seen");
        assert_eq!((seccomp.as_str(), no_new_privileges.as_str()), ("2", "1"));
        assert_eq!((effective.as_str(), bounding.as_str()), ("000000000000001b", "0000000000000000"));
        let user = user.split_whitespace().next().map(str::to_owned);
        let expected = if geteuid().is_root() { FIRST_ID } else { geteuid().as_raw() };
        assert_eq!(user, Some(expected.to_string()));
    }

    #[test]
    fn an_abandoned_unpacker_is_ended() {
        let mut child = String::new();

        let outcome = unpack_noise(&mut |_| {
            child =
                fs::read_to_string("/proc/thread-self/children").expect("the kernel tells").trim().to_owned();
            false
        });

        assert!(matches!(outcome, Err(Failure::Abandoned)));
        assert!(!Path::new(&format!("/proc/{child}")).exists() && !child.is_empty());
    }
}
