//! Hands a git commands and a pack, and reads its report, until it ends. One loop, because git reads the pack only as far as it
//! goes, and the client that sends it waits for the report.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStderr, ChildStdin, ChildStdout};

use coracle_sys::rustix::event::{PollFd, PollFlags, poll};
use coracle_sys::rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::run::Running;

/// A report on as many refs as one push may have.
const REPORT_MAX: usize = 8 << 20;
const COMPLAINT_MAX: usize = 16 << 10;
const PIECE: usize = 64 << 10;

/// What git said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub report: Vec<u8>,
    pub complaint: String,
}

/// A conversation with a git that has not ended.
struct Talk<'a> {
    /// What git has to read, after what is pending.
    pack: Option<&'a mut File>,
    pending: Vec<u8>,
    sent: usize,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
    report: Vec<u8>,
    complaint: Vec<u8>,
}

/// Writes the commands and then the pack to git, until git has read enough or there is no more. Leaves the rest of `pack`.
pub(crate) fn feed(mut running: Running, commands: Vec<u8>, pack: Option<&mut File>) -> io::Result<Said> {
    let child = running.child();
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let stdout = stdout.ok_or(io::ErrorKind::BrokenPipe)?;
    if let Some(stdin) = &stdin {
        let flags = fcntl_getfl(stdin)?;
        fcntl_setfl(stdin, flags | OFlags::NONBLOCK)?;
    }
    let mut talk = Talk {
        pack,
        pending: commands,
        sent: 0,
        stdin,
        stdout,
        stderr,
        report: Vec::new(),
        complaint: Vec::new(),
    };
    while talk.step()? {}
    drop(talk.stdin.take());
    let Talk { report, complaint, .. } = talk;
    running.wait()?;
    Ok(Said { report, complaint: String::from_utf8_lossy(&complaint).into_owned() })
}

impl Talk<'_> {
    /// Waits until something can be done and does it. Returns `false` once git has closed its output.
    fn step(&mut self) -> io::Result<bool> {
        let (mut wants_in, mut wants_out) = (PollFlags::empty(), PollFlags::empty());
        match (self.pending.is_empty(), &self.pack) {
            (true, Some(_)) => wants_in = PollFlags::IN,
            (true, None) => self.stdin = None,
            (false, _) => wants_out = PollFlags::OUT,
        }
        let mut fds = vec![PollFd::new(&self.stdout, PollFlags::IN)];
        // A pipe nobody reads any more shows an error, wanted or not.
        let stdin_at = self.stdin.as_ref().map(|pipe| push(&mut fds, PollFd::new(pipe, wants_out)));
        let stderr_at = self.stderr.as_ref().map(|pipe| push(&mut fds, PollFd::new(pipe, PollFlags::IN)));
        let pack = self.pack.as_ref().filter(|_| !wants_in.is_empty() && self.stdin.is_some());
        let pack_at = pack.map(|pack| push(&mut fds, PollFd::from_borrowed_fd(pack.as_fd(), wants_in)));
        match poll(&mut fds, None) {
            Err(coracle_sys::rustix::io::Errno::INTR) => return Ok(true),
            other => other?,
        };
        let ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        let (out, stdin, stderr, pack) =
            (!fds[0].revents().is_empty(), ready(stdin_at), ready(stderr_at), ready(pack_at));
        let hung_up = stdin_at.is_some_and(|at| fds[at].revents().contains(PollFlags::ERR));
        drop(fds);
        if stderr {
            self.listen()?;
        }
        if hung_up {
            (self.stdin, self.pack) = (None, None);
            self.pending.clear();
            self.sent = 0;
        } else if stdin && !wants_out.is_empty() {
            self.write()?;
        }
        if pack && !hung_up {
            self.refill()?;
        }
        if out { self.read() } else { Ok(true) }
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        match stdin.write(&self.pending[self.sent..]) {
            Ok(count) => self.sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                (self.stdin, self.pack, self.sent) = (None, None, self.pending.len());
            }
            Err(error) => return Err(error),
        }
        if self.sent >= self.pending.len() {
            self.pending.clear();
            self.sent = 0;
        }
        Ok(())
    }

    /// Takes the next piece of the pack.
    fn refill(&mut self) -> io::Result<()> {
        let Some(pack) = &mut self.pack else { return Ok(()) };
        self.pending.resize(PIECE, 0);
        match pack.read(&mut self.pending) {
            Ok(0) => {
                self.pending.clear();
                self.pack = None;
            }
            Ok(count) => self.pending.truncate(count),
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                self.pending.clear();
            }
            // A client that is gone has sent all it will.
            Err(_) => {
                self.pending.clear();
                self.pack = None;
            }
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<bool> {
        let mut piece = [0; PIECE];
        let count = self.stdout.read(&mut piece)?;
        if self.report.len() + count > REPORT_MAX {
            return Err(io::Error::other("git's report is too long"));
        }
        self.report.extend_from_slice(&piece[..count]);
        Ok(count > 0)
    }

    fn listen(&mut self) -> io::Result<()> {
        let Some(stderr) = &mut self.stderr else { return Ok(()) };
        let mut piece = [0; 4096];
        let count = stderr.read(&mut piece)?;
        let room = COMPLAINT_MAX.saturating_sub(self.complaint.len());
        self.complaint.extend_from_slice(&piece[..count.min(room)]);
        if count == 0 {
            self.stderr = None;
        }
        Ok(())
    }
}

fn push<'a>(fds: &mut Vec<PollFd<'a>>, fd: PollFd<'a>) -> usize {
    fds.push(fd);
    fds.len() - 1
}
