//! The judge: every packet the machine sends to the internet, taken from the far end of the wire.
//!
//! It sees what left the machine, from any process, answered or not. It does not see what stays on the
//! machine; for that there are [traps](super::Trap).

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size_force, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, socket_with};

use super::frame::{self, Packet};
use super::wires::{NOWHERE, OUTSIDE_LINK, address};
use super::{Namespace, PATIENCE, TICK};
use crate::eventually;

/// Frames that are waiting to be read: far more than any test sends before the thread gets its turn.
const BUFFER: usize = 32 << 20;
/// The headers; the rest of a packet is not looked at.
const HEAD: usize = 128;
/// Packets beyond this are not kept: a test that sends so many has long failed.
const KEPT_MAX: usize = 200_000;
/// The first port of the marks by which a reader knows that everything before has been seen.
const MARKS: u16 = 40_000;

/// Packets in the order in which they came.
#[derive(Debug)]
pub struct Capture {
    seen: Arc<Mutex<Vec<Packet>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    marks: AtomicU16,
}

impl Capture {
    /// Begins to listen.
    pub fn start(outside: &Namespace) -> Self {
        let (seen, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        // Opened before this returns: a packet sent right after must not be missed.
        let socket = outside.inside(open);
        let (kept, told) = (seen.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                take(&socket, &kept);
            }
        });
        Self { seen, stop, thread: Some(thread), marks: AtomicU16::new(MARKS) }
    }

    /// Returns everything the machine has sent until now.
    pub fn packets(&self, machine: &Namespace) -> Vec<Packet> {
        self.catch_up(machine);
        let is_mark = |packet: &Packet| matches!(packet, Packet::Port { to, .. } if *to == address(NOWHERE));
        self.seen().iter().filter(|packet| !is_mark(packet)).cloned().collect()
    }

    /// Forgets everything the machine has sent until now.
    pub fn clear(&self, machine: &Namespace) {
        self.catch_up(machine);
        self.seen().clear();
    }

    /// Sends a mark along the same wire and waits for it: the capture has then seen all earlier frames, too.
    fn catch_up(&self, machine: &Namespace) {
        let mark = self.marks.fetch_add(1, Ordering::Relaxed);
        machine.inside(move || {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket can be had");
            socket.send_to(b"mark", (NOWHERE, mark)).expect("the wire is up");
        });
        let is_it = |packet: &Packet| matches!(packet, Packet::Port { to, port, .. } if *to == address(NOWHERE) && *port == mark);
        let arrived = eventually(PATIENCE, || self.seen().iter().any(is_it));
        assert!(arrived.is_some(), "the capture sees nothing");
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Packet>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn open() -> OwnedFd {
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, Some(eth::ALL));
    let socket = socket.expect("root may capture packets");
    set_socket_recv_buffer_size_force(&socket, BUFFER).expect("root may have a large buffer");
    set_socket_timeout(&socket, Timeout::Recv, Some(TICK)).expect("a socket can have a timeout");
    socket
}

fn take(socket: &OwnedFd, kept: &Mutex<Vec<Packet>>) {
    let mut frame = [0; HEAD];
    let Ok((length, _)) = recv(socket, &mut frame, RecvFlags::empty()) else { return };
    let from = frame.get(6..12).unwrap_or_default();
    // What the internet sends itself: frames on its own loopback have no source address.
    if from == OUTSIDE_LINK || from == [0; 6] {
        return;
    }
    let Some(packet) = frame::read(&frame[..length.min(HEAD)]) else { return };
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() < KEPT_MAX {
        kept.push(packet);
    }
}
