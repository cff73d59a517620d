//! DNS queries and answers (RFC 1035), as far as a resolver uses them here.

use std::net::IpAddr;

const A: u16 = 1;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const CLASS_IN: u16 = 1;
const NO_SUCH_NAME: u8 = 3;

/// The name and record type that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// In lower case, without the last dot.
    pub name: String,
    pub kind: u16,
}

impl Question {
    /// Tells whether an address is an answer to it.
    pub fn wants(&self, address: &IpAddr) -> bool {
        self.kind == if address.is_ipv4() { A } else { AAAA }
    }

    pub fn wants_text(&self) -> bool {
        self.kind == TXT
    }
}

/// Reads the one question of a query, and returns where it ends.
pub fn question(query: &[u8]) -> Option<(Question, usize)> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*query.get(at)?);
        if length == 0 {
            break;
        }
        let label = query.get(at + 1..at + 1 + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([*query.get(at + 1)?, *query.get(at + 2)?]);
    Some((Question { name: labels.join("."), kind }, at + 5))
}

/// What is answered.
#[derive(Debug)]
pub enum Answer {
    NoSuchName,
    Addresses(Vec<IpAddr>),
    Text(String),
}

/// Writes the answer to a query whose question ends at `end`. Its time to live is zero, so that no resolver caches it.
pub fn answer(query: &[u8], end: usize, answer: &Answer) -> Vec<u8> {
    let (code, records) = match answer {
        Answer::NoSuchName => (NO_SUCH_NAME, Vec::new()),
        Answer::Addresses(addresses) => (0, addresses.iter().map(address_record).collect()),
        Answer::Text(text) => (0, vec![(TXT, text_data(text))]),
    };
    let mut message = query[..2].to_vec();
    // A response, recursion desired and available.
    message.extend([0x81, 0x80 | code, 0, 1]);
    message.extend((records.len() as u16).to_be_bytes());
    message.extend([0, 0, 0, 0]);
    message.extend(&query[12..end]);
    for (kind, data) in records {
        // The name is the one at byte 12.
        message.extend([0xc0, 12]);
        message.extend([kind.to_be_bytes(), CLASS_IN.to_be_bytes()].concat());
        message.extend([0; 4]);
        message.extend((data.len() as u16).to_be_bytes());
        message.extend(data);
    }
    message
}

fn address_record(address: &IpAddr) -> (u16, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (A, address.octets().to_vec()),
        IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
    }
}

fn text_data(text: &str) -> Vec<u8> {
    let text = &text.as_bytes()[..text.len().min(255)];
    [&[text.len() as u8], text].concat()
}
