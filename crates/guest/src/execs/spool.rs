//! The output of one exec: numbered chunks, the beginning and the end kept, the middle dropped and counted.

use std::collections::VecDeque;

use coracle_wire::{Chunk, ExecState, Stream, Truncation};

/// What a chunk costs beyond its bytes, so that a million one-byte chunks do not use a hundred times the counted
/// memory.
const CHUNK_COST: usize = 64;
/// The guest joins pieces up to this size.
const CHUNK_MAX: usize = 64 << 10;
/// The most one answer holds, well under a frame.
const ANSWER_MAX: usize = 512 << 10;

/// Chunks of one exec. Numbers count from 1 over both streams.
#[derive(Debug)]
pub struct Spool {
    head: VecDeque<Chunk>,
    tail: VecDeque<Chunk>,
    head_cost: usize,
    tail_cost: usize,
    last_seq: u64,
    /// The highest number a reader has seen. That chunk must not grow any more.
    delivered: u64,
    dropped: Option<Truncation>,
    stdout_bytes: u64,
    stderr_bytes: u64,
}

impl Spool {
    pub fn new() -> Self {
        Self {
            head: VecDeque::new(),
            tail: VecDeque::new(),
            head_cost: 0,
            tail_cost: 0,
            last_seq: 0,
            delivered: 0,
            dropped: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
        }
    }

    /// Returns the output an earlier guest has left. Chunks that are not in order are none of ours, and left out.
    pub fn left(state: &ExecState, chunks: Vec<Chunk>) -> Self {
        let ordered = chunks.windows(2).all(|two| two[0].seq < two[1].seq);
        let head: VecDeque<_> = if ordered { chunks.into() } else { VecDeque::new() };
        Self {
            head_cost: head.iter().map(|chunk| chunk.data.len() + CHUNK_COST).sum(),
            last_seq: head.back().map_or(state.last_seq, |last| last.seq.max(state.last_seq)),
            head,
            dropped: state.truncation,
            stdout_bytes: state.stdout_bytes,
            stderr_bytes: state.stderr_bytes,
            ..Self::new()
        }
    }

    /// Returns all that is kept.
    pub fn all(&self) -> Vec<Chunk> {
        self.head.iter().chain(&self.tail).cloned().collect()
    }

    /// Adds output. Keeps about `limit` bytes at most: the first half of that, and the newest half. Drops nothing
    /// that comes after chunk `held`.
    pub fn push(&mut self, stream: Stream, mut data: &[u8], limit: usize, held: Option<u64>) {
        match stream {
            Stream::Stdout => self.stdout_bytes += data.len() as u64,
            Stream::Stderr => self.stderr_bytes += data.len() as u64,
        }
        let half = limit / 2;
        while !data.is_empty() {
            let in_head = self.tail.is_empty() && self.dropped.is_none() && self.head_cost < half;
            let room = if in_head { half - self.head_cost } else { CHUNK_MAX };
            let (piece, rest) = data.split_at(cut(data, room.min(CHUNK_MAX)));
            self.append(stream, piece, in_head);
            data = rest;
        }
        while self.tail_cost > half && !self.is_held(held) {
            self.drop_oldest();
        }
    }

    /// Tells whether more output would push out chunks that an attendant has yet to read.
    pub fn is_full(&self, limit: usize, held: u64) -> bool {
        self.tail_cost > limit / 2 && self.is_held(Some(held))
    }

    fn is_held(&self, held: Option<u64>) -> bool {
        held.is_some_and(|held| self.tail.front().is_some_and(|oldest| oldest.seq > held))
    }

    fn append(&mut self, stream: Stream, piece: &[u8], in_head: bool) {
        let (chunks, cost) = match in_head {
            true => (&mut self.head, &mut self.head_cost),
            false => (&mut self.tail, &mut self.tail_cost),
        };
        let open = chunks.back_mut().filter(|last| {
            last.stream == stream
                && last.seq == self.last_seq
                && last.seq > self.delivered
                && last.data.len() + piece.len() <= CHUNK_MAX
        });
        if let Some(last) = open {
            last.data.extend_from_slice(piece);
            *cost += piece.len();
            return;
        }
        self.last_seq += 1;
        chunks.push_back(Chunk { seq: self.last_seq, stream, data: piece.to_vec() });
        *cost += piece.len() + CHUNK_COST;
    }

    fn drop_oldest(&mut self) {
        let Some(chunk) = self.tail.pop_front() else { return };
        self.tail_cost -= chunk.data.len() + CHUNK_COST;
        self.count_dropped(&chunk);
    }

    fn count_dropped(&mut self, chunk: &Chunk) {
        let dropped = self.dropped.get_or_insert(Truncation { from: chunk.seq, to: chunk.seq, bytes: 0 });
        dropped.to = chunk.seq;
        dropped.bytes += chunk.data.len() as u64;
    }

    /// Drops all kept output and counts it as truncated.
    pub fn clear(&mut self) {
        let before = self.dropped.take();
        let head: Vec<_> = self.head.drain(..).collect();
        let tail: Vec<_> = self.tail.drain(..).collect();
        head.iter().for_each(|chunk| self.count_dropped(chunk));
        if let Some(before) = before {
            let dropped = self.dropped.get_or_insert(before);
            dropped.bytes += if dropped.from == before.from { 0 } else { before.bytes };
            dropped.to = before.to;
        }
        tail.iter().for_each(|chunk| self.count_dropped(chunk));
        (self.head_cost, self.tail_cost) = (0, 0);
    }

    /// Returns the chunks after `since`, as many as fit one answer.
    pub fn read(&mut self, since: u64, max_chunks: usize) -> Vec<Chunk> {
        let mut size = 0;
        let mut chunks = Vec::new();
        let (head, tail) = (Self::after(&self.head, since), Self::after(&self.tail, since));
        for chunk in head.chain(tail).take(max_chunks.max(1)) {
            size += chunk.data.len() + CHUNK_COST;
            if size > ANSWER_MAX && !chunks.is_empty() {
                break;
            }
            chunks.push(chunk.clone());
        }
        if let Some(last) = chunks.last() {
            self.delivered = self.delivered.max(last.seq);
        }
        chunks
    }

    fn after(chunks: &VecDeque<Chunk>, since: u64) -> impl Iterator<Item = &Chunk> {
        let start = chunks.partition_point(|chunk| chunk.seq <= since);
        chunks.range(start..)
    }

    pub fn has_after(&self, since: u64) -> bool {
        self.last_seq > since
            && [&self.head, &self.tail]
                .iter()
                .any(|chunks| chunks.back().is_some_and(|chunk| chunk.seq > since))
    }

    /// Returns how much memory the kept output takes.
    pub fn cost(&self) -> usize {
        self.head_cost + self.tail_cost
    }

    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub fn truncation(&self) -> Option<Truncation> {
        self.dropped
    }

    pub fn bytes(&self) -> (u64, u64) {
        (self.stdout_bytes, self.stderr_bytes)
    }
}

/// Returns where to cut, at most `most` bytes in, without cutting a character in two.
fn cut(data: &[u8], most: usize) -> usize {
    if data.len() <= most {
        return data.len();
    }
    match whole(&data[..most]) {
        0 => most,
        length => length,
    }
}

/// Returns the length of the data without an incomplete character at its end.
pub fn whole(data: &[u8]) -> usize {
    let begins = |byte: u8| byte & 0b1100_0000 != 0b1000_0000;
    let Some(back) = data.iter().rev().take(4).position(|byte| begins(*byte)) else { return data.len() };
    let needed = match data[data.len() - 1 - back] {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if back + 1 < needed { data.len() - 1 - back } else { data.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 20_000;

    fn kept(spool: &mut Spool) -> Vec<Chunk> {
        let mut since = 0;
        let mut all = Vec::new();
        loop {
            let chunks = spool.read(since, 10);
            let Some(last) = chunks.last() else { return all };
            since = last.seq;
            all.extend(chunks);
        }
    }

    #[test]
    fn small_output_is_kept_whole_and_joined() {
        let mut spool = Spool::new();

        spool.push(Stream::Stdout, b"one ", LIMIT, None);
        spool.push(Stream::Stdout, b"two", LIMIT, None);
        spool.push(Stream::Stderr, b"bad", LIMIT, None);

        let chunks = kept(&mut spool);
        assert_eq!(
            chunks.iter().map(|chunk| (chunk.seq, chunk.data.as_slice())).collect::<Vec<_>>(),
            [(1, b"one two".as_slice()), (2, b"bad")]
        );
        assert_eq!(spool.bytes(), (7, 3));
        assert_eq!(spool.truncation(), None);
    }

    #[test]
    fn a_chunk_that_was_read_does_not_grow() {
        let mut spool = Spool::new();
        spool.push(Stream::Stdout, b"a", LIMIT, None);
        let first = spool.read(0, 10);

        spool.push(Stream::Stdout, b"b", LIMIT, None);

        assert_eq!(first[0].data, b"a");
        assert_eq!(spool.read(1, 10)[0].data, b"b");
    }

    #[test]
    fn the_middle_is_dropped_and_counted_to_the_byte() {
        let mut spool = Spool::new();
        let line = [b'x'; 1000];
        let total = 500;

        for _ in 0..total {
            spool.push(Stream::Stdout, &line, LIMIT, None);
            spool.read(spool.last_seq() - 1, 1);
        }

        let chunks = kept(&mut spool);
        let bytes: usize = chunks.iter().map(|chunk| chunk.data.len()).sum();
        let dropped = spool.truncation().expect("the middle is gone");
        assert_eq!(bytes as u64 + dropped.bytes, total * 1000);
        assert_eq!(spool.bytes().0, total * 1000);
        assert!(bytes <= LIMIT, "{bytes} bytes kept");
        let gap = chunks.windows(2).find(|pair| pair[1].seq != pair[0].seq + 1).expect("one gap");
        assert_eq!((gap[0].seq + 1, gap[1].seq - 1), (dropped.from, dropped.to));
    }

    #[test]
    fn tiny_alternating_writes_cost_no_more_than_the_limit() {
        let mut spool = Spool::new();

        for index in 0..100_000 {
            let stream = if index % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
            spool.push(stream, b"z", LIMIT, None);
        }

        assert!(spool.cost() <= LIMIT + CHUNK_COST);
        assert_eq!(spool.bytes(), (50_000, 50_000));
    }

    #[test]
    fn clearing_counts_everything_as_truncated() {
        let mut spool = Spool::new();
        for _ in 0..100 {
            spool.push(Stream::Stdout, &[b'y'; 1000], LIMIT, None);
            spool.read(spool.last_seq() - 1, 1);
        }

        spool.clear();

        assert_eq!(
            spool.truncation().map(|dropped| (dropped.from, dropped.to, dropped.bytes)),
            Some((1, spool.last_seq(), 100_000))
        );
        assert!(spool.read(0, 10).is_empty());
    }

    #[test]
    fn what_an_attendant_has_yet_to_read_is_not_dropped() {
        let mut spool = Spool::new();
        let mut since = 0;
        let mut read = 0;

        for _ in 0..500 {
            while !spool.is_full(LIMIT, since) {
                spool.push(Stream::Stdout, &[b'x'; 1000], LIMIT, Some(since));
            }
            let chunks = spool.read(since, 3);
            since = chunks.last().expect("a full spool has something to read").seq;
            read += chunks.iter().map(|chunk| chunk.data.len()).sum::<usize>();
            assert!(spool.cost() < 2 * LIMIT + CHUNK_MAX);
        }
        read += kept_after(&mut spool, since);

        assert_eq!(read as u64, spool.bytes().0);
    }

    fn kept_after(spool: &mut Spool, since: u64) -> usize {
        kept(spool).iter().filter(|chunk| chunk.seq > since).map(|chunk| chunk.data.len()).sum()
    }

    #[test]
    fn a_character_is_not_cut_in_two() {
        let text = "é€😀".repeat(10_000);
        let mut spool = Spool::new();

        spool.push(Stream::Stdout, text.as_bytes(), 1 << 20, None);

        assert!(kept(&mut spool).iter().all(|chunk| std::str::from_utf8(&chunk.data).is_ok()));
        assert_eq!(whole("a€".as_bytes()), 4);
        assert_eq!(whole(&"a€".as_bytes()[..3]), 1);
        assert_eq!(whole(&[0xff, 0x80, 0x80, 0x80, 0x80]), 5);
    }
}
