//! A small HTTP client that changes nothing: it sends the bytes it is given and returns the bytes it gets.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

/// Longer than anything that is waited for here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a daemon listens.
#[derive(Debug, Clone)]
pub enum DaemonAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// One end of a connection.
pub trait Stream: Read + Write + Send + std::fmt::Debug {}
impl<S: Read + Write + Send + std::fmt::Debug> Stream for S {}

impl DaemonAddress {
    /// Connects, for tests that write every byte themselves.
    pub fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Ok(Box::new(stream))
            }
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Ok(Box::new(stream))
            }
        }
    }

    fn host(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".to_owned(),
            Self::Tcp(address) => address.to_string(),
        }
    }
}

/// A request to be made.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// Returns the value of `Authorization` for a name and a password.
pub fn basic(name: &str, password: &str) -> String {
    use base64::Engine;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}")))
}

impl Request {
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub fn delete(path: &str) -> Self {
        Self::new("DELETE", path)
    }

    /// A POST of JSON.
    pub fn post(path: &str, body: &Value) -> Self {
        Self::new("POST", path).header("Content-Type", "application/json").body(body.to_string())
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends it on a connection of its own and reads the whole answer.
    #[track_caller]
    pub fn send(&self, address: &DaemonAddress) -> Answer {
        self.open(address).unwrap_or_else(|error| panic!("{} {}: {error}", self.method, self.path)).whole()
    }

    /// The same, where no server may be listening.
    pub fn try_send(&self, address: &DaemonAddress) -> Option<Answer> {
        let mut opened = self.open(address).ok()?;
        let body = opened.try_rest().ok()?;
        Some(Answer { status: opened.status, headers: opened.headers, body })
    }

    /// Sends it and reads the head of the answer; the body comes as it comes.
    pub fn open(&self, address: &DaemonAddress) -> io::Result<Opened> {
        let mut stream = address.connect()?;
        stream.write_all(&self.head(&address.host(), "close"))?;
        // A server that refuses a request by its head need not read the rest of it.
        let _ = stream.write_all(&self.body);
        Opened::read(BufReader::new(stream))
    }

    /// Returns the bytes of the request, for tests that send them themselves.
    pub fn bytes(&self, address: &DaemonAddress) -> Vec<u8> {
        let mut bytes = self.head(&address.host(), "close");
        bytes.extend_from_slice(&self.body);
        bytes
    }

    fn head(&self, host: &str, connection: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let given = |name: &str| self.headers.iter().any(|(one, _)| one.eq_ignore_ascii_case(name));
        if !given("host") {
            head.push_str(&format!("Host: {host}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !given("content-length") && !given("transfer-encoding") {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str(&format!("Connection: {connection}\r\n\r\n"));
        head.into_bytes()
    }
}

/// A connection for one request after the other.
#[derive(Debug)]
pub struct Line {
    host: String,
    stream: Option<BufReader<Box<dyn Stream>>>,
}

impl Line {
    pub fn open(address: &DaemonAddress) -> io::Result<Self> {
        Ok(Self { host: address.host(), stream: Some(BufReader::new(address.connect()?)) })
    }

    /// Sends a request and reads the whole answer.
    pub fn send(&mut self, request: &Request) -> io::Result<Answer> {
        let mut stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        // In one write, as clients do: the other side need not wake up twice.
        let mut whole = request.head(&self.host, "keep-alive");
        whole.extend_from_slice(&request.body);
        stream.get_mut().write_all(&whole)?;
        let mut opened = Opened::read(stream)?;
        let body = opened.try_rest()?;
        self.stream = Some(opened.stream);
        Ok(Answer { status: opened.status, headers: opened.headers, body })
    }
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub struct Opened {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    stream: BufReader<Box<dyn Stream>>,
    chunked: bool,
    /// Bytes left of the body, or of the present chunk of it.
    left: Option<usize>,
}

impl Opened {
    /// Reads the head of an answer.
    fn read(mut stream: BufReader<Box<dyn Stream>>) -> io::Result<Self> {
        let status = line(&mut stream)?;
        let bad = || io::Error::other(format!("no status line: {status:?}"));
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(bad)?;
        let mut headers = Vec::new();
        loop {
            let header = line(&mut stream)?;
            let Some((name, value)) = header.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let find = |name: &str| headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.clone());
        let chunked = find("transfer-encoding").is_some_and(|value| value == "chunked");
        let left = find("content-length").and_then(|value| value.parse().ok());
        Ok(Self { status: code, headers, stream, chunked, left: if chunked { Some(0) } else { left } })
    }

    /// Reads the rest of the answer.
    pub fn whole(mut self) -> Answer {
        let body = self.try_rest().expect("the body comes to its end");
        Answer { status: self.status, headers: self.headers, body }
    }

    fn try_rest(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        self.read_to_end(&mut body)?;
        Ok(body)
    }

    /// Returns the next server-sent event; nothing at the end of the stream, however it came.
    pub fn event(&mut self) -> Option<Event> {
        let mut event = Event::default();
        let mut text = Vec::new();
        let mut byte = [0];
        loop {
            if self.read(&mut byte).ok()? == 0 {
                return None;
            }
            if byte[0] != b'\n' {
                text.push(byte[0]);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut text)).into_owned();
            match line.split_once(": ") {
                Some(("id", id)) => event.id = id.to_owned(),
                Some(("event", name)) => event.name = name.to_owned(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap_or_default(),
                _ if line.is_empty() && !event.name.is_empty() => return Some(event),
                _ => {}
            }
        }
    }
}

impl Read for Opened {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.chunked && self.left == Some(0) {
            let mut size = line(&mut self.stream)?;
            if size.is_empty() {
                size = line(&mut self.stream)?;
            }
            let count = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
            self.left = (count > 0).then_some(count);
            self.chunked = count > 0;
            if count == 0 {
                // The empty line behind the last chunk: another answer may follow.
                line(&mut self.stream)?;
                self.left = Some(0);
            }
        }
        let room = self.left.unwrap_or(into.len()).min(into.len());
        if room == 0 {
            // Reading nothing would wait for something.
            return Ok(0);
        }
        let count = self.stream.read(&mut into[..room])?;
        if let Some(left) = &mut self.left {
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            *left -= count;
        }
        Ok(count)
    }
}

/// One server-sent event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event {
    pub id: String,
    pub name: String,
    pub data: Value,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert!(self.status == status, "expected {status}: {self}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {self}"))
    }

    /// Returns the kind of the error it tells of.
    #[track_caller]
    pub fn kind(&self) -> String {
        self.json()["error"]["kind"].as_str().unwrap_or_else(|| panic!("no error: {self}")).to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let head = &self.body[..self.body.len().min(2048)];
        write!(f, "{} {:?} {}", self.status, self.headers, String::from_utf8_lossy(head))
    }
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}
