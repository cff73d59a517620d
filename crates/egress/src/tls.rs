//! Finds the server name in a TLS client's first message, without speaking TLS.

use coracle_core::network::Host;

/// No honest ClientHello is longer, post-quantum keys included.
pub const HELLO_MAX: usize = 16 << 10;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// The most one record carries.
const RECORD_MAX: usize = 1 << 14;

/// What the beginning of a client's stream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// More bytes have to come.
    Short,
    /// Not a ClientHello, or a malformed one.
    Foreign,
    /// It names a server, or none; an invalid name is `Err`.
    Named(Option<Result<Host, Vec<u8>>>),
}

/// Reads the ClientHello at the beginning of a stream, however it is split into records.
pub fn hello(bytes: &[u8]) -> Hello {
    match message(bytes) {
        Err(Cut::Short) if bytes.len() < HELLO_MAX => Hello::Short,
        Err(Cut::Short | Cut::Foreign) => Hello::Foreign,
        Ok(message) => match server_name(&message) {
            Some(name) => Hello::Named(name.map(|name| Host::read(&name).map_err(|_| name))),
            None => Hello::Foreign,
        },
    }
}

enum Cut {
    Short,
    Foreign,
}

/// Joins the handshake message from its records.
fn message(mut bytes: &[u8]) -> Result<Vec<u8>, Cut> {
    let mut message = Vec::new();
    loop {
        match bytes {
            [kind, ..] if *kind != HANDSHAKE => return Err(Cut::Foreign),
            [_, major, ..] if *major != 3 => return Err(Cut::Foreign),
            [_, _, _, high, low, rest @ ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                if length == 0 || length > RECORD_MAX {
                    return Err(Cut::Foreign);
                }
                let fragment = &rest[..length.min(rest.len())];
                message.extend_from_slice(fragment);
                if let [kind, ..] = message[..]
                    && kind != CLIENT_HELLO
                {
                    return Err(Cut::Foreign);
                }
                if let [_, a, b, c, body @ ..] = &message[..] {
                    let whole = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
                    if whole > HELLO_MAX {
                        return Err(Cut::Foreign);
                    }
                    if body.len() >= whole {
                        return Ok(body[..whole].to_vec());
                    }
                }
                bytes = rest.get(length..).ok_or(Cut::Short)?;
            }
            _ => return Err(Cut::Short),
        }
    }
}

/// Returns the name; `Some(None)` if there is none, `None` if the message is malformed.
fn server_name(body: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut body = Reader(body);
    body.take(2 + 32)?;
    body.vector8()?;
    body.vector16()?;
    body.vector8()?;
    if body.0.is_empty() {
        return Some(None);
    }
    let mut extensions = body.vector16()?;
    body.0.is_empty().then_some(())?;
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number16()?;
        let data = extensions.vector16()?;
        if kind == SERVER_NAME {
            // With two names the proxy could read one and the server the other.
            name.is_none().then_some(())?;
            name = Some(only_name(data)?);
        }
    }
    Some(name)
}

fn only_name(mut data: Reader<'_>) -> Option<Vec<u8>> {
    let mut list = data.vector16()?;
    let kind = list.take(1)?;
    let name = list.vector16()?;
    let alone = data.0.is_empty() && list.0.is_empty() && kind == [HOST_NAME];
    alone.then(|| name.0.to_vec())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn vector8(&mut self) -> Option<Reader<'a>> {
        let length = usize::from(*self.take(1)?.first()?);
        self.take(length).map(Reader)
    }

    fn vector16(&mut self) -> Option<Reader<'a>> {
        let length = usize::from(self.number16()?);
        self.take(length).map(Reader)
    }
}
