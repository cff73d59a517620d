//! Writes new objects as a pack, which git's own `receive-pack` takes in and checks.

use std::io;

use coracle_porter::Failed;
use gix_object::Kind;

/// Writes the objects, each whole.
pub fn pack<'a>(objects: impl ExactSizeIterator<Item = (Kind, &'a [u8])>) -> Result<Vec<u8>, Failed> {
    let written = || -> io::Result<Vec<u8>> {
        let mut bytes = b"PACK\0\0\0\x02".to_vec();
        bytes.extend((objects.len() as u32).to_be_bytes());
        for (kind, data) in objects {
            bytes.extend(head(kind, data.len()));
            let mut packed = gix_zlib::stream::deflate::Write::new(bytes, gix_zlib::Compression::BEST_SPEED);
            io::Write::write_all(&mut packed, data)?;
            io::Write::flush(&mut packed)?;
            bytes = packed.into_inner();
        }
        let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
        hasher.update(&bytes);
        let sum = hasher.try_finalize().map_err(io::Error::other)?;
        bytes.extend(sum.as_slice());
        Ok(bytes)
    };
    written().map_err(|error| Failed::broken("write a pack", error))
}

/// Returns the kind and the size of an object, in the pack's own notation.
fn head(kind: Kind, size: usize) -> Vec<u8> {
    let number = match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let (mut byte, mut rest) = (number << 4 | (size & 0xf) as u8, size >> 4);
    let mut bytes = Vec::new();
    while rest > 0 {
        bytes.push(byte | 0x80);
        (byte, rest) = ((rest & 0x7f) as u8, rest >> 7);
    }
    bytes.push(byte);
    bytes
}
