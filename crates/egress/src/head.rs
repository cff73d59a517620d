//! Reads the head of a request to the proxy strictly: refuses what two readers could take for different requests.
//!
//! The proxy writes the head it passes on anew from what it read here, so the server sees the request that was
//! judged.

use coracle_core::network::rule::{WEB, split_port};
use coracle_core::network::{Host, name};

use crate::weak;

/// No honest head is longer. The proxy refuses a longer one before it keeps more.
pub const HEAD_MAX: usize = 16 << 10;
const FIELDS_MAX: usize = 100;
/// Fields that concern one connection alone.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "upgrade",
    "host",
];
/// Fields that `Connection` must not list for removal: what follows the head depends on them.
const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "host"];

/// A request without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub method: String,
    pub target: Target,
    pub version: Version,
    fields: Vec<(String, Vec<u8>)>,
    pub body: Body,
    /// The protocol the client wants to switch to.
    pub upgrade: Option<Vec<u8>>,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `CONNECT host:port`.
    Tunnel(Authority),
    /// `GET http://host/path`.
    Absolute(Authority, String),
    /// `GET /path`, on a connection to a known host; `Host` names it again.
    Origin(Option<Authority>, String),
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    pub host: Host,
    pub port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// How to find the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    Length(u64),
    Chunked,
}

/// Why a head was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Odd {
    #[error("the request is ambiguous: {0}")]
    Ambiguous(&'static str),
    /// It names an invalid host.
    #[error("the request names no valid host")]
    Host { written: String, port: u16 },
    #[error("the request names `{host}` in its `Host` field and another host in its first line")]
    Mismatch { host: String, authority: Authority },
}

/// Returns the length of the head, once it is complete.
pub fn length(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Tells whether bytes begin like an HTTP/1 request.
pub fn may_be_http(bytes: &[u8]) -> bool {
    let word = bytes.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    word > 0 && bytes.get(word).is_none_or(|byte| *byte == b' ')
}

/// How much the beginning of a stream looks like a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resemblance {
    None,
    /// The rest of the line decides.
    Beginning,
    Request,
}

/// Tells whether a stream of unknown kind begins with a request, as lenient servers would read it: with empty lines
/// in front and bare line feeds. [`Head::read`] decides whether the proxy passes it on.
pub fn resemblance(bytes: &[u8]) -> Resemblance {
    let start = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let rest = &bytes[start..];
    match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = rest[..end].trim_ascii_end();
            let version = line.len().checked_sub(8).map(|at| &line[at..]);
            match version.is_some_and(|version| version.to_ascii_uppercase().starts_with(b"HTTP/1.")) {
                true => Resemblance::Request,
                false => Resemblance::None,
            }
        }
        None if bytes.len() < HEAD_MAX && (rest.is_empty() || may_be_http(rest)) => Resemblance::Beginning,
        None => Resemblance::None,
    }
}

/// Tells whether bytes begin with a well-known method; the proxy then waits for the rest.
pub fn has_known_method(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 8] =
        [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"TRACE "];
    METHODS.iter().any(|method| bytes.starts_with(method))
}

impl Head {
    /// Reads a complete head, its empty line included.
    pub fn read(bytes: &[u8]) -> Result<Self, Odd> {
        let text = bytes.strip_suffix(b"\r\n\r\n").ok_or(Odd::Ambiguous("it has no end"))?;
        let text = std::str::from_utf8(text).map_err(|_| Odd::Ambiguous("it is not ASCII"))?;
        let mut lines = text.split("\r\n");
        let (method, target, version) = first_line(lines.next().unwrap_or_default())?;
        let fields = lines.map(field).collect::<Result<Vec<_>, _>>()?;
        if fields.len() > FIELDS_MAX {
            return Err(Odd::Ambiguous("it has too many fields"));
        }
        let body = body(&fields, version)?;
        let mut head = Self { method, target, version, upgrade: upgrade(&fields)?, fields, body };
        head.settle_host()?;
        Ok(head)
    }

    /// Returns the only field of a name, or `None` if there is none.
    fn only(&self, name: &str) -> Result<Option<&[u8]>, Odd> {
        only(&self.fields, name)
    }

    /// Checks that `Host` and the first line name the same host.
    fn settle_host(&mut self) -> Result<(), Odd> {
        let named = self.only("host")?.map(|value| authority(value, WEB)).transpose()?;
        if named.is_none() && self.version == Version::Http11 && !matches!(self.target, Target::Tunnel(_)) {
            return Err(Odd::Ambiguous("it has no `Host` field"));
        }
        let known = match &mut self.target {
            Target::Origin(known, _) => {
                *known = named;
                return Ok(());
            }
            Target::Tunnel(known) | Target::Absolute(known, _) => known,
        };
        match named {
            // Some clients write the port of a tunnel there and some leave it out.
            Some(named) if named.host != known.host => {
                Err(Odd::Mismatch { host: named.host.to_string(), authority: known.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the head the server gets: for one request on one connection, to exactly this host.
    pub fn rewritten(&self, authority: &Authority) -> Vec<u8> {
        let path = match &self.target {
            Target::Absolute(_, path) | Target::Origin(_, path) => path.as_str(),
            Target::Tunnel(_) => "/",
        };
        let version = match self.version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        let mut head = format!("{} {path} HTTP/{version}\r\n", self.method).into_bytes();
        let host = match authority.port {
            WEB => authority.host.to_string(),
            port => format!("{}:{port}", authority.host),
        };
        let mut add = |name: &str, value: &[u8]| {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        };
        add("Host", host.as_bytes());
        let listed = self.listed();
        for (name, value) in &self.fields {
            if !HOP_BY_HOP.contains(&name.as_str()) && !listed.contains(name) {
                add(name, value);
            }
        }
        match &self.upgrade {
            Some(protocol) => {
                add("Connection", b"upgrade");
                add("Upgrade", protocol);
            }
            None => add("Connection", b"close"),
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// Returns the names that `Connection` lists.
    fn listed(&self) -> Vec<String> {
        words(&self.fields, "connection").collect()
    }
}

fn first_line(line: &str) -> Result<(String, Target, Version), Odd> {
    let odd = Odd::Ambiguous("its first line is not `METHOD TARGET HTTP/1.1`");
    let words: Vec<_> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return Err(odd) };
    let version = match version {
        "HTTP/1.1" => Version::Http11,
        "HTTP/1.0" => Version::Http10,
        _ => return Err(odd),
    };
    let visible = target.bytes().all(|byte| byte.is_ascii_graphic()) && !target.contains('#');
    if method.is_empty() || !method.bytes().all(is_token) || !visible {
        return Err(odd);
    }
    let target = match method {
        "CONNECT" => Target::Tunnel(authority(target.as_bytes(), 0)?),
        _ => address(target)?,
    };
    match &target {
        Target::Tunnel(Authority { port: 0, .. }) => Err(Odd::Ambiguous("it names no port")),
        _ => Ok((method.to_owned(), target, version)),
    }
}

fn address(target: &str) -> Result<Target, Odd> {
    if target.starts_with('/') || target == "*" {
        return Ok(Target::Origin(None, target.to_owned()));
    }
    let scheme = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let rest = scheme.map(|_| &target[7..]).ok_or(Odd::Ambiguous("its address is not `http://…`"))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let path = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/{path}"),
    };
    Ok(Target::Absolute(authority(host.as_bytes(), WEB)?, path))
}

/// Reads `HOST[:PORT]`.
fn authority(bytes: &[u8], default: u16) -> Result<Authority, Odd> {
    let odd = |port| Odd::Host { written: String::from_utf8_lossy(bytes).into_owned(), port };
    let text = std::str::from_utf8(bytes).map_err(|_| odd(default))?;
    let (host, port) = split_port(text).map_err(|name::Odd| odd(default))?;
    let port = port.unwrap_or(default);
    let host = host.parse().or_else(|name::Odd| weak::misread(host.as_bytes()).ok_or_else(|| odd(port)))?;
    Ok(Authority { host, port })
}

fn field(line: &str) -> Result<(String, Vec<u8>), Odd> {
    // A line that begins with a space would continue the one before it.
    let (name, value) = line.split_once(':').ok_or(Odd::Ambiguous("a field has no colon"))?;
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(Odd::Ambiguous("a field has an odd name"));
    }
    let value = value.trim_matches([' ', '\t']);
    match value.chars().any(|character| character.is_control() && character != '\t') {
        true => Err(Odd::Ambiguous("a field holds a control character")),
        false => Ok((name.to_ascii_lowercase(), value.as_bytes().to_vec())),
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn only<'a>(fields: &'a [(String, Vec<u8>)], name: &str) -> Result<Option<&'a [u8]>, Odd> {
    let mut found = fields.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_slice());
    let first = found.next();
    match found.next() {
        Some(_) => Err(Odd::Ambiguous("a field that must be unique appears twice")),
        None => Ok(first),
    }
}

fn body(fields: &[(String, Vec<u8>)], version: Version) -> Result<Body, Odd> {
    let length = only(fields, "content-length")?;
    let coding = only(fields, "transfer-encoding")?;
    match (length, coding) {
        (None, None) => Ok(Body::Length(0)),
        (Some(_), Some(_)) => Err(Odd::Ambiguous("it has two lengths")),
        (Some(length), None) => {
            let digits = (1..=18).contains(&length.len()) && length.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
            length.filter(|_| digits).map(Body::Length).ok_or(Odd::Ambiguous("its length is no number"))
        }
        (None, Some(coding)) => match coding.eq_ignore_ascii_case(b"chunked") && version == Version::Http11 {
            true => Ok(Body::Chunked),
            false => Err(Odd::Ambiguous("its transfer coding is not HTTP/1.1's `chunked`")),
        },
    }
}

/// Returns the protocol the client wants to switch to, if both fields say so.
fn upgrade(fields: &[(String, Vec<u8>)]) -> Result<Option<Vec<u8>>, Odd> {
    if words(fields, "connection").any(|word| FRAMING.contains(&word.as_str())) {
        return Err(Odd::Ambiguous("`Connection` lists a field that must not be removed"));
    }
    let wanted = words(fields, "connection").any(|word| word == "upgrade");
    let protocol = only(fields, "upgrade")?;
    // HTTP/2 would carry requests that the proxy cannot read.
    let h2 = protocol.is_some_and(|protocol| protocol.to_ascii_lowercase().starts_with(b"h2"));
    match wanted && !h2 {
        true => Ok(protocol.map(<[u8]>::to_vec)),
        false => Ok(None),
    }
}

fn words<'a>(fields: &'a [(String, Vec<u8>)], name: &'a str) -> impl Iterator<Item = String> + 'a {
    let values = fields.iter().filter(move |(own, _)| own == name).map(|(_, value)| value);
    values.flat_map(|value| {
        let text = String::from_utf8_lossy(value).to_ascii_lowercase();
        text.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>()
    })
}
