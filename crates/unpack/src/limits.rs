//! How much of a layer the unpacker accepts.

/// Longest name of an entry, and of a link's target: the kernel's own bound, with its closing NUL.
pub const PATH_MAX: usize = 4095;

/// Longest part of a name.
pub const COMPONENT_MAX: usize = 255;

/// Largest PAX header. The longest honest ones hold an access list or a certificate chain in attributes.
pub const PAX_MAX: u64 = 1 << 20;

/// Longest name or target in a separate entry, as GNU tar writes them.
pub const LONG_NAME_MAX: u64 = PATH_MAX as u64 + 1;

/// Most extended attributes of one entry, and the longest value the kernel accepts.
pub const ATTRIBUTES_MAX: usize = 64;
pub const ATTRIBUTE_VALUE_MAX: usize = 64 << 10;

/// The largest id kept. The next one is the guest's own.
pub const ID_MAX: u32 = 65_534;

/// The latest time kept, which every filesystem can store.
pub const TIME_MAX: u64 = u32::MAX as u64;

/// Limits that the caller sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Entries of the archive, skipped ones included.
    pub entries: u64,
    /// Bytes of the archive when decompressed.
    pub bytes: u64,
}

impl Default for Limits {
    /// Ten times the largest layers that people make.
    fn default() -> Self {
        Self { entries: 1_000_000, bytes: 64 << 30 }
    }
}
