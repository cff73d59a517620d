//! Bodies git has compressed: it does that with long lists of what it wants and has.

use std::io::{self, Write};

use axum::http::{HeaderMap, header};
use coracle::{Error, Kind};
use coracle_service::reply::Refusal;
use flate2::write::GzDecoder;

/// How much is unpacked at once: a part of a bomb grows a thousandfold.
pub const PART: usize = 1 << 10;
/// The most a compressed body may unpack to: a million ids. Packs come as they are.
const UNPACKED_MAX: u64 = 64 << 20;

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Plain,
    Gzip,
}

/// Returns how the body of a request is written, or refuses it.
pub fn is_used(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    match headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"identity") => Ok(Encoding::Plain),
        Some(b"gzip" | b"x-gzip") => Ok(Encoding::Gzip),
        Some(_) => {
            Err(Error::new(Kind::Invalid, "the `Content-Encoding` of the request is not `gzip`").into())
        }
    }
}

/// Unpacks a body piece by piece.
#[derive(Debug)]
pub struct Gunzip {
    decoder: GzDecoder<Vec<u8>>,
    left: u64,
}

impl Default for Gunzip {
    fn default() -> Self {
        Self { decoder: GzDecoder::new(Vec::new()), left: UNPACKED_MAX }
    }
}

impl Gunzip {
    /// Returns what a piece unpacks to. Fails where that is too much in all.
    pub fn take(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        self.decoder.write_all(piece)?;
        self.decoder.flush()?;
        let unpacked = std::mem::take(self.decoder.get_mut());
        self.left = self.left.checked_sub(unpacked.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(unpacked)
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("packed");
        encoder.finish().expect("packed")
    }

    #[test]
    fn what_was_packed_is_unpacked_in_pieces() {
        let text: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        let mut gunzip = Gunzip::default();

        let unpacked: Vec<u8> =
            packed(&text).chunks(PART).flat_map(|part| gunzip.take(part).expect("unpacked")).collect();

        assert!(unpacked == text);
    }

    #[test]
    fn a_bomb_ends_at_the_bound() {
        let bomb = packed(&vec![0; UNPACKED_MAX as usize + (4 << 20)]);
        let mut gunzip = Gunzip::default();

        let most = bomb.chunks(PART).map(|part| gunzip.take(part).map(|unpacked| unpacked.len()));
        let sizes: io::Result<Vec<usize>> = most.collect();

        assert!(sizes.is_err());
    }
}
