//! Asks porter about the objects of a repository: logs, differences, merges. Git itself would run what a repository says;
//! porter runs in a cage where there is only the object directory, and changes nothing.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use coracle_core::Cancel;
use coracle_core::error::{Error, Kind, Result};
use coracle_porter::{Answer, Failed, Frame, Order, Question, Why};
use coracle_sys::confine::{Confined, confine};
use coracle_sys::launch::Launched;
use coracle_sys::rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use coracle_sys::rustix::io::Errno;
use coracle_sys::rustix::process::{
    Signal, WaitId, WaitIdOptions, getegid, geteuid, pidfd_send_signal, waitid,
};
use coracle_sys::{descriptors, mount};

/// How long an answer may take. The cage bounds the time of a processor below that.
const ANSWER_TIME: Duration = Duration::from_secs(15 * 60);
/// The machine's ids that stand for the owner of the objects in the cage: below those that sandboxes get.
const FIRST_ID: u32 = 0x1fff_0000;
const IDS: u32 = 0x1_0000;

/// Asks a question about the objects in this directory, and returns the answer to it. Cancelling ends porter.
pub fn ask(objects: &Path, question: Question, cancel: &Cancel) -> Result<Answer> {
    let program = program().map_err(at("bring porter into memory"))?;
    let null = File::options().read(true).write(true).open("/dev/null").map_err(at("open /dev/null"))?;
    let (ours, theirs) = UnixStream::pair().map_err(at("make a socket"))?;
    let confined = Confined {
        program: program.as_fd(),
        socket: theirs.as_fd(),
        null: null.as_fd(),
        name: c"porter-asked",
    };
    let caged = Caged(confine(&confined).map_err(at("make namespaces for porter"))?);
    drop(theirs);
    let cut = ours.try_clone().map_err(at("share a socket"))?;
    let _cut = cancel.on_cancel(move || {
        let _ = cut.shutdown(std::net::Shutdown::Both);
    });
    let answer = caged.send(objects, question, &ours).and_then(|()| {
        ours.set_read_timeout(Some(ANSWER_TIME))?;
        match coracle_porter::read(&mut &ours)? {
            Frame::Message(bytes) => minicbor::decode::<Answer>(&bytes).map_err(io::Error::other),
            Frame::Git(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    });
    cancel.check()?;
    match answer.map_err(at("get an answer from porter"))? {
        Answer::Failed(failed) => Err(refused(&failed)),
        answer => Ok(answer),
    }
}

/// Returns the program, in memory that cannot be changed any more.
fn program() -> io::Result<&'static OwnedFd> {
    static PROGRAM: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(program) = PROGRAM.get() {
        return Ok(program);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know that a memory file may be executable, and make all so.
    let file = match memfd_create("porter", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create("porter", flags)?,
        created => created?,
    };
    let mut file = File::from(file);
    file.write_all(coracle_porter::program()?)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(PROGRAM.get_or_init(|| file.into()))
}

/// A running porter; dropping it ends it.
struct Caged(Launched);

impl Drop for Caged {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.0.pidfd, Signal::KILL);
        while let Err(error) = waitid(WaitId::PidFd(self.0.pidfd.as_fd()), WaitIdOptions::EXITED) {
            if error != Errno::INTR {
                break;
            }
        }
    }
}

impl Caged {
    /// Maps porter's ids, lets it go on and sends it the question.
    fn send(&self, objects: &Path, question: Question, socket: &UnixStream) -> io::Result<()> {
        let (directory, mount) = match geteuid().is_root() {
            true => {
                self.map_ids(&format!("0 {FIRST_ID} {IDS}"), &format!("0 {FIRST_ID} {IDS}"))?;
                (None, Some(self.mount(objects)?))
            }
            false => {
                self.write("setgroups", "deny")?;
                self.map_ids(&format!("0 {} 1", geteuid().as_raw()), &format!("0 {} 1", getegid().as_raw()))?;
                (Some(fs::canonicalize(objects)?.as_os_str().as_bytes().to_vec()), None)
            }
        };
        let order = minicbor::to_vec(Order::Ask { question, directory }).map_err(io::Error::other)?;
        (&*socket).write_all(&[1])?;
        let given: Vec<BorrowedFd<'_>> = mount.as_ref().map(AsFd::as_fd).into_iter().collect();
        descriptors::send(socket, &order, &given)
    }

    fn map_ids(&self, users: &str, groups: &str) -> io::Result<()> {
        self.write("uid_map", users)?;
        self.write("gid_map", groups)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(format!("/proc/{}/{file}", self.0.pid), text)
    }

    /// Makes the directory a mount of its own, in which the owner of its files is porter's user.
    fn mount(&self, objects: &Path) -> io::Result<OwnedFd> {
        let namespace = File::open(format!("/proc/{}/ns/user", self.0.pid))?;
        let copy = mount::copy(objects)?;
        let attributes =
            mount::plain() | mount::Attributes::MOUNT_ATTR_NOEXEC | mount::Attributes::MOUNT_ATTR_RDONLY;
        mount::set(copy.as_fd(), attributes, Some(namespace.as_fd()))?;
        Ok(copy)
    }
}

fn at(attempted: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::internal(format!("could not {attempted}"), error)
}

fn refused(failed: &Failed) -> Error {
    let kind = match failed.why {
        Why::Invalid | Why::Refused | Why::Occupied => Kind::Invalid,
        Why::NotFound => Kind::NotFound,
        Why::Limit => Kind::LimitExceeded,
        Why::Broken => Kind::Internal,
    };
    Error::new(kind, failed.message.clone())
}
