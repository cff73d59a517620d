//! The host's order to the unpacker, sent beside its descriptors.

use crate::limits::Limits;

/// The longest order: a path and some numbers.
pub const ORDER_MAX: usize = 8 << 10;

/// One layer to unpack. The first descriptor is the file with the layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Where in the file the layer begins.
    pub offset: u64,
    pub length: u64,
    pub limits: Limits,
    pub target: Target,
}

/// Where to unpack to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The mount that is the second descriptor, with the owners the archive names.
    Mount,
    /// The directory at this path, which the unpacker makes a mount of. All files have one owner.
    Path(Vec<u8>),
}

impl Order {
    pub fn encode(&self) -> Vec<u8> {
        let numbers = [self.offset, self.length, self.limits.entries, self.limits.bytes];
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        match &self.target {
            Target::Mount => bytes.push(0),
            Target::Path(path) => {
                bytes.push(1);
                bytes.extend(path);
            }
        }
        bytes
    }

    /// Reads an order. Returns `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (numbers, target) = bytes.split_at_checked(32)?;
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let target = match target.split_first()? {
            (0, []) => Target::Mount,
            (1, path) => Target::Path(path.to_vec()),
            _ => return None,
        };
        let (offset, length) = (numbers.next()?, numbers.next()?);
        let limits = Limits { entries: numbers.next()?, bytes: numbers.next()? };
        Some(Self { offset, length, limits, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_being_sent() {
        for target in [Target::Mount, Target::Path(b"/a/b".to_vec())] {
            let order = Order { offset: 1, length: 2, limits: Limits { entries: 3, bytes: 4 }, target };

            assert_eq!(Order::decode(&order.encode()), Some(order));
        }
        assert_eq!(Order::decode(b"short"), None);
    }
}
