//! The master connection: the user's own ssh, in the background, with as few options as possible.
//!
//! Host keys, users, keys and jumps come from the user's settings. We add: no questions, because no person is there
//! to answer; no agent, display or forwardings for the other machine; an end when it is idle or when the other side
//! no longer answers.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use coracle_core::{Error, Kind, Result};
use coracle_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
use coracle_sys::rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal,
};

use super::dir::TunnelDir;
use super::mux::{self, Mux};
use super::words;
use crate::docker::endpoint::SshPlace;

/// To connect (ssh itself gives up after ten seconds), exchange keys and log in, through a jump or two.
const START: Duration = Duration::from_secs(30);
/// A master that was asked to end says goodbye to the other side; the kernel ends one that was killed.
const GONE: Duration = Duration::from_secs(2);
const OPTIONS: &[&str] = &[
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ConnectTimeout=10",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
];
const MASTER_OPTIONS: &[&str] = &[
    // Long enough for a person to think between two commands. Connections through it count as use.
    "ControlPersist=600",
    // ssh gives up on the other machine after fifteen seconds without a sign of life.
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "StreamLocalBindMask=0177",
    "StreamLocalBindUnlink=yes",
];

/// How to connect to a machine.
#[derive(Debug)]
pub struct Master<'a> {
    pub place: &'a SshPlace,
    pub ssh: &'a [String],
}

impl Master<'_> {
    /// Connects, and returns when the connection runs in the background.
    pub fn start(&self, dir: &TunnelDir) -> Result<()> {
        let mut command = self.command(dir)?;
        command.args(["-M", "-N", "-f", "-E"]).arg(dir.log()).args(set(MASTER_OPTIONS));
        command.args(self.target()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(dir.talk()?);
        let child = command.spawn().map_err(|error| self.no_program(error))?;
        match ended(child, Instant::now() + START) {
            Some(status) if status.success() => self.note(dir),
            Some(_) => Err(words::not_reached(self.place, &dir.words())),
            None => Err(words::too_slow(self.place, START)),
        }
    }

    /// Returns a command that runs something over the connection in this directory.
    pub fn through(&self, dir: &TunnelDir) -> Result<Command> {
        let mut command = self.command(dir)?;
        command.args(["-o", "ControlMaster=no"]).args(self.target());
        Ok(command)
    }

    pub fn no_program(&self, error: std::io::Error) -> Error {
        let program = self.ssh.first().map_or("ssh", String::as_str);
        Error::new(Kind::NotAvailable, format!("could not start `{}`", program.escape_debug()))
            .hint("install OpenSSH's client, or name the program: `engines.ssh` in the settings, or CORACLE_SSH")
            .caused_by(error)
    }

    /// In its own process group, so that what ssh has started ends with it.
    fn command(&self, dir: &TunnelDir) -> Result<Command> {
        let missing = || Error::invalid("engines.ssh", "names no program");
        let (program, first) = self.ssh.split_first().ok_or_else(missing)?;
        let mut command = Command::new(program);
        command.args(first).arg("-S").arg(dir.control()).args(set(OPTIONS)).process_group(0);
        Ok(command)
    }

    /// The options of the machine and then the host, which can be nothing else after `--`.
    fn target(&self) -> Vec<String> {
        let user = self.place.user.iter().flat_map(|user| ["-l".to_owned(), user.clone()]);
        let port = self.place.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]);
        user.chain(port).chain(["--".to_owned(), self.place.host.clone()]).collect()
    }

    /// Records the master's process, for when it hangs and can no longer be asked.
    fn note(&self, dir: &TunnelDir) -> Result<()> {
        let asked = Mux::greet(&dir.control(), mux::FIRST_PATIENCE).and_then(|mut mux| mux.process());
        let process = asked.map_err(|_| words::not_reached(self.place, &dir.words()))?;
        dir.note_process(&format!("{process} {}", begun(process).unwrap_or_default()))
    }
}

fn set(options: &[&'static str]) -> impl Iterator<Item = &'static str> {
    options.iter().flat_map(|option| ["-o", option])
}

/// Waits for the end of a process. At the deadline, kills it and all it has started.
pub fn ended(mut child: Child, deadline: Instant) -> Option<ExitStatus> {
    let process = Pid::from_child(&child);
    let in_time = pidfd_open(process, PidfdFlags::empty()).is_ok_and(|process| wait(&process, deadline));
    if !in_time {
        // It is our child and not waited for yet, so the kernel has not reused its pid.
        let _ = kill_process_group(process, Signal::KILL);
    }
    child.wait().ok().filter(|_| in_time)
}

/// Ends the connection of a directory, if there is one: asks it to, and kills it if it does not end.
pub fn end(dir: &TunnelDir) {
    let process = noted(dir);
    let _ = Mux::greet(&dir.control(), mux::LAST_PATIENCE).and_then(Mux::terminate);
    if let Some(process) = process.filter(|process| !wait(process, Instant::now() + GONE)) {
        let _ = pidfd_send_signal(&process, Signal::KILL);
        wait(&process, Instant::now() + GONE);
    }
}

/// Returns the recorded process, if it still is that process.
fn noted(dir: &TunnelDir) -> Option<OwnedFd> {
    let note = dir.process()?;
    let (process, begin) = note.split_once(' ')?;
    let number: u32 = process.parse().ok()?;
    let process = Pid::from_raw(i32::try_from(number).ok()?)?;
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    // The descriptor holds the process; what is read by its pid after that is about the same process or about none.
    begun(number).is_some_and(|found| found == begin).then_some(process)
}

/// Returns when a process was started, in ticks since boot.
fn begun(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain anything. The start time is twenty fields after it.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19).map(str::to_owned)
}

/// Tells whether the process ended before the deadline.
fn wait(process: &OwnedFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            Err(coracle_sys::rustix::io::Errno::INTR) => {}
            polled => return polled.is_ok_and(|ready| ready > 0),
        }
    }
}
