//! How a guest that ends by itself says why: one byte in a file the host gave it, or its exit code where a
//! container engine keeps that. Guests started by an older coracle leave no byte, and exit with 0 when they were
//! idle.

/// Why a guest ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was idle for its whole `ttl`.
    Idle,
    /// The connection it was tied to has ended.
    Untied,
    /// It was idle for its whole `ttl`, and wrote all files to the disk before it said so.
    Asleep,
}

impl End {
    const ALL: [Self; 3] = [Self::Idle, Self::Untied, Self::Asleep];

    pub fn as_byte(self) -> u8 {
        match self {
            Self::Idle => 1,
            Self::Untied => 2,
            Self::Asleep => 3,
        }
    }

    /// Returns what the file says: nothing while the guest runs, or if something else ended it.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.as_byte() == byte)
    }

    pub fn exit_code(self) -> i32 {
        match self {
            Self::Idle => 0,
            Self::Untied => 3,
            Self::Asleep => 4,
        }
    }

    /// Returns what an exit code says. Any other code is that of a guest that failed or was killed.
    pub fn from_exit_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|end| i64::from(end.exit_code()) == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_saying_it_are_read_back() {
        for end in End::ALL {
            assert_eq!(End::from_byte(end.as_byte()), Some(end));
            assert_eq!(End::from_exit_code(end.exit_code().into()), Some(end));
        }
        // An empty file, a failed guest, a killed one.
        assert_eq!((End::from_byte(0), End::from_exit_code(1), End::from_exit_code(137)), (None, None, None));
    }
}
