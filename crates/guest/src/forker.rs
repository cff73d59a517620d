//! The forker: a small, single-threaded process that commands are forked from.
//!
//! It is born in the commands' cgroups and runs under their filter. So a command costs one fork and one exec, and
//! inherits both. The guest asks for commands over a socket; their processes become the guest's own children.

mod subreaper;

use std::ffi::{CStr, CString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use coracle_sys::rustix::process::Signal;
use coracle_sys::spawn::{self, Failed, Nest, Parent, Pointers};
use coracle_sys::{capability, descriptors, identity, rustix, seccomp, signal, terminal};
use coracle_wire::Stage;
use minicbor::{Decode, Encode};

use crate::execs::{Leaf, Mark};
use crate::weak::{self, Wall};

/// An environment of 512 KiB, arguments of as much, and room for the rest.
const ORDER_MAX: usize = 2 << 20;

/// Where a program that is no file of the sandbox is when it is executed: behind the standard streams.
const BROUGHT: i32 = 3;

/// One command to fork, with everything decided.
#[derive(Debug, Encode, Decode)]
pub struct Order {
    #[cbor(n(0), with = "coracle_wire::bytes::list")]
    pub argv: Vec<Vec<u8>>,
    /// Paths of the program, in the order to try.
    #[cbor(n(1), with = "coracle_wire::bytes::list")]
    pub candidates: Vec<Vec<u8>>,
    #[cbor(n(2), with = "coracle_wire::bytes::list")]
    pub env: Vec<Vec<u8>>,
    #[cbor(n(3), with = "minicbor::bytes")]
    pub cwd: Vec<u8>,
    #[n(4)]
    pub uid: u32,
    #[n(5)]
    pub gid: u32,
    #[n(6)]
    pub groups: Vec<u32>,
    #[n(7)]
    pub terminal: bool,
    /// The program is the last descriptor that comes with the order, and `candidates` is empty.
    #[n(8)]
    pub brought: bool,
}

/// The descriptors that go with an order.
#[derive(Debug)]
pub struct Streams<'a> {
    pub stdin: BorrowedFd<'a>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
    /// A program that is no file of the sandbox.
    pub program: Option<BorrowedFd<'a>>,
    /// How the guest keeps track of its processes.
    pub kin: Kin<'a>,
}

/// How the guest will keep track of a command's processes.
#[derive(Debug, Clone, Copy)]
pub enum Kin<'a> {
    /// By the cgroup they are born in.
    Leaf(&'a Leaf),
    /// By a mark the forker gives them.
    Mark,
    /// By a subreaper, which writes here how the command ended.
    Subreaper { report: BorrowedFd<'a> },
}

/// Why a command was not started.
#[derive(Debug, Clone, Copy)]
pub struct NotStarted {
    pub stage: Stage,
    pub errno: i32,
}

/// A command whose program runs.
#[derive(Debug)]
pub struct Started {
    pub pid: i32,
    /// How to recognise its processes, if it has no cgroup.
    pub bond: Option<Bond>,
}

/// How to recognise the processes of a command without a cgroup.
#[derive(Debug)]
pub enum Bond {
    Mark(Mark),
    /// The process they all descend from.
    Subreaper(i32),
}

/// Whether Landlock confines commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fenced {
    Yes,
    No,
}

/// The guest's end of the forker's socket.
#[derive(Debug)]
pub struct Forker {
    pub pid: i32,
    pub fenced: Fenced,
    /// Commands have subreapers.
    pub subreapers: bool,
    socket: Mutex<UnixStream>,
}

/// How long a command may take from fork to its program, including the time a slow disk takes to read it.
const START_TIME: Duration = Duration::from_secs(10);
/// How often the guest looks after a slow start.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Forker {
    /// Waits until the forker has confined itself.
    pub fn new(socket: UnixStream, pid: i32, subreapers: bool) -> io::Result<Self> {
        let mut word = [0; 5];
        (&socket).read_exact(&mut word)?;
        let [a, b, c, d, fenced] = word;
        match i32::from_le_bytes([a, b, c, d]) {
            0 => {
                socket.set_read_timeout(Some(LOOK_AGAIN))?;
                let fenced = if fenced == 1 { Fenced::Yes } else { Fenced::No };
                Ok(Self { pid, fenced, subreapers, socket: Mutex::new(socket) })
            }
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Starts a command and returns once it runs its program.
    pub fn start(&self, order: &Order, streams: &Streams<'_>) -> Result<Started, NotStarted> {
        self.ask(order, streams)
            .map_err(|error| NotStarted { stage: Stage::Fork, errno: error.raw_os_error().unwrap_or(5) })?
    }

    fn ask(&self, order: &Order, streams: &Streams<'_>) -> io::Result<Result<Started, NotStarted>> {
        let payload = minicbor::to_vec(order).map_err(io::Error::other)?;
        let socket = self.socket.lock().map_err(|_| io::Error::other("the forker's socket is poisoned"))?;
        let mut sent = vec![streams.stdin, streams.stdout, streams.stderr];
        match streams.kin {
            Kin::Leaf(leaf) => sent.push(leaf.directory()),
            Kin::Subreaper { report } => sent.push(report),
            Kin::Mark => {}
        }
        sent.extend(streams.program);
        descriptors::send(&socket, &payload, &sent)?;
        let subreaper = self.hear_subreaper(&socket, streams.kin)?;
        let mut reply = [0; 9];
        self.receive(&socket, &mut reply, &|number| self.prod(streams.kin, subreaper, number))?;
        let [a, b, c, d, stage, e, f, g, h] = reply;
        let (pid, errno) = (i32::from_le_bytes([a, b, c, d]), i32::from_le_bytes([e, f, g, h]));
        if pid <= 0 {
            return Ok(Err(NotStarted { stage: to_stage(stage), errno }));
        }
        let bond = match streams.kin {
            Kin::Leaf(_) => None,
            // While this thread holds the socket the forker takes no other order, so it still has this command's
            // mark.
            Kin::Mark => Some(Bond::Mark(Mark::of(self.pid)?)),
            Kin::Subreaper { .. } => Some(Bond::Subreaper(subreaper)),
        };
        Ok(Ok(Started { pid, bond }))
    }

    /// Reads the subreaper's pid, which it sends before anything else; 0 if commands have none.
    fn hear_subreaper(&self, socket: &UnixStream, kin: Kin<'_>) -> io::Result<i32> {
        if !matches!(kin, Kin::Subreaper { .. }) {
            return Ok(0);
        }
        let mut word = [0; 4];
        self.receive(socket, &mut word, &|_| Ok(()))?;
        Ok(i32::from_le_bytes(word))
    }

    /// Signals the command that is being started.
    fn prod(&self, kin: Kin<'_>, subreaper: i32, number: Signal) -> io::Result<()> {
        match kin {
            Kin::Leaf(leaf) if number == Signal::KILL => leaf.kill(),
            Kin::Leaf(leaf) => leaf.signal(number.as_raw()),
            Kin::Mark => Mark::of(self.pid)?.signal(number.as_raw()),
            Kin::Subreaper { .. } => crate::execs::signal_below(subreaper, number.as_raw()),
        }
        Ok(())
    }

    /// Waits for the forker's answer. Once a fork runs as the command's user, other commands can stop it before it
    /// runs its program, and the forker sleeps until then. So this sends CONT to the fork, and kills it if that
    /// does not help.
    fn receive(
        &self,
        mut socket: &UnixStream,
        reply: &mut [u8],
        prod: &dyn Fn(Signal) -> io::Result<()>,
    ) -> io::Result<()> {
        let began = Instant::now();
        let mut filled = 0;
        while filled < reply.len() {
            match socket.read(&mut reply[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => filled += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let number = if began.elapsed() > START_TIME { Signal::KILL } else { Signal::CONT };
                    prod(number)?;
                    // Where there is only one user, a command may have stopped the forker itself.
                    let _ = signal::send(self.pid, Signal::CONT.as_raw());
                    if began.elapsed() > START_TIME * 2 {
                        return Err(error);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The limits every command gets.
#[derive(Debug, Clone, Copy)]
pub struct Confinement<'a> {
    pub last_filter: &'a [u8],
    pub capabilities: u64,
    /// There is only one user, so the forker changes to no other.
    pub single_user: bool,
    /// Each command gets a subreaper.
    pub subreapers: bool,
}

/// Serves orders until the guest is gone.
pub fn run(socket: &UnixStream, confined: io::Result<Fenced>, confinement: Confinement<'_>) {
    let fenced = matches!(confined, Ok(Fenced::Yes));
    let errno = confined.err().map_or(0, |error| error.raw_os_error().unwrap_or(5));
    let [a, b, c, d] = errno.to_le_bytes();
    if (&*socket).write_all(&[a, b, c, d, u8::from(fenced)]).is_err() || errno != 0 {
        return;
    }
    let Ok(nest) = Nest::new() else { return };
    while let Ok((payload, mut received)) = descriptors::receive(socket, ORDER_MAX) {
        let order = minicbor::decode::<Order>(&payload);
        let brought = received.pop_if(|_| order.as_ref().is_ok_and(|order| order.brought));
        let failed =
            || Failed { stage: Stage::Prepare as u8, errno: rustix::io::Errno::INVAL.raw_os_error() };
        let told = match (order, confinement.subreapers) {
            (Ok(order), true) => {
                subreaper::raise(socket, &Given { order: &order, received: &received, brought }, confinement)
            }
            (Ok(order), false) => {
                let given = Given { order: &order, received: &received, brought };
                tell(socket, fork(&nest, &given, confinement))
            }
            (Err(_), true) => subreaper::tell_none(socket, failed()),
            (Err(_), false) => tell(socket, Err(failed())),
        };
        if told.is_err() {
            return;
        }
    }
}

/// Sends the guest the pid of a command, or why there is none.
fn tell(mut socket: &UnixStream, result: Result<i32, Failed>) -> io::Result<()> {
    let mut bytes = [0; 9];
    match result {
        Ok(pid) => bytes[..4].copy_from_slice(&pid.to_le_bytes()),
        Err(failed) => {
            bytes[4] = failed.stage;
            bytes[5..].copy_from_slice(&failed.errno.to_le_bytes());
        }
    }
    socket.write_all(&bytes)
}

/// An order with its descriptors.
struct Given<'a> {
    order: &'a Order,
    received: &'a [OwnedFd],
    /// The program, if it is no file of the sandbox.
    brought: Option<OwnedFd>,
}

fn fork(nest: &Nest, given: &Given<'_>, confinement: Confinement<'_>) -> Result<i32, Failed> {
    let Given { order, received, brought } = given;
    let prepare =
        |errno: rustix::io::Errno| Failed { stage: Stage::Prepare as u8, errno: errno.raw_os_error() };
    let [stdin, stdout, stderr, rest @ ..] = *received else { return Err(prepare(rustix::io::Errno::BADF)) };
    let (cgroup, parent) = match confinement.subreapers {
        true => (None, Parent::This),
        false => (rest.first().map(AsFd::as_fd), Parent::Ours),
    };
    if cgroup.is_none() && !confinement.subreapers {
        identity::be_marked().map_err(|_| prepare(rustix::io::Errno::PERM))?;
    }
    let program = Program::new(order).ok_or(prepare(rustix::io::Errno::INVAL))?;
    let result = spawn::spawn(nest, cgroup, parent, || {
        let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        become_command(order, &streams, brought.as_ref().map(AsFd::as_fd), confinement)
            .err()
            .unwrap_or_else(|| program.execute())
    });
    // Only the kernel's clone fails without naming a stage.
    result.map_err(
        |failed| if failed.stage == 0 { Failed { stage: Stage::Fork as u8, ..failed } } else { failed },
    )
}

/// Turns the fork into a command: its own session, its streams, its user, no capabilities but those commands keep.
fn become_command(
    order: &Order,
    streams: &[BorrowedFd<'_>; 3],
    brought: Option<BorrowedFd<'_>>,
    confinement: Confinement<'_>,
) -> Result<(), Failed> {
    let Confinement { last_filter, capabilities, single_user, .. } = confinement;
    let at = |stage: Stage| {
        move |error: io::Error| Failed { stage: stage as u8, errno: error.raw_os_error().unwrap_or(5) }
    };
    rustix::process::setsid().map_err(io::Error::from).map_err(at(Stage::Confine))?;
    for (number, stream) in streams.iter().enumerate() {
        spawn::place(*stream, number as i32).map_err(at(Stage::Confine))?;
    }
    if order.terminal {
        terminal::control(streams[0]).map_err(at(Stage::Confine))?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if capabilities != 0 {
        capability::keep_across_setuid().map_err(at(Stage::Confine))?;
    }
    match single_user {
        false => identity::become_user(order.uid, order.gid, &order.groups).map_err(at(Stage::User))?,
        true if order.uid == 0 && order.gid == 0 => {}
        true => return Err(at(Stage::User)(rustix::io::Errno::PERM.into())),
    }
    // With `fs.suid_dumpable` set, the change of user has undone this, and the memory here is still the forker's.
    // Do it before dropping the capabilities: while there are any, no command may read this process.
    identity::be_opaque().map_err(at(Stage::Confine))?;
    capability::keep(capabilities).map_err(at(Stage::Confine))?;
    if !weak::off(Wall::Seccomp) {
        seccomp::install(last_filter).map_err(at(Stage::Confine))?;
    }
    if weak::off(Wall::Opaque) {
        weak::be_transparent().map_err(at(Stage::Confine))?;
    }
    // Before entering the directory: a path may lead through `/proc/self/fd`, and must find none of our descriptors
    // there.
    if let Some(program) = brought {
        spawn::place(program, BROUGHT)
            .and_then(|()| spawn::close_on_exec(BROUGHT))
            .map_err(at(Stage::Confine))?;
    }
    if !weak::off(Wall::Descriptors) {
        let first = if brought.is_some() { BROUGHT + 1 } else { BROUGHT };
        spawn::close_from(first as u32).map_err(at(Stage::Confine))?;
    }
    rustix::process::chdir(&*order.cwd).map_err(io::Error::from).map_err(at(Stage::Directory))
}

/// A program with its arguments in the form the kernel takes. Made before the fork, because memory that a child
/// allocates is never freed.
struct Program {
    /// It is at [`BROUGHT`], and has no path.
    brought: bool,
    candidates: Vec<CString>,
    argv: Pointers,
    env: Pointers,
}

impl Program {
    /// Returns `None` if a string holds a NUL byte.
    fn new(order: &Order) -> Option<Self> {
        let strings = |list: &[Vec<u8>]| {
            list.iter().map(|text| CString::new(text.clone()).ok()).collect::<Option<Vec<_>>>()
        };
        Some(Self {
            brought: order.brought,
            candidates: strings(&order.candidates)?,
            argv: Pointers::new(strings(&order.argv)?),
            env: Pointers::new(strings(&order.env)?),
        })
    }

    /// Tries the candidates in turn. Returns only if none could be executed.
    fn execute(&self) -> Failed {
        if self.brought {
            let error = spawn::execute_descriptor(BROUGHT, &self.argv, &self.env);
            return Failed { stage: Stage::Execute as u8, errno: error.raw_os_error().unwrap_or(5) };
        }
        let mut errno = rustix::io::Errno::NOENT.raw_os_error();
        for candidate in &self.candidates {
            let candidate: &CStr = candidate;
            let error = spawn::execute(candidate, &self.argv, &self.env);
            let tried = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
            match tried {
                // Missing: the next directory of `PATH` may have it. Remember a candidate that may not be executed.
                Some(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
                Some(rustix::io::Errno::ACCESS) => errno = rustix::io::Errno::ACCESS.raw_os_error(),
                _ => return Failed { stage: Stage::Execute as u8, errno: error.raw_os_error().unwrap_or(5) },
            }
        }
        Failed { stage: Stage::Execute as u8, errno }
    }
}

fn to_stage(number: u8) -> Stage {
    [Stage::Fork, Stage::Directory, Stage::User, Stage::Confine, Stage::Execute]
        .into_iter()
        .find(|stage| *stage as u8 == number)
        .unwrap_or(Stage::Prepare)
}
