//! Runs one git: fenced in, within limits, in a process group of its own, and ended with the call.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::Duration;

use coracle_core::Cancel;
use coracle_core::cancel::Registration;
use coracle_sys::rustix::fs::{self, Mode, OFlags};
use coracle_sys::rustix::process::{Pid, Resource, Signal, kill_process_group};
use coracle_sys::rustix::thread::set_no_new_privs;
use coracle_sys::{landlock, limited};

use crate::program::Program;

/// Address space: windows of packs that are mapped, and what the largest tree or commit takes.
const MEMORY_MAX: u64 = 2 << 30;
/// Processor time, in seconds: a pack of 2 GiB is indexed in a tenth of it.
const TIME_MAX: u64 = 1200;
const DESCRIPTORS_MAX: u64 = 512;
/// How long a git that was told to end may remove its temporary files.
const GRACE: Duration = Duration::from_secs(2);
/// How much of what git complains of is kept.
const COMPLAINT_MAX: u64 = 16 << 10;

/// What git may do to the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Reads,
    /// It may write files of so many bytes.
    Writes(u64),
}

/// One git to run.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub program: &'a Program,
    pub words: Vec<OsString>,
    /// The value of `GIT_PROTOCOL`.
    pub protocol: Option<&'static str>,
    pub repository: &'a Path,
    pub reach: Reach,
    /// Stays locked as long as git runs, also when this process dies.
    pub lock: OwnedFd,
}

/// A git that runs. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    ended: bool,
    _cancel: Registration,
}

impl Job<'_> {
    /// Starts it. The call's cancel ends it.
    pub fn start(self, stdin: Stdio, stdout: Stdio, cancel: &Cancel) -> io::Result<Running> {
        let words: Vec<_> = self.words.iter().map(OsString::as_os_str).collect();
        let mut command = self.program.command(&words);
        command.envs(self.protocol.map(|version| ("GIT_PROTOCOL", version)));
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        let file_max = match self.reach {
            Reach::Reads => 0,
            Reach::Writes(most) => most,
        };
        let limits = vec![
            (Resource::As, MEMORY_MAX),
            (Resource::Cpu, TIME_MAX),
            (Resource::Nofile, DESCRIPTORS_MAX),
            (Resource::Fsize, file_max),
            (Resource::Core, 0),
        ];
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        limited::prepare(&mut command, self.lock, limits);
        let child = spawn_fenced(&mut command, self.program, self.repository, self.reach)?;
        let group = Pid::from_child(&child);
        let _cancel = cancel.on_cancel(move || {
            let _ = kill_process_group(group, Signal::TERM);
        });
        Ok(Running { child, ended: false, _cancel })
    }
}

impl Running {
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for its end. Returns what it complained of as well, as much of it as is kept.
    pub fn wait(mut self) -> io::Result<(ExitStatus, String)> {
        let complaint = self.child.stderr.take().map(complaint).unwrap_or_default();
        let status = self.child.wait()?;
        self.ended = true;
        Ok((status, complaint))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let group = Pid::from_child(&self.child);
        // Git removes its temporary files and locks when it is asked to end.
        let _ = kill_process_group(group, Signal::TERM);
        let begun = std::time::Instant::now();
        while begun.elapsed() < GRACE {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Reads what git complains of to its end, so that it never waits for us, and keeps the beginning.
fn complaint(mut from: ChildStderr) -> String {
    let mut kept = Vec::new();
    let _ = from.by_ref().take(COMPLAINT_MAX).read_to_end(&mut kept);
    let _ = io::copy(&mut from, &mut io::sink());
    String::from_utf8_lossy(&kept).into_owned()
}

/// Starts the command from a thread that is fenced in: what a thread starts inherits its fence.
fn spawn_fenced(
    command: &mut Command,
    program: &Program,
    repository: &Path,
    reach: Reach,
) -> io::Result<Child> {
    std::thread::scope(|scope| {
        let fenced = scope.spawn(|| {
            set_no_new_privs(true)?;
            fence(program, repository, reach)?;
            command.spawn()
        });
        fenced.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts git panicked")))
    })
}

fn fence(program: &Program, repository: &Path, reach: Reach) -> io::Result<()> {
    let open = |path: &Path| fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let mut read = program.needs.iter().map(|place| open(place)).collect::<Result<Vec<_>, _>>()?;
    let mut write = vec![open(Path::new("/dev/null"))?];
    match reach {
        Reach::Reads => read.push(open(repository)?),
        Reach::Writes(_) => write.push(open(repository)?),
    }
    let read: Vec<BorrowedFd<'_>> = read.iter().map(AsFd::as_fd).collect();
    let write: Vec<BorrowedFd<'_>> = write.iter().map(AsFd::as_fd).collect();
    // A kernel without Landlock still has the limits, the empty environment and our settings; `doctor` tells.
    landlock::fence(&read, &write).map(|_| ())
}

/// Returns another descriptor of an open lock.
pub(crate) fn share(lock: &File) -> io::Result<OwnedFd> {
    lock.try_clone().map(OwnedFd::from)
}
