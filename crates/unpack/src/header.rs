//! Reads one header block of an archive strictly: refuses it where readers of archives disagree.

use crate::refusal::Refusal;

pub const BLOCK: usize = 512;

/// Which of the three header formats it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Before 1988: has neither long names nor extensions.
    Old,
    Posix,
    Gnu,
}

/// A header with a correct checksum.
#[derive(Debug)]
pub struct Header {
    block: [u8; BLOCK],
    format: Format,
}

impl Header {
    pub fn parse(block: [u8; BLOCK]) -> Result<Self, Refusal> {
        let format = match &block[257..265] {
            [b'u', b's', b't', b'a', b'r', 0, _, _] => Format::Posix,
            b"ustar  \0" => Format::Gnu,
            _ => Format::Old,
        };
        let header = Self { block, format };
        let others = block[..148].iter().chain(&block[156..]).map(|byte| i128::from(*byte)).sum::<i128>();
        if header.number(148..156, "checksum")? != Some(others + 8 * i128::from(b' ')) {
            return Err(Refusal::malformed("a header's checksum is wrong"));
        }
        if format == Format::Posix && &block[508..512] == b"tar\0" {
            return Err(Refusal::unsupported("a header is of the `star` kind"));
        }
        Ok(header)
    }

    /// Returns the type flag of the entry.
    pub fn kind(&self) -> u8 {
        self.block[156]
    }

    /// Tells whether the format allows entries that describe the next one.
    pub fn may_extend(&self) -> bool {
        self.format != Format::Old
    }

    pub fn name(&self) -> Vec<u8> {
        let name = text(&self.block[..100]);
        let prefix = if self.format == Format::Posix { text(&self.block[345..500]) } else { b"" };
        if prefix.is_empty() { name.to_vec() } else { [prefix, name].join(&b'/') }
    }

    pub fn link(&self) -> &[u8] {
        text(&self.block[157..257])
    }

    pub fn size(&self) -> Result<u64, Refusal> {
        let size = self.number(124..136, "size")?;
        size.and_then(|size| u64::try_from(size).ok())
            .ok_or_else(|| Refusal::malformed("a size is missing or negative"))
    }

    pub fn mode(&self) -> Result<u32, Refusal> {
        // Some writers also put the file type in there.
        match self.number(100..108, "mode")?.unwrap_or(0) {
            mode @ 0..=0o177_777 => Ok(mode as u32 & 0o7777),
            _ => Err(Refusal::malformed("a mode is out of range")),
        }
    }

    pub fn uid(&self) -> Result<i128, Refusal> {
        Ok(self.number(108..116, "user")?.unwrap_or(0))
    }

    pub fn gid(&self) -> Result<i128, Refusal> {
        Ok(self.number(116..124, "group")?.unwrap_or(0))
    }

    pub fn time(&self) -> Result<i128, Refusal> {
        Ok(self.number(136..148, "time")?.unwrap_or(0))
    }

    /// Reads a number in octal digits or, if the first bit is set, in two's complement. Returns `None` for an empty
    /// field.
    fn number(&self, field: std::ops::Range<usize>, what: &str) -> Result<Option<i128>, Refusal> {
        let field = &self.block[field];
        if field[0] & 0x80 != 0 {
            let first = field[0] & 0x7f;
            let negative = first & 0x40 != 0;
            let start = if negative { i128::from(first) - 0x80 } else { i128::from(first) };
            return Ok(Some(field[1..].iter().fold(start, |number, byte| number << 8 | i128::from(*byte))));
        }
        let digits = field.trim_ascii_start();
        let end = digits.iter().position(|byte| !matches!(byte, b'0'..=b'7')).unwrap_or(digits.len());
        // Only padding may follow the digits: some readers stop at the first other byte, some fail.
        if digits[end..].iter().any(|byte| !matches!(byte, 0 | b' ')) {
            return Err(Refusal::malformed(format!("a header's {what} is not a number")));
        }
        let value = digits[..end].iter().fold(0, |number, digit| number << 3 | i128::from(digit - b'0'));
        Ok((end > 0).then_some(value))
    }
}

/// Text in a field ends at the first NUL, or fills it.
pub fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}
