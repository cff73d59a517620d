//! The guest's main thread: handles output, ended processes, deadlines and new connections, and ends the sandbox.

use std::cell::Cell;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use coracle_sys::rustix::event::epoll;
use coracle_sys::rustix::event::{EventfdFlags, Timespec, eventfd};
use coracle_sys::{rustix, signal, spawn};
use coracle_wire::End;

use crate::boot::{self, Plan};
use crate::client::Client;
use crate::execs::{ExecContext, Execs, Past, Surroundings};
use crate::forker::Forker;
use crate::serve::{self, Fence};
use crate::ties::{Target, Ties};
use crate::tunnels::Tunnels;
use crate::usage::Usage;

const LISTENER: u64 = 0;
const CHILDREN: u64 = 1;
const WAKE: u64 = 2;
/// The token of every subreaper's pipe.
const REPORT: u64 = 3;
/// The token of every connection that something is tied to.
const TIE: u64 = 4;
/// The token of every connection whose client waits for an exec.
const CLIENT: u64 = 5;
/// How long killed processes may take to be gone; most are within a millisecond. The guest looks many times
/// meanwhile: a process that hides from one look by forking is found by another.
const DEAD_MAX: Duration = Duration::from_secs(1);
/// Tokens of pipes start here.
const FIRST_PIPE: u64 = 16;

/// The state that connections and main thread share.
#[derive(Debug)]
pub struct Shared {
    pub execs: Execs,
    pub fence: Fence,
    pub tunnels: Arc<Tunnels>,
    pub ties: Ties,
    pub secret: Vec<u8>,
    /// A random number drawn at boot, which identifies this guest.
    pub boot: u64,
    pub usage: Arc<Usage>,
    /// How long the sandbox may be idle, in milliseconds.
    ttl: AtomicU64,
    events: OwnedFd,
    wake: OwnedFd,
}

impl Shared {
    fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl.load(Ordering::Relaxed))
    }

    /// Gives a spare sandbox to its caller: `env` and `workdir` hold for all commands from now on.
    pub fn adopt(&self, env: &[(Vec<u8>, Vec<u8>)], workdir: Vec<u8>, ttl_ms: u64) {
        crate::files::make_own_directory(&workdir);
        self.execs.adopt(env, workdir);
        // If it may be idle for longer now, the main thread finds out when the time before is over.
        if ttl_ms < self.ttl.swap(ttl_ms, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Watches a pipe from now on, to drain it.
    pub fn watch(&self, token: u64, pipe: &OwnedFd) {
        self.await_input(token + FIRST_PIPE, pipe, epoll::EventFlags::IN);
    }

    /// Watches the pipe of a subreaper, which writes once.
    pub fn watch_report(&self, report: &OwnedFd) {
        self.await_input(REPORT, report, epoll::EventFlags::IN | epoll::EventFlags::ONESHOT);
    }

    /// Watches for the end of a connection that something is tied to. Ignores data on it. The kernel also reports
    /// an end from before this call.
    pub fn watch_tie(&self, stream: &UnixStream) -> std::io::Result<()> {
        let ends = epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(&self.events, stream, epoll::EventData::new_u64(TIE), ends)?)
    }

    /// Returns the client at the other end of a connection, for a thread that waits on its behalf.
    pub fn client<'a>(&'a self, stream: &'a UnixStream) -> Client<'a> {
        Client::new(stream, self.events.as_fd(), CLIENT)
    }

    fn await_input(&self, token: u64, descriptor: &OwnedFd, flags: epoll::EventFlags) {
        let _ = epoll::add(&self.events, descriptor, epoll::EventData::new_u64(token), flags);
    }

    /// Makes the main thread look at its deadlines again.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// The state of the main thread alone.
#[derive(Debug)]
pub struct Reactor {
    shared: Arc<Shared>,
    listener: UnixListener,
    children: OwnedFd,
    /// Where the guest writes why it ended by itself.
    end: Option<OwnedFd>,
    /// Where the next guest finds what this one knows of its execs; absent where the sandbox does not sleep.
    past: Option<Past>,
    /// The sandbox starts from no files of others', whose disks this guest could not sync.
    own_files: bool,
    /// A command ran at the last look.
    ran: Cell<bool>,
    knows_user: bool,
}

/// What a guest serves with, beside its plan.
#[derive(Debug)]
pub struct Parts {
    pub devpts: OwnedFd,
    pub forker: Forker,
    pub listeners: Vec<TcpListener>,
    pub past: Option<Past>,
}

impl Reactor {
    pub fn new(plan: Plan, parts: Parts) -> std::io::Result<Self> {
        let Parts { devpts, forker, listeners, past } = parts;
        crate::files::open_roots()?;
        crate::files::make_own_directory(&plan.boot.workdir);
        boot::give_places(&plan);
        let knows_user = boot::knows_user(&plan);
        let children = signal::child_descriptor()?;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        plan.listener.set_nonblocking(true)?;
        let watched = [(plan.listener.as_fd(), LISTENER), (children.as_fd(), CHILDREN), (wake.as_fd(), WAKE)];
        for (descriptor, token) in watched {
            epoll::add(&events, descriptor, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        }
        let boot = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), &plan.boot.secret);
        let (wakes, own_files) = (plan.boot.wakes, plan.boot.bases.is_empty());
        let context = ExecContext {
            commands: plan.commands,
            devpts,
            null: rustix::fs::open(
                "/dev/null",
                rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
                rustix::fs::Mode::empty(),
            )?,
            counters: crate::execs::Counters { memory: plan.memory_counter, pids: plan.pids_counter },
            surroundings: RwLock::new(Surroundings { env: plan.boot.env, workdir: plan.boot.workdir }),
            dead_max: plan.boot.may_trace.then_some(DEAD_MAX),
        };
        let usage = Arc::new(Usage::from_now());
        let shared = Shared {
            execs: Execs::new(forker, context),
            fence: Fence::new(plan.boot.epoch),
            tunnels: Tunnels::new(listeners, usage.clone())?,
            ties: Ties::default(),
            secret: plan.boot.secret,
            boot,
            usage,
            ttl: AtomicU64::new(plan.boot.ttl_ms),
            events,
            wake,
        };
        match &past {
            Some(past) if wakes => shared.execs.inherit(past),
            Some(past) => past.forget(),
            None => {}
        }
        Ok(Self {
            past,
            own_files,
            shared: Arc::new(shared),
            listener: plan.listener,
            children,
            end: plan.end,
            ran: Cell::new(false),
            knows_user,
        })
    }

    /// Ends the sandbox when this connection ends, unless it is tied to another one by then.
    pub fn tie_to(&self, stream: &UnixStream) -> std::io::Result<()> {
        let target = Target { exec: None, epoch: self.shared.fence.epoch(), grace: Duration::ZERO };
        serve::tie(&self.shared, target, stream).map_err(|fault| std::io::Error::other(fault.message))
    }

    /// Tells whether the image has the user that commands run as.
    pub fn knows_user(&self) -> bool {
        self.knows_user
    }

    /// Serves until the sandbox has been idle for too long, or the connection it is tied to has ended.
    pub fn run(&self) {
        let mut events = Vec::with_capacity(64);
        loop {
            let now = Instant::now();
            let lapse = serve::lapse(&self.shared, now);
            let untied = self.shared.ties.due(now);
            if untied.sandbox {
                self.leave(End::Untied);
            }
            for exec in &untied.execs {
                if self.shared.execs.stop_untied(exec, || self.shared.ties.is_over(exec)) {
                    self.shared.ties.forget(exec);
                }
            }
            let due = self.shared.execs.tick(now).into_iter().chain(lapse).chain(untied.next).min();
            self.shared.execs.resume(|token, pipe| self.shared.watch(token, pipe));
            let Some(idle_left) = self.idle_left() else {
                self.fall_asleep();
                continue;
            };
            let left = due.map_or(idle_left, |at| at.saturating_duration_since(now).min(idle_left));
            events.clear();
            match epoll::wait(
                &self.shared.events,
                rustix::buffer::spare_capacity(&mut events),
                Some(&to_timespec(left)),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => spawn::exit(1),
            }
            for event in &events {
                self.handle(event.data.u64());
            }
        }
    }

    /// Ends the sandbox because it was idle, unless it is used meanwhile. Where it sleeps, the next guest is to know its
    /// execs, and its files are on the disk before this one says so.
    fn fall_asleep(&self) {
        let Some(past) = &self.past else { self.leave(End::Idle) };
        self.shared.execs.bequeath(past, || {
            let synced = past.sync().is_ok() && self.own_files;
            if self.shared.usage.idle() >= self.shared.ttl() {
                self.leave(if synced { End::Asleep } else { End::Idle });
            }
        });
    }

    /// Ends the sandbox, and writes why.
    fn leave(&self, end: End) -> ! {
        if let Some(file) = &self.end {
            // Without it the host reports the sandbox as lost.
            let _ = rustix::io::pwrite(file, &[end.as_byte()], 0);
            if end == End::Asleep {
                let _ = rustix::fs::fsync(file);
            }
        }
        spawn::exit(end.exit_code())
    }

    /// Returns the idle time left before the sandbox ends by itself, `None` when it is over.
    fn idle_left(&self) -> Option<Duration> {
        let execs = &self.shared.execs;
        let runs = !execs.is_idle() || execs.is_stopped();
        // Idle time counts from the end of the last command, and this may be the first look after it.
        if self.ran.replace(runs) || runs {
            self.shared.usage.touch();
        }
        self.shared.ttl().checked_sub(self.shared.usage.idle()).filter(|left| !left.is_zero())
    }

    fn handle(&self, token: u64) {
        match token {
            LISTENER => self.accept(),
            CHILDREN => self.reap(),
            REPORT => self.shared.execs.reap(),
            TIE => self.shared.ties.notice_ends(Instant::now()),
            CLIENT => self.shared.execs.note_departure(),
            WAKE => drop(rustix::io::read(&self.shared.wake, &mut [0; 8])),
            pipe => {
                self.shared.execs.drain(pipe - FIRST_PIPE, |descriptor| {
                    let _ = epoll::delete(&self.shared.events, descriptor);
                });
            }
        }
    }

    fn accept(&self) {
        while let Ok((stream, _)) = self.listener.accept() {
            serve::spawn(stream, self.shared.clone());
        }
    }

    fn reap(&self) {
        // One read takes many signals of the same kind; the reap below asks for the processes one by one.
        let _ = rustix::io::read(&self.children, &mut [0; 128]);
        self.shared.execs.reap();
    }
}

fn to_timespec(left: Duration) -> Timespec {
    // Better a little late than a little early, or the loop would spin until the deadline.
    let left = left + Duration::from_micros(100);
    Timespec { tv_sec: left.as_secs().min(3600) as i64, tv_nsec: i64::from(left.subsec_nanos()) }
}
