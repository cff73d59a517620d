//! The unpacker's reports to the host. The host must not trust them more than the layer itself.

use std::io::{self, Read, Write};

use crate::refusal::{Reason, Refusal};

/// The longest text of a refusal.
const TEXT_MAX: usize = 1 << 10;

/// One message to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// How many bytes of the layer were read.
    Progress(u64),
    /// The layer is complete. The last message.
    Done(Outcome),
    /// The unpacker refused the layer. The last message.
    Refused(Refusal),
}

/// An unpacked layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// SHA-256 of the decompressed archive.
    pub diff_id: [u8; 32],
    pub entries: u64,
    /// Bytes of file content.
    pub bytes: u64,
    /// How many entries were left out: devices and bookkeeping.
    pub skipped: u64,
    /// How many extended attributes were left out.
    pub stripped: u64,
}

impl Report {
    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        let (kind, payload) = match self {
            Report::Progress(bytes) => (0, bytes.to_le_bytes().to_vec()),
            Report::Done(outcome) => (1, outcome.encode()),
            Report::Refused(refusal) => {
                let text = refusal.text.as_bytes();
                (2, [&[reason_number(refusal.reason)], &text[..text.len().min(TEXT_MAX)]].concat())
            }
        };
        to.write_all(&[&[kind], (payload.len() as u16).to_le_bytes().as_slice(), &payload].concat())
    }

    pub fn read(from: &mut dyn Read) -> io::Result<Self> {
        let mut head = [0; 3];
        from.read_exact(&mut head)?;
        let length = usize::from(u16::from_le_bytes([head[1], head[2]]));
        if length > TEXT_MAX + 1 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        decode(head[0], &payload).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn decode(kind: u8, payload: &[u8]) -> Option<Report> {
    match kind {
        0 => Some(Report::Progress(u64::from_le_bytes(payload.try_into().ok()?))),
        1 => Outcome::decode(payload).map(Report::Done),
        2 => {
            let (reason, text) = payload.split_first()?;
            // The text goes to terminals.
            let text = String::from_utf8_lossy(text).replace(char::is_control, "?");
            Some(Report::Refused(Refusal { reason: reason_of(*reason)?, text }))
        }
        _ => None,
    }
}

impl Outcome {
    fn encode(&self) -> Vec<u8> {
        let numbers = [self.entries, self.bytes, self.skipped, self.stripped];
        self.diff_id.into_iter().chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect()
    }

    fn decode(payload: &[u8]) -> Option<Self> {
        let (diff_id, numbers) = payload.split_first_chunk::<32>()?;
        let numbers: Vec<u64> =
            numbers.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let [entries, bytes, skipped, stripped] = numbers.try_into().ok()?;
        Some(Self { diff_id: *diff_id, entries, bytes, skipped, stripped })
    }
}

const REASONS: [Reason; 4] = [Reason::Malformed, Reason::Limit, Reason::Unsupported, Reason::Machine];

fn reason_number(reason: Reason) -> u8 {
    REASONS.iter().position(|other| *other == reason).map_or(0, |index| index as u8)
}

fn reason_of(number: u8) -> Option<Reason> {
    REASONS.get(usize::from(number)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_being_sent() {
        let outcome = Outcome { diff_id: [7; 32], entries: 1, bytes: 2, skipped: 3, stripped: 4 };
        for report in
            [Report::Progress(9), Report::Done(outcome), Report::Refused(Refusal::unsupported("a reason"))]
        {
            let mut bytes = Vec::new();
            report.write(&mut bytes).expect("writes to memory");

            assert_eq!(Report::read(&mut bytes.as_slice()).expect("reads from memory"), report);
        }
    }

    #[test]
    fn text_from_a_layer_cannot_steer_a_terminal() {
        let mut bytes = Vec::new();
        Report::Refused(Refusal::malformed("\x1b[2J")).write(&mut bytes).expect("writes to memory");

        let Ok(Report::Refused(refusal)) = Report::read(&mut bytes.as_slice()) else {
            panic!("is a refusal")
        };

        assert_eq!(refusal.text, "?[2J");
    }
}
