//! The beginning and the end of an exec's output, where an answer does not carry all of it.

use std::collections::VecDeque;

use coracle_wire::{Chunk, Stream};

/// Output that is not in an answer though the guest has it, and where it is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gap {
    /// The first and the last chunk of which something is missing.
    pub from: u64,
    pub to: u64,
    pub bytes: u64,
    /// How much of each stream stands before it.
    pub stdout_before: u64,
    pub stderr_before: u64,
}

/// How many chunks a part of an excerpt holds. A command that writes to both streams by turns makes a chunk of every byte,
/// and each takes a hundred times that here.
pub(super) const CHUNKS_MAX: usize = 4096;

/// Takes chunks one after the other, and holds no more than it may.
#[derive(Debug)]
pub(super) struct Excerpt {
    head_most: u64,
    tail_most: u64,
    /// Of each part.
    chunks_most: usize,
    head: Vec<Chunk>,
    tail: VecDeque<Chunk>,
    head_bytes: u64,
    tail_bytes: u64,
    gap: Option<Gap>,
}

impl Excerpt {
    /// Holds everything, as long as that is no more than `most`.
    pub(super) fn whole(most: u64) -> Self {
        Self {
            head_most: most,
            tail_most: 0,
            chunks_most: usize::MAX,
            head: Vec::new(),
            tail: VecDeque::new(),
            head_bytes: 0,
            tail_bytes: 0,
            gap: None,
        }
    }

    /// Holds the beginning and the end, half of `most` each.
    pub(super) fn halves(most: u64) -> Self {
        Self { head_most: most / 2, tail_most: most - most / 2, chunks_most: CHUNKS_MAX, ..Self::whole(0) }
    }

    pub(super) fn push(&mut self, mut chunk: Chunk) {
        let room = usize::try_from(self.head_most - self.head_bytes).unwrap_or(usize::MAX);
        let open = self.tail.is_empty() && self.gap.is_none() && self.head.len() < self.chunks_most;
        if open && room > 0 {
            let rest = chunk.data.split_off(room.min(chunk.data.len()));
            let rest = Chunk { data: rest, ..chunk };
            // What was cut off leaves its memory behind, and the answer may wait for its reader for a while.
            chunk.data.shrink_to_fit();
            self.head_bytes += chunk.data.len() as u64;
            self.head.push(chunk);
            chunk = rest;
        }
        if chunk.data.is_empty() {
            return;
        }
        self.tail_bytes += chunk.data.len() as u64;
        self.tail.push_back(chunk);
        while self.tail_bytes > self.tail_most {
            self.drop_oldest(self.tail_bytes - self.tail_most);
        }
        if self.tail.len() > self.chunks_most {
            self.drop_oldest(u64::MAX);
        }
    }

    /// Returns what was held, and what is missing of it.
    pub(super) fn into_parts(mut self) -> (Vec<Chunk>, Option<Gap>) {
        if let Some(oldest) = self.tail.front_mut() {
            oldest.data.shrink_to_fit();
        }
        if self.gap.is_some() {
            self.mend_edges();
        }
        if let Some(gap) = &mut self.gap {
            let before = |stream: Stream| {
                let own = self.head.iter().filter(|chunk| chunk.stream == stream);
                own.map(|chunk| chunk.data.len() as u64).sum()
            };
            (gap.stdout_before, gap.stderr_before) = (before(Stream::Stdout), before(Stream::Stderr));
        }
        self.head.extend(self.tail);
        (self.head, self.gap)
    }

    /// Drops the oldest chunk of the end, or of that what is too much.
    fn drop_oldest(&mut self, surplus: u64) {
        let Some(oldest) = self.tail.front_mut() else { return };
        let (seq, length) = (oldest.seq, oldest.data.len() as u64);
        let dropped = length.min(surplus);
        match usize::try_from(dropped) {
            Ok(count) if dropped < length => drop(oldest.data.drain(..count)),
            _ => drop(self.tail.pop_front()),
        }
        self.tail_bytes -= dropped;
        self.miss(seq, dropped);
    }

    fn miss(&mut self, seq: u64, bytes: u64) {
        let gap = self.gap.get_or_insert(Gap { from: seq, ..Gap::default() });
        gap.from = gap.from.min(seq);
        gap.to = gap.to.max(seq);
        gap.bytes += bytes;
    }

    /// Drops what is left of characters that were cut in two, so that text stays text.
    fn mend_edges(&mut self) {
        if let Some(last) = self.head.last_mut() {
            let (seq, whole) = (last.seq, valid_up_to(&last.data));
            let dropped = last.data.len() - whole;
            last.data.truncate(whole);
            if dropped > 0 {
                self.miss(seq, dropped as u64);
            }
        }
        if let Some(first) = self.tail.front_mut() {
            let continues = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
            let (seq, dropped) = (first.seq, first.data.iter().take(3).take_while(continues).count());
            drop(first.data.drain(..dropped));
            if dropped > 0 {
                self.miss(seq, dropped as u64);
            }
        }
    }
}

/// Returns how much of the data stands before a character at its end whose rest is missing.
fn valid_up_to(data: &[u8]) -> usize {
    let last = &data[data.len().saturating_sub(4)..];
    let begins = last.iter().rposition(|byte| byte & 0b1100_0000 == 0b1100_0000);
    let Some(begins) = begins else { return data.len() };
    match std::str::from_utf8(&last[begins..]) {
        // There is no error in it but that it ends.
        Err(error) if error.error_len().is_none() => data.len() - (last.len() - begins),
        Ok(_) | Err(_) => data.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(seq: u64, stream: Stream, data: &[u8]) -> Chunk {
        Chunk { seq, stream, data: data.to_vec() }
    }

    fn bytes(chunks: &[Chunk]) -> Vec<u8> {
        chunks.iter().flat_map(|chunk| chunk.data.clone()).collect()
    }

    #[test]
    fn the_middle_is_missing_and_said_to_be() {
        let mut excerpt = Excerpt::halves(10);
        excerpt.push(chunk(1, Stream::Stdout, b"abc"));
        excerpt.push(chunk(2, Stream::Stderr, b"ERR"));
        excerpt.push(chunk(3, Stream::Stdout, b"defghijkl"));
        excerpt.push(chunk(4, Stream::Stdout, b"mn"));

        let (chunks, gap) = excerpt.into_parts();

        assert_eq!(bytes(&chunks), b"abcERjklmn");
        let missing = Gap { from: 2, to: 3, bytes: 7, stdout_before: 3, stderr_before: 2 };
        assert_eq!(gap, Some(missing));
    }

    #[test]
    fn what_was_cut_off_takes_no_memory() {
        let mut excerpt = Excerpt::halves(16 << 10);
        (1..=4).for_each(|seq| excerpt.push(chunk(seq, Stream::Stdout, &[b'x'; 64 << 10])));

        let (chunks, _) = excerpt.into_parts();

        let held: usize = chunks.iter().map(|chunk| chunk.data.capacity()).sum();
        assert!(held <= 17 << 10, "{held}");
    }

    #[test]
    fn of_many_small_chunks_few_are_held() {
        let mut excerpt = Excerpt::halves(1 << 20);
        let stream = |seq: u64| if seq.is_multiple_of(2) { Stream::Stdout } else { Stream::Stderr };

        (1..=100_000).for_each(|seq| excerpt.push(chunk(seq, stream(seq), b"x")));

        let (chunks, gap) = excerpt.into_parts();
        assert_eq!(chunks.len(), 2 * CHUNKS_MAX);
        let missing = gap.expect("most is missing");
        assert_eq!(missing.bytes + chunks.len() as u64, 100_000);
        assert_eq!((missing.from, missing.to), (CHUNKS_MAX as u64 + 1, 100_000 - CHUNKS_MAX as u64));
    }

    #[test]
    fn characters_are_not_cut_in_two() {
        let text = "é€😀".repeat(100);
        for most in 20..40 {
            let mut excerpt = Excerpt::halves(most);
            excerpt.push(chunk(1, Stream::Stdout, text.as_bytes()));

            let (chunks, gap) = excerpt.into_parts();

            let kept = bytes(&chunks);
            assert!(std::str::from_utf8(&kept).is_ok(), "{most}");
            assert_eq!(kept.len() as u64 + gap.expect("most is missing").bytes, text.len() as u64);
        }
    }

    #[test]
    fn what_fits_is_whole_and_what_does_not_is_counted_to_the_byte() {
        for (most, count) in (0..400).flat_map(|most| (0..12).map(move |count| (most, count))) {
            let sizes = (0..count).map(|index| (index * 37 + 11) % 60 + 1);
            let all: Vec<_> = sizes
                .enumerate()
                .map(|(index, size)| chunk(index as u64 + 1, Stream::Stdout, &vec![b'a' + index as u8; size]))
                .collect();
            let whole = bytes(&all);
            let mut excerpt = Excerpt::halves(most);

            all.into_iter().for_each(|chunk| excerpt.push(chunk));

            let (kept, gap) = excerpt.into_parts();
            let kept = bytes(&kept);
            let Some(gap) = gap else {
                assert_eq!(kept, whole);
                continue;
            };
            assert_eq!(kept.len() as u64, most);
            assert_eq!(most + gap.bytes, whole.len() as u64);
            let (head, tail) = kept.split_at(gap.stdout_before as usize);
            assert!(whole.starts_with(head) && whole.ends_with(tail), "{most} of {count}");
        }
    }
}
