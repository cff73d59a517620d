//! The last lines of output that came in chunks.

use coracle_engine::follow::Chunk;

/// Returns the chunks from the last `lines` lines on. An unfinished line counts as one.
pub fn last_lines(mut chunks: Vec<Chunk>, lines: u64) -> Vec<Chunk> {
    let mut left = lines;
    let mut is_end = true;
    for index in (0..chunks.len()).rev() {
        let data = &chunks[index].data;
        for place in (0..data.len()).rev() {
            // A newline at the very end ends the last line; it starts none.
            if data[place] == b'\n' && !is_end {
                left = left.saturating_sub(1);
            }
            if left == 0 {
                chunks[index].data.drain(..=place);
                chunks.drain(..index);
                chunks.retain(|chunk| !chunk.data.is_empty());
                return chunks;
            }
            is_end = false;
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use coracle_engine::follow::Stream;

    use super::*;

    fn tail(pieces: &[&str], lines: u64) -> String {
        let chunk = |(seq, text): (usize, &&str)| Chunk {
            seq: seq as u64 + 1,
            stream: Stream::Stdout,
            data: text.as_bytes().to_vec(),
        };
        let chunks = last_lines(pieces.iter().enumerate().map(chunk).collect(), lines);
        chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.data)).collect()
    }

    #[test]
    fn lines_are_counted_across_pieces() {
        let pieces = ["a\nb", "b\n", "c\n"];

        assert_eq!(tail(&pieces, 1), "c\n");
        assert_eq!(tail(&pieces, 2), "bb\nc\n");
        assert_eq!(tail(&pieces, 3), "a\nbb\nc\n");
        assert_eq!(tail(&pieces, 99), "a\nbb\nc\n");
        assert_eq!(tail(&["a\nb"], 1), "b");
        assert_eq!(tail(&["a\n", "\n"], 1), "\n");
    }

    #[test]
    fn no_lines_are_nothing() {
        assert_eq!(tail(&["a\n", "b\n"], 0), "");
        assert_eq!(tail(&["b"], 0), "");
        assert_eq!(tail(&[], 3), "");
    }
}
