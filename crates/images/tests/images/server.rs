//! A server that answers as a test wants, and records its requests. For attacks; honest answers come from a real
//! registry.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coracle_images::testing::Image;

/// A request to the server.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    /// Names are in lower case.
    pub headers: BTreeMap<String, String>,
}

/// The server's answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// After how many bytes of the body to cut the connection.
    pub cut: Option<usize>,
    /// After how many bytes of the body to send the rest one by one.
    pub drip: Option<usize>,
}

/// The time between two bytes that are sent one by one.
const DROP: Duration = Duration::from_millis(50);

impl Answer {
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, body: body.into(), ..Self::default() }
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn redirect(location: impl Into<String>) -> Self {
        Self::new(307).header("Location", location)
    }

    pub fn cut(mut self, after: usize) -> Self {
        self.cut = Some(after);
        self
    }

    pub fn drip(mut self, after: usize) -> Self {
        self.drip = Some(after);
        self
    }
}

/// A server on this machine; it answers as long as the test runs.
#[derive(Clone)]
pub struct Server {
    host: String,
    log: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_knowing(|_| answer)
    }

    /// Starts a server whose answers need its own address.
    pub fn start_knowing<F: Fn(&Asked) -> Answer + Send + Sync + 'static>(
        make: impl FnOnce(String) -> F,
    ) -> Self {
        Self::listen("127.0.0.1", make)
    }

    /// Starts a server at an address that other machines can reach.
    pub fn start_at(address: &str, answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::listen(address, |_| answer)
    }

    fn listen<F: Fn(&Asked) -> Answer + Send + Sync + 'static>(
        address: &str,
        make: impl FnOnce(String) -> F,
    ) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("the address is this machine's");
        let host = listener.local_addr().expect("it was just bound").to_string();
        let server = Self { host, log: Arc::default() };
        let answer = Arc::new(make(server.host()));
        let log = Arc::clone(&server.log);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                std::thread::spawn(move || serve(stream, &*answer, &log));
            }
        });
        server
    }

    pub fn host(&self) -> String {
        self.host.clone()
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.log.lock().expect("no thread panicked").clone()
    }

    pub fn asked_for(&self, part: &str) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.path.contains(part)).collect()
    }
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&Asked) -> Answer, log: &Mutex<Vec<Asked>>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    lines.read_line(&mut line).ok()?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut asked = Asked { path, headers: BTreeMap::new() };
    loop {
        line.clear();
        lines.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        asked.headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = asked.headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    lines.take(length).read_to_end(&mut Vec::new()).ok()?;
    log.lock().expect("no thread panicked").push(asked.clone());

    let answer = answer(&asked);
    let headers: String = answer.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let (status, length) = (answer.status, answer.body.len());
    let head =
        format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let sent = &answer.body[..answer.cut.unwrap_or(length).min(length)];
    let (flowing, dripping) = sent.split_at(answer.drip.unwrap_or(length).min(sent.len()));
    stream.write_all(flowing).ok()?;
    dripping.iter().try_for_each(|byte| {
        std::thread::sleep(DROP);
        stream.write_all(&[*byte]).ok()
    })
}

/// Answers like a registry that has one image in every repository.
pub fn registry_of(image: &Image) -> impl Fn(&Asked) -> Answer + Send + Sync + Clone + 'static {
    let manifest = image.manifest_blob();
    let kind = image.manifest["mediaType"].as_str().unwrap_or_default().to_owned();
    let blobs: BTreeMap<String, Vec<u8>> = image
        .layers
        .iter()
        .chain([&image.configuration_blob()])
        .map(|blob| (blob.digest.clone(), blob.bytes.clone()))
        .collect();
    move |asked| {
        if asked.path.contains("/manifests/") {
            return Answer::ok(manifest.bytes.clone()).header("Content-Type", kind.clone());
        }
        let blob = asked.path.rsplit('/').next().and_then(|digest| blobs.get(digest));
        blob.map_or(Answer::new(404), |blob| part(asked, blob))
    }
}

/// Answers with a part of a blob, if the request wants one.
pub fn part(asked: &Asked, blob: &[u8]) -> Answer {
    let range = asked.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
    match range.and_then(|range| range.trim_end_matches('-').parse::<usize>().ok()) {
        None => Answer::ok(blob),
        Some(from) => Answer { status: 206, ..Answer::ok(&blob[from..]) }
            .header("Content-Range", format!("bytes {from}-{}/{}", blob.len() - 1, blob.len())),
    }
}

/// Passes all requests on to a real registry, so that they can be counted.
pub fn proxy(to: String) -> impl Fn(&Asked) -> Answer + Send + Sync + 'static {
    let config = ureq::config::Config::builder().http_status_as_error(false).proxy(None).build();
    let agent = config.new_agent();
    move |asked| {
        let mut request = agent.get(format!("http://{to}{}", asked.path));
        for name in ["accept", "range"] {
            if let Some(value) = asked.headers.get(name) {
                request = request.header(name, value);
            }
        }
        let mut answer = request.call().expect("the registry answers");
        let mut passed = Answer::new(answer.status().as_u16());
        for name in ["content-type", "content-range", "docker-content-digest"] {
            if let Some(value) = answer.headers().get(name).and_then(|value| value.to_str().ok()) {
                passed = passed.header(name, value);
            }
        }
        answer.body_mut().as_reader().read_to_end(&mut passed.body).expect("the registry goes on");
        passed
    }
}
