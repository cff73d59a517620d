//! Starts a command, once per id, with its streams, its cgroup and its environment.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use coracle_sys::rustix::io::Errno;
use coracle_sys::rustix::pipe::{PipeFlags, pipe_with};
use coracle_sys::{rustix, terminal};
use coracle_wire::{Command, Fault, FaultCode, Stage, Stream};

use super::brought::{Brought, bare_order};
use super::cgroup::Leaf;
use super::counters::Counters;
use super::exec::{Exec, Phase};
use super::family::Family;
use super::pipes::Pipe;
use super::spool::Spool;
use super::stopping::Stopping;
use super::subreaper::Subreaper;
use super::table::{Execs, RUNNING_MAX, shown};
use crate::forker::{Bond, Kin, NotStarted, Order, Streams};
use crate::users::{self, User};
use crate::weak::{self, Wall};

pub(super) const ID_MAX: usize = 128;
/// How long a command waits for its first attendant to connect.
const EXPECTED: Duration = Duration::from_secs(5);
/// The longest string of arguments or environment that the kernel accepts.
const STRING_MAX: usize = 128 << 10;
const PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What all commands of this sandbox have in common.
#[derive(Debug)]
pub struct ExecContext {
    /// The cgroup of commands; absent where the guest has no cgroups.
    pub commands: Option<OwnedFd>,
    pub devpts: OwnedFd,
    /// `/dev/null`, for commands without input.
    pub null: OwnedFd,
    pub counters: Counters,
    /// How long the guest waits for killed processes to disappear. If absent, it waits for ever: only a debugger
    /// keeps dead processes, and only where commands may debug.
    pub dead_max: Option<Duration>,
    pub surroundings: RwLock<Surroundings>,
}

/// A descriptor the reactor watches for data.
#[derive(Debug, Clone, Copy)]
pub enum Watched {
    /// Output; the number is its token.
    Pipe(u64),
    /// The pipe a subreaper writes to.
    Report,
}

/// The environment, directory and user of commands that do not choose their own. Changes at most once: when a
/// caller adopts a spare sandbox.
#[derive(Debug)]
pub struct Surroundings {
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub workdir: Vec<u8>,
}

/// The ends of a command's streams: those the guest keeps and those it passes on.
pub(super) struct Ends {
    pub stdin: Option<Arc<OwnedFd>>,
    pub terminal: Option<Arc<OwnedFd>>,
    pub outputs: Vec<(Stream, OwnedFd)>,
    pub theirs: [OwnedFd; 3],
}

impl Execs {
    /// Starts the command, unless an exec of this id was started before. Returns whether one was. If none was,
    /// calls `reserved` under the lock before anything runs, and `watch` with each new pipe, to have it drained.
    pub fn start(
        &self,
        epoch: u64,
        id: &str,
        command: &Command,
        reserved: impl Fn(),
        watch: impl Fn(Watched, &OwnedFd),
    ) -> Result<bool, Fault> {
        check(id, command)?;
        let serial = match self.reserve(epoch, id, command, reserved)? {
            Some(serial) => serial,
            None => return Ok(true),
        };
        self.begin(id, command, serial, None, watch).map(|()| false)
    }

    pub(super) fn begin(
        &self,
        id: &str,
        command: &Command,
        serial: u64,
        brought: Option<Brought<'_>>,
        watch: impl Fn(Watched, &OwnedFd),
    ) -> Result<(), Fault> {
        match self.launch(id, command, serial, brought) {
            Ok((pid, family, ends)) => {
                self.register(id, pid, family, ends, watch);
                Ok(())
            }
            Err(fault) => {
                let mut table = self.lock();
                table.execs.remove(id);
                table.finish_starting();
                self.notify();
                Err(fault)
            }
        }
    }

    /// Takes the id. If the same command has it already, waits until that one is started and returns `None`.
    pub(super) fn reserve(
        &self,
        epoch: u64,
        id: &str,
        command: &Command,
        reserved: impl Fn(),
    ) -> Result<Option<u64>, Fault> {
        let fingerprint = fingerprint(command);
        let taken = self.wait_until(Duration::from_secs(30), |table, _| match table.execs.get(id) {
            Some(exec) if exec.fingerprint != fingerprint => {
                Some(Err(fault(FaultCode::Conflict, format!("exec `{id}` is another command"))))
            }
            // Another caller is starting it right now; wait, because its success decides what to do here.
            Some(Exec { phase: Phase::Starting, .. }) => None,
            Some(_) => Some(Ok(None)),
            None if table.running() >= RUNNING_MAX && !weak::off(Wall::Execs) => {
                Some(Err(fault(FaultCode::Limit, format!("{RUNNING_MAX} execs are running"))))
            }
            None => {
                table.serial += 1;
                table.starting += 1;
                table.execs.insert(id.to_owned(), self.new_exec(epoch, command, fingerprint));
                reserved();
                Some(Ok(Some(table.serial)))
            }
        });
        taken
            .unwrap_or_else(|| Err(fault(FaultCode::Internal, format!("exec `{id}` is still being started"))))
    }

    fn new_exec(&self, epoch: u64, command: &Command, fingerprint: u64) -> Exec {
        let now = Instant::now();
        let after =
            |millis: Option<u64>| millis.and_then(|millis| now.checked_add(Duration::from_millis(millis)));
        Exec {
            argv: shown(&command.argv),
            epoch,
            fingerprint,
            phase: Phase::Starting,
            pid: 0,
            family: None,
            spool: Spool::new(),
            output_bytes: match weak::off(Wall::Output) {
                false => usize::try_from(command.output_bytes).unwrap_or(usize::MAX),
                true => usize::MAX,
            },
            stdin: None,
            terminal: None,
            started: now,
            deadline: after(command.deadline_ms),
            background_deadline: after(command.background_ms),
            grace: Duration::from_millis(command.grace_ms),
            keep_background: command.keep_background,
            cause: None,
            early_stop: None,
            stopping: Stopping::new(self.context.dead_max),
            parting: None,
            left_behind: None,
            before: self.context.counters.read(),
            limits: Vec::new(),
            attendants: HashMap::new(),
            expected: command.attended.then(|| now + EXPECTED),
        }
    }

    fn launch(
        &self,
        id: &str,
        command: &Command,
        serial: u64,
        brought: Option<Brought<'_>>,
    ) -> Result<(i32, Family, Ends), Fault> {
        let prepare = |what: &str| {
            let message = format!("could not {what} for exec `{id}`");
            move |error: std::io::Error| {
                started_fault(Stage::Prepare, error.raw_os_error().unwrap_or(5), message)
            }
        };
        let user = users::find(command.user.as_deref()).ok_or_else(|| {
            let name = command.user.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
            fault(FaultCode::Invalid, format!("there is no user `{name}` in the sandbox"))
        })?;
        let ends = match brought {
            Some(Brought { stream, .. }) => self.join_streams(stream),
            None => self.open_streams(command, &user),
        };
        let ends = ends.map_err(prepare("open the streams"))?;
        let leaf = self.leaf(serial).map_err(prepare("make a cgroup"))?;
        let report = self.report().map_err(prepare("make a pipe"))?;
        let order = match brought {
            Some(_) => bare_order(command, &user),
            None => self.order(command, &user),
        };
        let [stdin, stdout, stderr] = &ends.theirs;
        let streams = Streams {
            stdin: stdin.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            program: brought.map(|brought| brought.program),
            kin: match (&leaf, &report) {
                (Some(leaf), _) => Kin::Leaf(leaf),
                (None, Some((_, theirs))) => Kin::Subreaper { report: theirs.as_fd() },
                (None, None) => Kin::Mark,
            },
        };
        let started =
            self.forker.start(&order, &streams).map_err(|failed| describe(failed, command, &order))?;
        let family = match (started.bond, report, leaf) {
            (Some(Bond::Mark(mark)), _, _) => Some(Family::Marked(mark)),
            (Some(Bond::Subreaper(subreaper)), Some((ours, _)), _) => {
                Some(Family::Subreaper(Subreaper::new(subreaper, ours)))
            }
            (_, _, leaf) => leaf.map(Family::Born),
        };
        let family =
            family.ok_or_else(|| prepare("mark the processes")(std::io::ErrorKind::NotFound.into()))?;
        Ok((started.pid, family, ends))
    }

    /// Returns both ends of the pipe the subreaper writes to, if commands have subreapers.
    fn report(&self) -> std::io::Result<Option<(OwnedFd, OwnedFd)>> {
        if !self.forker.subreapers {
            return Ok(None);
        }
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok(Some((ours, theirs)))
    }

    /// Returns an empty leaf, if the guest has cgroups.
    fn leaf(&self, serial: u64) -> std::io::Result<Option<Leaf>> {
        let Some(commands) = &self.context.commands else { return Ok(None) };
        let spare = self.lock().spare.pop();
        spare.map_or_else(|| Leaf::new(commands.as_fd(), serial), Ok).map(Some)
    }

    fn register(&self, id: &str, pid: i32, family: Family, ends: Ends, watch: impl Fn(Watched, &OwnedFd)) {
        let mut table = self.lock();
        for (stream, descriptor) in ends.outputs {
            table.serial += 1;
            let token = table.serial;
            watch(Watched::Pipe(token), &descriptor);
            table.pipes.insert(token, Pipe { exec: id.to_owned(), stream, descriptor, begun: Vec::new() });
        }
        let early = match &family {
            Family::Subreaper(subreaper) => {
                table.unclaimed.retain(|pid, exit| !subreaper.note_end(*pid, *exit));
                subreaper.hear()
            }
            Family::Born(_) | Family::Marked(_) => table.unclaimed.remove(&pid),
        };
        if let Family::Subreaper(subreaper) = &family {
            watch(Watched::Report, subreaper.report());
        }
        if let Some(exec) = table.execs.get_mut(id) {
            exec.stdin = ends.stdin;
            exec.terminal = ends.terminal;
            exec.begin(pid, family, early, Instant::now());
        }
        table.finish_starting();
        self.settle(&mut table);
        self.notify();
    }

    fn open_streams(&self, command: &Command, user: &User) -> std::io::Result<Ends> {
        if let Some(size) = command.terminal {
            return self.open_terminal(size, user);
        }
        let (stdin, their_stdin) = match command.stdin {
            true => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                rustix::io::ioctl_fionbio(&write, true)?;
                (Some(Arc::new(write)), read)
            }
            false => (None, self.context.null.try_clone()?),
        };
        let (stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        for end in [&stdout, &stderr] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        Ok(Ends {
            stdin,
            terminal: None,
            outputs: vec![(Stream::Stdout, stdout), (Stream::Stderr, stderr)],
            theirs: [their_stdin, their_stdout, their_stderr],
        })
    }

    fn open_terminal(&self, size: coracle_wire::Terminal, user: &User) -> std::io::Result<Ends> {
        let pair = terminal::open(self.context.devpts.as_fd())?;
        terminal::resize(pair.controller.as_fd(), size.rows, size.columns)?;
        // Otherwise the user could not open the terminal by its name.
        let owner = Some(rustix::fs::Uid::from_raw(user.uid));
        rustix::fs::fchown(&pair.user, owner, Some(rustix::fs::Gid::from_raw(user.gid)))?;
        rustix::io::ioctl_fionbio(&pair.controller, true)?;
        let output = pair.controller.try_clone()?;
        let controller = Arc::new(pair.controller);
        let theirs = [pair.user.try_clone()?, pair.user.try_clone()?, pair.user];
        Ok(Ends {
            stdin: Some(controller.clone()),
            terminal: Some(controller),
            outputs: vec![(Stream::Stdout, output)],
            theirs,
        })
    }

    fn order(&self, command: &Command, user: &User) -> Order {
        let env = self.environment(command, user);
        let path = env
            .iter()
            .rev()
            .find(|(name, _)| name == b"PATH")
            .map_or(PATH.to_vec(), |(_, value)| value.clone());
        Order {
            candidates: candidates(&command.argv[0], &path),
            argv: command.argv.clone(),
            env: env
                .into_iter()
                .map(|(name, value)| [name.as_slice(), b"=", value.as_slice()].concat())
                .collect(),
            cwd: self.directory(command.cwd.as_deref()),
            uid: user.uid,
            gid: user.gid,
            groups: user.groups.clone(),
            terminal: command.terminal.is_some(),
            brought: false,
        }
    }

    /// Returns the directory a command starts in. A relative path starts at the sandbox's own directory.
    fn directory(&self, cwd: Option<&[u8]>) -> Vec<u8> {
        match cwd {
            None => self.surroundings().workdir.clone(),
            Some(cwd) if cwd.starts_with(b"/") => cwd.to_vec(),
            Some(cwd) => [&self.surroundings().workdir, b"/".as_slice(), cwd].concat(),
        }
    }

    /// Returns the defaults, then the sandbox's, the command's and the secret variables. A later one replaces an
    /// earlier.
    fn environment(&self, command: &Command, user: &User) -> Vec<(Vec<u8>, Vec<u8>)> {
        let text = |value: &str| value.as_bytes().to_vec();
        let mut env = vec![
            (text("PATH"), PATH.to_vec()),
            (text("HOME"), text(user.home.as_deref().unwrap_or("/"))),
            (text("LANG"), text("C.UTF-8")),
        ];
        env.extend(user.name.as_deref().map(|name| (text("USER"), text(name))));
        if command.terminal.is_some() {
            env.push((text("TERM"), text("xterm-256color")));
        }
        merge(&mut env, &self.surroundings().env);
        merge(&mut env, &command.env);
        merge(&mut env, &command.secrets);
        env
    }

    fn surroundings(&self) -> RwLockReadGuard<'_, Surroundings> {
        self.context.surroundings.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the directory and adds to the environment of all later commands.
    pub fn adopt(&self, env: &[(Vec<u8>, Vec<u8>)], workdir: Vec<u8>) {
        let mut surroundings = self.context.surroundings.write().unwrap_or_else(PoisonError::into_inner);
        merge(&mut surroundings.env, env);
        surroundings.workdir = workdir;
    }
}

/// Returns the same number for the same command in every guest of the sandbox, so that a later one knows it again. FNV-1a: it
/// only tells the commands of one owner apart.
fn fingerprint(command: &Command) -> u64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }
    let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
    command.hash(&mut fnv);
    fnv.finish()
}

/// Adds variables. One that exists gets the later value.
fn merge(env: &mut Vec<(Vec<u8>, Vec<u8>)>, more: &[(Vec<u8>, Vec<u8>)]) {
    for (name, value) in more {
        match env.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.clone_from(value),
            None => env.push((name.clone(), value.clone())),
        }
    }
}

impl super::table::Table {
    fn finish_starting(&mut self) {
        self.starting -= 1;
        if self.starting == 0 {
            self.unclaimed.clear();
        }
    }
}

fn check(id: &str, command: &Command) -> Result<(), Fault> {
    let invalid = |what: &str| Err(fault(FaultCode::Invalid, what.to_owned()));
    if id.is_empty() || id.len() > ID_MAX {
        return invalid("an exec id has 1 to 128 bytes");
    }
    if command.argv.first().is_none_or(Vec::is_empty) {
        return invalid("the command is empty");
    }
    let pairs = command.env.iter().chain(&command.secrets);
    let strings =
        command.argv.iter().chain(&command.cwd).chain(pairs.flat_map(|(name, value)| [name, value]));
    if strings.into_iter().any(|string| string.contains(&0) || string.len() >= STRING_MAX) {
        return invalid("a string of the command holds a NUL byte or is too long");
    }
    Ok(())
}

/// Returns the paths to try for a program: its own, or one in each directory of `PATH`.
fn candidates(program: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if program.contains(&b'/') {
        return vec![program.to_vec()];
    }
    let join = |directory: &[u8]| match directory {
        b"" => [b"./", program].concat(),
        _ => [directory, b"/", program].concat(),
    };
    path.split(|byte| *byte == b':').map(join).collect()
}

fn describe(failed: NotStarted, command: &Command, order: &Order) -> Fault {
    let program = String::from_utf8_lossy(&command.argv[0]).into_owned();
    let error = Errno::from_raw_os_error(failed.errno);
    let message = match failed.stage {
        Stage::Directory => format!("could not enter `{}`", String::from_utf8_lossy(&order.cwd)),
        Stage::User => format!("could not become user {}:{}", order.uid, order.gid),
        Stage::Fork => format!("could not fork for `{program}`"),
        Stage::Execute if error == Errno::NOENT => format!("`{program}` is not in the sandbox"),
        Stage::Execute => format!("could not execute `{program}`"),
        Stage::Prepare | Stage::Confine => format!("could not prepare `{program}`"),
    };
    started_fault(failed.stage, failed.errno, message)
}

fn started_fault(stage: Stage, errno: i32, message: String) -> Fault {
    Fault { code: FaultCode::NotStarted { stage }, message, errno: Some(errno) }
}

pub(super) fn fault(code: FaultCode, message: String) -> Fault {
    Fault { code, message, errno: None }
}
