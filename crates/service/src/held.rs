//! Bytes that hold something until they are written. hyper drops the body of an answer when it has taken the last bytes,
//! long before a slow client has read them, so the body cannot hold it.

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
