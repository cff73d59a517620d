//! How much output an answer carries, and who pays for the memory it takes until it is written.
//!
//! The command line and the library take all there is: it is their own memory. A door that answers strangers gives its
//! engine a bound for each answer, and counts the memory of answers that its caller has not read yet.

use std::fmt;
use std::sync::Arc;

use coracle_core::{Error, Kind, Result};
use coracle_egress::weak;
use coracle_wire::{Chunk, Wall};

/// This much output is in every answer, however much memory is taken: a caller has to learn how its command ended.
const LEAST: u64 = 16 << 10;
/// How often output is in memory on its way: as the guest sent it and as a document, or as that and its text.
const COPIES: u64 = 2;
/// As how much output counts beside that: it is also put together from chunks, and over MCP into a text of its own.
const FORMS: u64 = 2;
/// What a chunk takes of an answer beside its output: its number, the names of its fields.
const CHUNK_COST: u64 = 128;
/// What a guest is asked for at once by a door that has hundreds of callers: no less than its longest chunk.
const MESSAGE: u64 = 64 << 10;

/// Counts the memory that answers of one caller take.
pub trait AnswerMemory: fmt::Debug + Send + Sync {
    /// Takes memory for this many bytes until the answer is written. Returns whether there was enough.
    fn take(&self, bytes: u64) -> bool;
}

/// What an answer may carry. By default everything, uncounted.
#[derive(Debug, Clone)]
pub struct Inline {
    most: u64,
    memory: Option<Arc<dyn AnswerMemory>>,
}

impl Default for Inline {
    fn default() -> Self {
        Self { most: u64::MAX, memory: None }
    }
}

impl Inline {
    /// Bounds the output in one answer.
    pub fn at_most(bytes: u64) -> Self {
        Self { most: bytes, memory: None }
    }

    /// Has what an answer takes counted.
    pub fn counted_by(self, memory: Arc<dyn AnswerMemory>) -> Self {
        Self { memory: Some(memory), ..self }
    }

    /// Returns how many of these bytes of output the answer may carry, and takes the memory for them.
    pub(crate) fn allot(&self, bytes: u64) -> u64 {
        let wanted = bytes.min(self.most);
        match wanted <= LEAST || self.takes(wanted.saturating_mul(FORMS)) {
            true if weak::off(Wall::Answers) => bytes,
            true => wanted,
            false => wanted.min(LEAST),
        }
    }

    /// Takes memory for this many bytes of an answer, or tells that there is none.
    pub(crate) fn takes(&self, bytes: u64) -> bool {
        let memory = self.memory.as_ref().filter(|_| bytes > LEAST && !weak::off(Wall::Answers));
        memory.is_none_or(|memory| memory.take(bytes.saturating_mul(COPIES)))
    }

    /// Takes memory for an answer of this many bytes, or refuses to make it.
    pub(crate) fn expect(&self, bytes: u64) -> Result<()> {
        match self.takes(bytes) {
            true => Ok(()),
            false => Err(no_room("ask for less")),
        }
    }

    /// Tells whether the memory of answers is counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.memory.is_some()
    }

    /// Leaves as many chunks as an answer may carry, and the first in any case: the others are read next.
    pub(crate) fn shorten(&self, chunks: &mut Vec<Chunk>) {
        let mut bytes = 0_u64;
        let mut fits = |chunk: &Chunk| {
            bytes = bytes.saturating_add(chunk.data.len() as u64 + CHUNK_COST);
            bytes <= self.most()
        };
        let count = chunks.iter().take_while(|chunk| fits(chunk)).count();
        chunks.truncate(count.max(1));
    }

    /// Returns how many chunks like these are to be asked for: more than an answer may carry, or than fit a message of
    /// which hundreds are on their way, would be sent for nothing.
    pub(crate) fn chunks_like(&self, chunks: &[Chunk]) -> u32 {
        let longest = chunks.iter().map(|chunk| chunk.data.len() as u64).max().unwrap_or(0);
        let most = if self.is_bounded() { self.most.min(MESSAGE) } else { u64::MAX };
        u32::try_from(most / (longest + CHUNK_COST)).unwrap_or(u32::MAX).max(1)
    }

    /// Returns how many chunks are to be asked for of which nothing is known: one of each stream.
    pub(crate) fn first_chunks(&self) -> u32 {
        if self.is_bounded() { 2 } else { u32::MAX }
    }

    /// Returns how much may be held of the output of a command that still runs, for which no memory was taken.
    pub(crate) fn meanwhile(&self) -> u64 {
        if self.is_bounded() { LEAST.min(self.most) } else { u64::MAX }
    }

    /// Tells whether an answer does not simply carry everything.
    pub(crate) fn is_bounded(&self) -> bool {
        self.most < u64::MAX && !weak::off(Wall::Answers)
    }

    /// Returns the most one answer may carry.
    pub(crate) fn most(&self) -> u64 {
        if weak::off(Wall::Answers) { u64::MAX } else { self.most }
    }
}

/// Says that unread answers take all the memory there is. `less` says how to ask for less.
pub(crate) fn no_room(less: &str) -> Error {
    Error::new(Kind::LimitExceeded, "too many answers wait to be read")
        .hint(format!("read those that were asked for first, or {less}"))
        .detail("limit", "share")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug)]
    struct Purse(AtomicU64);

    impl AnswerMemory for Purse {
        fn take(&self, bytes: u64) -> bool {
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
        }
    }

    #[test]
    fn an_answer_is_bounded_by_the_setting_and_then_by_the_room_that_is_left() {
        let inline = Inline::at_most(1 << 20).counted_by(Arc::new(Purse(AtomicU64::new(6 << 20))));

        assert_eq!(inline.allot(10 << 20), 1 << 20);
        assert_eq!(inline.allot(10 << 20), LEAST, "four mebibytes were taken");
        assert_eq!(inline.allot(100), 100);
        assert_eq!(Inline::default().allot(10 << 20), 10 << 20);
    }
}
