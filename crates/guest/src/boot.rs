//! Boots the guest: from a fresh process in new namespaces to a guest that can serve.

pub mod contained;
mod devices;
mod give;
mod hold;
mod mask;
mod plan;
mod restack;
mod root;
mod storage;

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use coracle_sys::rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use coracle_sys::{capability, identity, landlock, loopback, rustix, signal, spawn};
use coracle_wire::Boot;

use crate::GUEST_ID;
use crate::forker::{self, Confinement, Fenced, Forker};
use crate::weak::{self, Wall};
use crate::{rights, users};

pub use give::give_places;
pub use plan::{Plan, receive};
pub use restack::restack;
pub use root::Built;

/// What the guest itself may still do: act for other users, kill their processes and reach their files.
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
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;

/// The guest, its forker, and one thread each for a few connections.
const OWN_PROCESSES: u64 = 8;

/// Open files of one command, even where the user who made the sandbox may open more.
const FILES_MAX: u64 = 65_536;

/// A boot step that failed, as the guest reports it to the host.
#[derive(Debug)]
pub struct Failure {
    attempted: String,
    cause: io::Error,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.attempted, self.cause)
    }
}

impl Failure {
    /// Returns a function that turns an error into a failure which names the attempted step.
    pub fn at<E: Into<io::Error>>(attempted: &str) -> impl FnOnce(E) -> Self + '_ {
        move |cause| Self { attempted: attempted.to_owned(), cause: cause.into() }
    }
}

/// Returns the socket that guest and host use until the guest is ready.
pub fn socket() -> UnixStream {
    coracle_sys::launch::boot_socket()
}

/// Gives this process the sandbox's host name, network interface and root.
pub fn build(plan: &Plan, host: &UnixStream) -> Result<Built, Failure> {
    let built = root::build(plan, host)?;
    rustix::system::sethostname(plan.boot.hostname.as_bytes()).map_err(Failure::at("set the host name"))?;
    loopback::up().map_err(Failure::at("bring up the loopback interface"))?;
    Ok(built)
}

/// Starts the forker in the commands' cgroups and under their filter. All commands are forked from it.
pub fn start_forker(plan: &Plan, bottom: BorrowedFd<'_>) -> Result<Forker, Failure> {
    let (ours, theirs) = UnixStream::pair().map_err(Failure::at("make the forker's socket"))?;
    let confinement = Confinement {
        last_filter: &plan.boot.last_filter,
        capabilities: plan.boot.capabilities,
        single_user: plan.is_single_user(),
        subreapers: plan.boot.contained,
    };
    let pid = spawn::fork_into(plan.commands.as_ref().map(AsFd::as_fd), spawn::Parent::This, || {
        let confined = confine_forker(plan, bottom);
        // The forker reports success and failure to the guest, never on the host's socket.
        if keep_only(&theirs).is_ok() {
            forker::run(&coracle_sys::launch::boot_socket(), confined, confinement);
        }
    })
    .map_err(Failure::at("start the forker"))?;
    drop(theirs);
    Forker::new(ours, pid, plan.boot.contained).map_err(Failure::at("confine the forker"))
}

/// Closes everything the forker inherited except its end of the guest's socket, which takes the boot socket's
/// place.
fn keep_only(socket: &UnixStream) -> io::Result<()> {
    spawn::place(socket.as_fd(), coracle_sys::launch::BOOT_DESCRIPTOR)?;
    match weak::off(Wall::Descriptors) {
        false => spawn::close_from(coracle_sys::launch::BOOT_DESCRIPTOR as u32 + 1),
        true => Ok(()),
    }
}

/// Confines the forker once, so that commands inherit it all. Tells whether Landlock is in force.
fn confine_forker(plan: &Plan, bottom: BorrowedFd<'_>) -> io::Result<Fenced> {
    let capabilities = plan.boot.capabilities;
    for join in &plan.joins {
        rustix::io::write(join, b"0")?;
    }
    match plan.boot.contained {
        true => contained::be_killed_first(),
        false if weak::off(Wall::CgroupNamespace) => {}
        false => identity::hide_cgroups()?,
    }
    signal::reset();
    identity::be_opaque()?;
    // With a limit of 0 the kernel may still pipe a core dump to a program on the host; with 1 it writes none.
    setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) })?;
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(FILES_MAX).min(FILES_MAX);
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: Some(files) })?;
    let mut kept = bits(&[SETGID, SETUID, SETPCAP]) | capabilities;
    if let Some(limit) = &plan.boot.without_cgroups {
        bound_processes(limit.pids)?;
        // The forker needs it to mark what it starts; see [`identity::be_marked`].
        kept |= bits(&[SYS_ADMIN]);
    }
    become_guest(plan, kept)?;
    hide(plan)?;
    capability::bound(capabilities)?;
    if !weak::off(Wall::NoNewPrivileges) {
        rustix::thread::set_no_new_privs(true)?;
    }
    let restricted = !weak::off(Wall::Landlock) && landlock::restrict(bottom)?;
    let fenced = if restricted { Fenced::Yes } else { Fenced::No };
    if !weak::off(Wall::Seccomp) {
        coracle_sys::seccomp::install(&plan.boot.filter)?;
        for filter in &plan.boot.more_filters {
            coracle_sys::seccomp::install(filter)?;
        }
        if let Some(filter) =
            plan.boot.shared_users_filter.as_ref().filter(|_| contained::has_machines_users())
        {
            coracle_sys::seccomp::install(filter)?;
        }
    }
    Ok(fenced)
}

/// Drops the privileges the guest needed only to build the sandbox.
pub fn drop_privileges(plan: &Plan) -> Result<(), Failure> {
    let dropped = || -> io::Result<()> {
        let files = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files })?;
        identity::be_opaque()?;
        capability::bound(0)?;
        // The guest needs it to see the marks of processes that hide.
        let marks = if plan.boot.without_cgroups.is_some() { bits(&[SYS_PTRACE]) } else { 0 };
        // In the machine's own user namespace this capability opens the machine's files by their handles.
        let unneeded = if plan.boot.contained { bits(&[DAC_READ_SEARCH]) } else { 0 };
        become_guest(plan, (GUEST_CAPABILITIES | marks) & !unneeded)?;
        hide(plan)?;
        rights::settle(rights::RightsConfig {
            single_user: plan.is_single_user(),
            commands: plan.boot.capabilities,
            hide: hiding(plan),
        });
        Ok(rustix::thread::set_no_new_privs(true)?)
    };
    dropped().map_err(Failure::at("drop the guest's privileges"))
}

/// Keeps commands from reading this process in `/proc`, now that it runs as the guest's user.
fn hide(plan: &Plan) -> io::Result<()> {
    hiding(plan)()
}

fn hiding(plan: &Plan) -> fn() -> io::Result<()> {
    match plan.boot.contained {
        false => identity::be_opaque,
        true => contained::be_ones_own,
    }
}

/// Becomes the guest's user, which no command can be, and keeps these capabilities. Where there is only one user,
/// it only reduces the capabilities. Either way, files and cgroups it creates belong to root.
fn become_guest(plan: &Plan, capabilities: u64) -> io::Result<()> {
    if plan.is_single_user() {
        return capability::keep(capabilities);
    }
    capability::keep_across_setuid()?;
    identity::become_user(GUEST_ID, GUEST_ID, &[])?;
    capability::keep(capabilities)?;
    identity::act_on_files_as(0, 0);
    Ok(())
}

/// Bounds the sandbox's processes where no cgroup does. The guest's own few processes count too.
fn bound_processes(pids: Option<u64>) -> io::Result<()> {
    let Some(pids) = pids else { return Ok(()) };
    let most = getrlimit(Resource::Nproc)
        .maximum
        .map_or(pids + OWN_PROCESSES, |most| most.min(pids + OWN_PROCESSES));
    Ok(setrlimit(Resource::Nproc, Rlimit { current: Some(most), maximum: Some(most) })?)
}

/// Tells whether the image has the user that commands run as. Call it after `files::open_roots`, which it reads
/// through. A sandbox with a single user accepts any.
pub fn knows_user(plan: &Plan) -> bool {
    plan.is_single_user() || users::find(plan.boot.user.as_deref()).is_some()
}

/// Tells the host that the guest serves, whether Landlock is in force, and whether the image has the user.
pub fn report_ready(mut socket: &UnixStream, fenced: Fenced, knows_user: bool) -> Result<(), Failure> {
    let word = [Boot::READY, u8::from(fenced == Fenced::Yes), u8::from(knows_user)];
    socket.write_all(&word).map_err(Failure::at("tell the host"))
}

/// Tells the host why the boot failed. PID 1 then ends, and with it every process of the sandbox.
pub fn report_failure(mut socket: &UnixStream, failure: &Failure) {
    let text = format!("\0{failure}");
    // If this write fails, the host still sees the socket close.
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
