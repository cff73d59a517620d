//! As much of the container engines' API as the harness needs: one request on one connection.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// An answer that takes longer is a fault of the engine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks an engine, and returns the body of its answer if that is a good one.
pub fn ask(socket: &Path, method: &str, path: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // In this version of the protocol an answer ends with its connection.
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/x-tar\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    match stream.write_all(body) {
        // It has answered without reading the rest, and the answer says why.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or_else(|| io::Error::other("the answer has no end of its head"))?;
    let status = answer.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let body = answer[end + 4..].to_vec();
    match status.first() {
        Some(b'2') => Ok(body),
        _ => Err(io::Error::other(format!("{method} {path}: {}", String::from_utf8_lossy(&answer)))),
    }
}

/// Asks an engine for a document.
pub fn document(socket: &Path, path: &str) -> io::Result<Value> {
    Ok(serde_json::from_slice(&ask(socket, "GET", path, b"")?)?)
}

/// Writes a text so that it can be part of a path.
pub fn escaped(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let write = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(write).collect()
}
