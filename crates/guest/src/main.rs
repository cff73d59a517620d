//! The guest: PID 1 of a sandbox. It builds the sandbox from the inside, then starts commands and handles files for
//! the callers the host lets talk to it.
//!
//! It trusts nothing in the image. It needs no program, library or file of the image, and runs none with more
//! rights than a command has.

mod boot;
mod client;
mod connect;
mod egress;
mod execs;
mod files;
mod forker;
mod install;
mod reactor;
mod rights;
mod serve;
mod ties;
mod tunnels;
mod usage;
mod users;
mod weak;

use std::os::fd::AsFd;

/// The user the guest and its forker run as. No command can be this user, so none can signal them.
const GUEST_ID: u32 = 65_535;

fn main() {
    coracle_sys::heap::share_arena();
    // The process that made the sandbox may have had another umask.
    coracle_sys::rustix::process::umask(coracle_sys::rustix::fs::Mode::from_raw_mode(0o022));
    // A container engine starts the guest by its path and a word; the host starts it by a descriptor.
    match std::env::args().nth(1).as_deref() {
        Some("contained") => return boot::contained::run(),
        Some("connect") => return connect::run(),
        Some("install") => return install::run(),
        Some(_) | None => {}
    }
    let socket = boot::socket();
    let failed = match std::env::args_os().next().is_some_and(|name| name == coracle_sys::enter::NAME) {
        true => boot::restack(&socket).err(),
        false => start(&socket).map(|reactor| reactor.run()).err(),
    };
    if let Some(failure) = failed {
        boot::report_failure(&socket, &failure);
    }
}

fn start(socket: &std::os::unix::net::UnixStream) -> Result<reactor::Reactor, boot::Failure> {
    let plan = boot::receive(socket)?;
    let boot::Built { devpts, bottom, storage } = boot::build(&plan, socket)?;
    let listeners = egress::bind(&plan)?;
    let forker = boot::start_forker(&plan, bottom.as_fd())?;
    drop(bottom);
    boot::drop_privileges(&plan)?;
    let (fenced, tied) = (forker.fenced, plan.boot.tied);
    let parts = reactor::Parts { devpts, forker, listeners, past: storage.map(execs::Past::at) };
    let reactor = reactor::Reactor::new(plan, parts).map_err(boot::Failure::at("start serving"))?;
    if tied {
        reactor.tie_to(socket).map_err(boot::Failure::at("tie the sandbox to its maker"))?;
    }
    boot::report_ready(socket, fenced, reactor.knows_user())?;
    Ok(reactor)
}
