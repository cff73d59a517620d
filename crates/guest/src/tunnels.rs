//! Carries connections between commands and the host, on one thread, with memory only for data in transit.
//!
//! There are two kinds, alike once they are joined: a command's connection to a listener, joined with a connection
//! the host had parked; and a connection of the host's, joined with a port of the sandbox. Without network and
//! forwarding the thread never starts.

mod joint;

use std::collections::{BTreeMap, VecDeque};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use coracle_sys::rustix;
use coracle_sys::rustix::event::{Timespec, epoll};
use coracle_sys::rustix::io::Errno;
use coracle_wire::Reply;

use crate::usage::Usage;
use crate::weak::{self, Wall};
use joint::{Joint, Stride};

/// A little more than the host accepts at once, so that it is the host that refuses and says why.
const TUNNELS_MAX: usize = 272;
/// Most connections the host may park. It keeps a handful.
const PARKED_MAX: usize = 32;
/// How long commands wait for the host to park a connection: it may be just starting.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most commands that wait at once, each with a descriptor of ours: as many as may be carried can come at the same
/// moment.
const WAITING_MAX: usize = TUNNELS_MAX;
const STACK: usize = 128 << 10;
/// Tokens of joints start here. Listeners are below; there are two for each of at most 256 rules.
const FIRST_JOINT: u64 = 1 << 16;

/// All joined, parked and waiting connections.
#[derive(Debug)]
pub struct Tunnels {
    listeners: Vec<TcpListener>,
    events: OwnedFd,
    started: Once,
    /// Where traffic counts as use of the sandbox.
    usage: Arc<Usage>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    parked: VecDeque<UnixStream>,
    waiting: VecDeque<Waiting>,
    joints: BTreeMap<u64, Joint>,
    /// Joints that had more to carry when it was another's turn.
    ready: VecDeque<u64>,
    last: u64,
}

/// A command's connection for which there is no parked connection yet.
#[derive(Debug)]
struct Waiting {
    client: TcpStream,
    listener: u32,
    until: Instant,
}

impl Tunnels {
    /// Starts to accept, if there are listeners.
    pub fn new(listeners: Vec<TcpListener>, usage: Arc<Usage>) -> std::io::Result<Arc<Self>> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (token, listener) in (0..).zip(&listeners) {
            epoll::add(&events, listener, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        }
        let tunnels =
            Arc::new(Self { listeners, events, started: Once::new(), usage, table: Mutex::default() });
        if !tunnels.listeners.is_empty() {
            tunnels.start();
        }
        Ok(tunnels)
    }

    /// Keeps a connection of the host's for the next command.
    pub fn park(&self, host: UnixStream) {
        let mut table = self.lock();
        if table.parked.len() >= PARKED_MAX {
            // A keeper that died has left its connections; those of its successor are behind them.
            table.parked.pop_front();
        }
        if !self.listeners.is_empty() {
            table.parked.push_back(host);
        }
        self.pair(&mut table);
    }

    /// Joins a connection of the host's to a port; `rest` has already arrived for the port.
    pub fn join(self: &Arc<Self>, host: UnixStream, port: TcpStream, epoch: u64, rest: Vec<u8>) {
        self.start();
        let joint = Joint::new(port.into(), host.into(), Some(epoch), rest);
        self.add(&mut self.lock(), joint);
    }

    /// Ends joints of earlier epochs.
    pub fn cut_before(&self, epoch: u64) {
        self.lock().joints.retain(|_, joint| joint.epoch.is_none_or(|own| own >= epoch));
    }

    fn start(self: &Arc<Self>) {
        self.started.call_once(|| {
            let tunnels = self.clone();
            // If the thread does not start, nothing is carried: that fails closed.
            let _ = std::thread::Builder::new().stack_size(STACK).spawn(move || tunnels.carry());
        });
    }

    /// Carries until the sandbox ends.
    fn carry(&self) {
        let mut scratch = vec![0; joint::PIECE];
        let mut events = Vec::with_capacity(64);
        loop {
            let left = self.lock().time_left();
            events.clear();
            match epoll::wait(&self.events, rustix::buffer::spare_capacity(&mut events), left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let mut table = self.lock();
            let again = std::mem::take(&mut table.ready);
            for token in events.iter().map(|event| event.data.u64()).chain(again) {
                match usize::try_from(token).ok().and_then(|index| Some((index, self.listeners.get(index)?)))
                {
                    Some((index, listener)) => self.accept(&mut table, listener, index as u32),
                    None => table.carry(token, &mut scratch, &self.usage),
                }
            }
            let now = Instant::now();
            table.waiting.retain(|waiting| waiting.until > now);
        }
    }

    /// Accepts every connection. Closes at once those there is no room for, so that the command notices.
    fn accept(&self, table: &mut Table, listener: &TcpListener, number: u32) {
        while let Ok((client, _)) = listener.accept() {
            if table.waiting.len() < WAITING_MAX {
                let until = Instant::now() + PATIENCE;
                table.waiting.push_back(Waiting { client, listener: number, until });
            }
            self.pair(table);
        }
    }

    /// Joins waiting commands with parked connections.
    fn pair(&self, table: &mut Table) {
        while !table.waiting.is_empty()
            && let Some(host) = table.parked.pop_front()
        {
            let Some(Waiting { listener, .. }) = table.waiting.front() else { return };
            // If the other end of a parked connection is gone, the write fails; try the next.
            let reply = Reply::Accepted { listener: *listener };
            let told = coracle_wire::encode(&reply).is_ok_and(|frame| {
                rustix::io::write(&host, &frame).is_ok_and(|written| written == frame.len())
            });
            if told && let Some(waiting) = table.waiting.pop_front() {
                let joint = Joint::new(waiting.client.into(), host.into(), None, Vec::new());
                self.add(table, joint);
                // A host that came for one command comes for the next, however long the queue is.
                let until = Instant::now() + PATIENCE;
                table.waiting.iter_mut().for_each(|waiting| waiting.until = until);
            }
        }
    }

    fn add(&self, table: &mut Table, joint: std::io::Result<Joint>) {
        let Ok(joint) = joint else { return };
        if table.joints.len() >= TUNNELS_MAX && !weak::off(Wall::EgressCaps) {
            return;
        }
        table.last += 1;
        let token = FIRST_JOINT + table.last;
        // Edge-triggered: epoll reports each change once, so carry a joint until there is nothing more to carry.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        for end in joint.ends() {
            if epoll::add(&self.events, end, epoll::EventData::new_u64(token), flags).is_err() {
                return;
            }
        }
        table.joints.insert(token, joint);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn carry(&mut self, token: u64, scratch: &mut [u8], usage: &Usage) {
        let Some(joint) = self.joints.get_mut(&token) else { return };
        let before = joint.carried();
        let stride = joint.carry(scratch);
        // An open but silent connection does not count as use; traffic does.
        if joint.carried() != before {
            usage.touch();
        }
        match stride {
            Stride::Waits => {}
            Stride::More => self.ready.push_back(token),
            Stride::Over => drop(self.joints.remove(&token)),
        }
    }

    /// Returns how long the thread may sleep unless an event comes.
    fn time_left(&self) -> Option<Timespec> {
        let left = match (self.ready.is_empty(), self.waiting.front()) {
            (false, _) => Duration::ZERO,
            (true, Some(first)) => {
                first.until.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
            }
            (true, None) => return None,
        };
        Some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn traffic_is_use_and_an_open_connection_is_not() {
        let usage = Arc::new(Usage::from_now());
        let tunnels = Tunnels::new(Vec::new(), usage.clone()).expect("it starts");
        let server = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = TcpStream::connect(server.local_addr().expect("it is bound")).expect("it listens");
        let (mut command, _) = server.accept().expect("the client has connected");
        let (mut host, theirs) = UnixStream::pair().expect("a pair");
        tunnels.join(theirs, port, 1, Vec::new());
        let opened = usage.last();

        // Longer than the resolution of the clock.
        std::thread::sleep(Duration::from_millis(20));
        let silent = usage.last();
        host.write_all(b"ping").expect("it is carried");
        command.read_exact(&mut [0; 4]).expect("it arrives");

        assert_eq!(silent, opened);
        // The thread records the use right after it has carried the data.
        let noted = (0..5000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            usage.last() >= opened + 20
        });
        assert!(noted);
    }
}
