//! Bytes that keep a value alive until they are written to the socket. hyper drops the body of an answer when it has
//! taken the last bytes, long before a slow client has read them, so the body cannot hold the value.

use bytes::Bytes;

/// Returns bytes that keep `held` alive until the last reference to any of them is dropped.
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
