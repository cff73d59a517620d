//! The control socket of a keeper: one line in, one word back. The socket is in a directory no other user may
//! enter.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use coracle_core::Network;
use coracle_core::home::short_path;

const SOCKET: &str = "control";
const END: &str = "end";
const DONE: &[u8] = b"ok\n";
const REFUSED: &[u8] = b"no\n";
/// The longest list of rules, printed.
const LINE_MAX: u64 = 128 << 10;
/// A keeper answers at once, unless the machine is very busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between attempts to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// What can be asked of a keeper.
pub trait KeeperControl {
    /// Narrows the network to at most this one. Returns `false` if it cannot.
    fn hold(&self, network: Network) -> bool;
    fn end(&self);
    fn is_over(&self) -> bool;
}

/// Makes the socket. Replaces the socket of a dead keeper: the caller holds the lock.
pub fn listen(directory: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(directory.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(short_path(&File::open(directory)?, SOCKET))
}

/// Answers until the keeper ends. One caller at a time: there is little to ask, and each answer is immediate.
pub fn serve(listener: &UnixListener, keeper: &dyn KeeperControl) {
    while !keeper.is_over() {
        let Ok((stream, _)) = listener.accept() else {
            // Most likely out of descriptors: the clients that have them go on, and some of them will end.
            std::thread::sleep(PAUSE);
            continue;
        };
        // A malformed or empty question gets no answer.
        let _ = answer(&stream, keeper);
    }
}

fn answer(stream: &UnixStream, keeper: &dyn KeeperControl) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).take(LINE_MAX).read_line(&mut line)?;
    let line = line.strip_suffix('\n').ok_or(io::ErrorKind::InvalidData)?;
    if line == END {
        keeper.end();
        return (&*stream).write_all(DONE);
    }
    let network = line.parse::<Network>().map_err(|_| io::ErrorKind::InvalidData)?;
    (&*stream).write_all(if keeper.hold(network) { DONE } else { REFUSED })
}

/// Has the keeper narrow its network to at most this one. Returns `false` if it cannot, and an error if there is no
/// keeper.
pub fn hold(directory: &Path, network: &Network) -> io::Result<bool> {
    ask(directory, &network.to_string())
}

/// Ends the keeper, if there is one.
pub fn end(directory: &Path) -> io::Result<()> {
    ask(directory, END).map(drop)
}

fn ask(directory: &Path, line: &str) -> io::Result<bool> {
    let directory = File::open(directory)?;
    let stream = UnixStream::connect(short_path(&directory, SOCKET))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    (&stream).write_all(format!("{line}\n").as_bytes())?;
    let mut word = [0; DONE.len()];
    (&stream).read_exact(&mut word)?;
    Ok(word == DONE)
}
