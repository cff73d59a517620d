//! The other end: as much of a container engine as a connection needs.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";

/// A socket that answers every client, until the test ends.
#[derive(Debug)]
pub struct Engine {
    directory: TempDir,
}

impl Engine {
    pub fn new() -> Self {
        Self::saying(ANSWER)
    }

    /// Answers with something else.
    pub fn saying(answer: &'static [u8]) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let listener =
            UnixListener::bind(directory.path().join("engine.sock")).expect("the directory is ours");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut question = [0; 256];
                let _ = stream.read(&mut question).and_then(|_| stream.write_all(answer));
            }
        });
        Self { directory }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("engine.sock")
    }
}

/// Asks whatever is behind a socket, and returns its answer.
pub fn ask(socket: &Path) -> String {
    let mut answer = String::new();
    let mut stream = UnixStream::connect(socket).expect("the socket listens");
    stream.write_all(b"GET /_ping HTTP/1.1\r\n\r\n").expect("it reads");
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}
