//! Bytes that hold something until they are written. The body of an answer is no place for that: it is dropped when its
//! last bytes are handed over, which is long before a slow client has read them.

use bytes::Bytes;

/// Has bytes hold something until the last who has any of them lets go.
pub fn held_with<T: Send + 'static>(bytes: Bytes, held: T) -> Bytes {
    Bytes::from_owner(Owned { bytes, _held: held })
}

struct Owned<T> {
    bytes: Bytes,
    _held: T,
}

impl<T> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
