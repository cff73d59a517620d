//! Parses HTTP requests as a forgiving server does, so that it understands everything a proxy lets through by mistake.

use std::io::{self, BufRead, Read};

/// Enough for every body tests send, and then some.
const BODY_MAX: u64 = 1 << 20;

/// One request, as it arrived.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub head: String,
    pub body: Vec<u8>,
}

impl Request {
    /// Reads the next request of a connection; `None` at its end.
    pub fn read(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = String::new();
        loop {
            let mut line = Vec::new();
            if stream.read_until(b'\n', &mut line)? == 0 {
                return Ok((!head.is_empty()).then_some(Self { head, body: Vec::new() }));
            }
            head.push_str(&String::from_utf8_lossy(&line));
            if line == b"\r\n" || line == b"\n" {
                break;
            }
        }
        let mut request = Self { head, body: Vec::new() };
        request.body = request.read_body(stream)?;
        Ok(Some(request))
    }

    fn read_body(&self, stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
        if self.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            return read_chunks(stream);
        }
        let length = self.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = Vec::new();
        stream.take(u64::min(length, BODY_MAX)).read_to_end(&mut body)?;
        Ok(body)
    }

    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    /// Returns what follows the method: a path, or a whole address.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the first header of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut found = headers.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    }
}

fn read_chunks(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let size = line.trim().split(';').next().unwrap_or_default();
        let size = u64::from_str_radix(size, 16).unwrap_or(0).min(BODY_MAX);
        let mut chunk = Vec::new();
        stream.take(size + 2).read_to_end(&mut chunk)?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&chunk[..usize::try_from(size).unwrap_or(0).min(chunk.len())]);
    }
}
