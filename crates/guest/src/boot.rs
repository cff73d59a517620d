//! From a fresh process in new namespaces to a guest that can serve.

mod devices;
mod mask;
mod plan;
mod root;

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use coracle_sys::rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use coracle_sys::{capability, identity, loopback, rustix, signal, spawn};

use crate::GUEST_ID;
use crate::forker::{self, Forker};

pub use plan::{Plan, receive};

/// What the guest itself may still do: act for other users, kill them, and get at their files.
const GUEST_CAPABILITIES: u64 =
    bits(&[CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, KILL, SETGID, SETUID, SETPCAP]);
const CHOWN: u32 = 0;
const DAC_OVERRIDE: u32 = 1;
const DAC_READ_SEARCH: u32 = 2;
const FOWNER: u32 = 3;
const KILL: u32 = 5;
const SETGID: u32 = 6;
const SETUID: u32 = 7;
const SETPCAP: u32 = 8;

/// Open files of one command, whatever whoever made the sandbox is allowed.
const FILES_MAX: u64 = 65_536;

/// A step that failed, in words for the host.
#[derive(Debug)]
pub struct Failure {
    attempted: String,
    cause: io::Error,
}

impl Failure {
    /// Returns a function that says what was attempted when an error came.
    pub fn at<E: Into<io::Error>>(attempted: &str) -> impl FnOnce(E) -> Self + '_ {
        move |cause| Self { attempted: attempted.to_owned(), cause: cause.into() }
    }
}

/// Returns the socket the host speaks on until the guest is ready.
pub fn socket() -> UnixStream {
    coracle_sys::launch::boot_socket()
}

/// Makes this process's view of the world the sandbox's. Returns the directory terminals are opened from.
pub fn build(plan: &Plan) -> Result<OwnedFd, Failure> {
    let devpts = root::build(plan)?;
    rustix::system::sethostname(plan.boot.hostname.as_bytes()).map_err(Failure::at("set the host name"))?;
    loopback::up().map_err(Failure::at("bring up the loopback interface"))?;
    Ok(devpts)
}

/// Starts the process that commands are started from, in the commands' cgroups and under their filter.
pub fn start_forker(plan: &Plan) -> Result<Forker, Failure> {
    let (ours, theirs) = UnixStream::pair().map_err(Failure::at("make the forker's socket"))?;
    let capabilities = plan.boot.capabilities;
    let pid = spawn::fork_into(plan.commands.as_fd(), || {
        let confined = confine_forker(plan, capabilities);
        // Whatever became of that, it is told to the guest and never on the host's socket.
        if keep_only(&theirs).is_ok() {
            forker::run(&coracle_sys::launch::boot_socket(), confined, &plan.boot.last_filter, capabilities);
        }
    })
    .map_err(Failure::at("start the forker"))?;
    drop(theirs);
    Forker::new(ours, pid).map_err(Failure::at("confine the forker"))
}

/// Closes everything the forker has from the guest but its end of their socket, which takes the boot socket's place.
fn keep_only(socket: &UnixStream) -> io::Result<()> {
    spawn::place(socket.as_fd(), coracle_sys::launch::BOOT_DESCRIPTOR)?;
    spawn::close_from(coracle_sys::launch::BOOT_DESCRIPTOR as u32 + 1)
}

/// Everything commands inherit instead of being given it one by one.
fn confine_forker(plan: &Plan, capabilities: u64) -> io::Result<()> {
    for join in &plan.joins {
        rustix::io::write(join, b"0")?;
    }
    identity::hide_cgroups()?;
    signal::reset();
    identity::be_opaque()?;
    // With 0 a core dump may still go to a program of the host's; with 1 it goes nowhere.
    setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) })?;
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(FILES_MAX).min(FILES_MAX);
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: Some(files) })?;
    capability::keep_across_setuid()?;
    identity::become_user(GUEST_ID, GUEST_ID, &[])?;
    capability::keep(bits(&[SETGID, SETUID, SETPCAP]) | capabilities)?;
    capability::bound(capabilities)?;
    // The forker's own cgroup is root's; it is born into others by the rights of root's files.
    identity::act_on_files_as(0, 0);
    rustix::thread::set_no_new_privs(true)?;
    coracle_sys::seccomp::install(&plan.boot.filter)
}

/// Takes from the guest what it needed only to build the sandbox.
pub fn drop_privileges() -> Result<(), Failure> {
    let dropped = || -> io::Result<()> {
        let files = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files })?;
        identity::be_opaque()?;
        capability::bound(0)?;
        capability::keep_across_setuid()?;
        identity::become_user(GUEST_ID, GUEST_ID, &[])?;
        capability::keep(GUEST_CAPABILITIES)?;
        // What the guest writes belongs to the sandbox's root, like what commands write.
        identity::act_on_files_as(0, 0);
        identity::be_opaque()?;
        Ok(rustix::thread::set_no_new_privs(true)?)
    };
    dropped().map_err(Failure::at("drop the guest's privileges"))
}

/// Tells the host that the guest serves.
pub fn report_ready(mut socket: &UnixStream) -> Result<(), Failure> {
    socket.write_all(&[1]).map_err(Failure::at("tell the host"))
}

/// Tells the host why there is no guest. PID 1 then ends, and everything with it.
pub fn report_failure(mut socket: &UnixStream, failure: &Failure) {
    let text = format!("\0{}: {}", failure.attempted, failure.cause);
    // Nobody is left to tell if this fails; the host sees the socket close.
    let _ = socket.write_all(text.as_bytes());
}

const fn bits(numbers: &[u32]) -> u64 {
    let mut mask = 0;
    let mut index = 0;
    while index < numbers.len() {
        mask |= 1 << numbers[index];
        index += 1;
    }
    mask
}
