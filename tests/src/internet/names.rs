//! The name server of the internet. What it says is up to the test, and it remembers everything it was asked.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use super::message::{self, Answer, Question};
use super::wires::{self, address};
use super::{Namespace, Server, TICK};

const PORT: u16 = 53;
/// Questions that wait while the machine is busy: one that is lost is asked again only after seconds.
const BUFFER: usize = 4 << 20;
/// What is found at every name that is asked for text.
pub const TEXT: &str = "text-from-the-internet";

/// The name server: its names, and the addresses that asked for them.
#[derive(Debug)]
pub struct Names {
    zone: Arc<Zone>,
    stop: Arc<AtomicBool>,
    _tcp: Server,
}

#[derive(Debug, Default)]
struct Zone {
    /// What a name means when it is asked for the first time, the second, and so on; the last goes for all that follow.
    turns: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<Question>>,
}

impl Names {
    /// Starts it with the names every test knows.
    pub fn start(outside: &Namespace) -> Self {
        let zone = Arc::new(Zone::default());
        let stop = Arc::new(AtomicBool::new(false));
        let socket =
            outside.inside(|| UdpSocket::bind((wires::NAME_SERVER, PORT))).expect("the port is free");
        socket.set_read_timeout(Some(TICK)).expect("a socket can have a timeout");
        set_socket_recv_buffer_size_force(&socket, BUFFER).expect("root may have a large buffer");
        let (of_thread, told) = (zone.clone(), stop.clone());
        std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                answer_datagram(&socket, &of_thread);
            }
        });
        let of_streams = zone.clone();
        let tcp = Server::start(outside, PORT, Arc::new(move |stream, _| answer_stream(stream, &of_streams)));
        let names = Self { zone, stop, _tcp: tcp };
        names.say("ok.test", &[wires::OK, wires::OK_SIX]);
        names.say("*.ok.test", &[wires::OK]);
        names.say("other.test", &[wires::OTHER]);
        names.say("db.test", &[wires::DATABASE]);
        names.say("evil.test", &[wires::EVIL, wires::EVIL_SIX]);
        names.say("*.evil.test", &[wires::EVIL]);
        names
    }

    /// Says what a name means, or `*.` and a name, everything below it.
    pub fn say(&self, name: &str, addresses: &[&str]) {
        self.say_in_turn(name, &[addresses]);
    }

    /// Says what a name means the first time, the second time, and from then on the last.
    pub fn say_in_turn(&self, name: &str, turns: &[&[&str]]) {
        let turns = turns.iter().map(|turn| turn.iter().map(|text| address(text)).collect()).collect();
        locked(&self.zone.turns).insert(name.to_owned(), turns);
    }

    /// Returns the names that were asked for, each as often as it was.
    pub fn asked(&self) -> Vec<String> {
        locked(&self.zone.asked).iter().map(|question| question.name.clone()).collect()
    }

    pub fn clear(&self) {
        locked(&self.zone.asked).clear();
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Zone {
    /// Returns the answer to a query, `None` if it is no query.
    fn reply(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (question, end) = message::question(query)?;
        // How often this very question came before: a resolver asks for both versions at once.
        let mut asked = locked(&self.asked);
        let turn = asked.iter().filter(|earlier| **earlier == question).count();
        asked.push(question.clone());
        drop(asked);
        Some(message::answer(query, end, &self.meaning(&question, turn)))
    }

    fn meaning(&self, question: &Question, turn: usize) -> Answer {
        let turns = locked(&self.turns);
        let above = question.name.split_once('.').map(|(_, above)| format!("*.{above}"));
        let known = turns.get(&question.name).or_else(|| turns.get(&above?));
        match known {
            None => Answer::NoSuchName,
            Some(_) if question.wants_text() => Answer::Text(TEXT.to_owned()),
            Some(turns) => {
                let addresses = turns.get(turn).or(turns.last()).cloned().unwrap_or_default();
                Answer::Addresses(addresses.into_iter().filter(|address| question.wants(address)).collect())
            }
        }
    }
}

fn answer_datagram(socket: &UdpSocket, zone: &Zone) {
    let mut query = [0; 1024];
    let Ok((length, from)) = socket.recv_from(&mut query) else { return };
    let _ = zone.reply(&query[..length]).map(|answer| socket.send_to(&answer, from));
}

fn answer_stream(mut stream: TcpStream, zone: &Zone) {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut query).is_err() {
            return;
        }
        let Some(answer) = zone.reply(&query) else { return };
        let whole = [&(answer.len() as u16).to_be_bytes(), &answer[..]].concat();
        if stream.write_all(&whole).is_err() {
            return;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
