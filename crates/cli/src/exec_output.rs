//! Passes the output of a command on to the streams of this process.

use std::io;

use coracle_engine::follow::{Chunk, Follow, Stream};
use coracle_engine::progress::Progress;

use super::stop::Stop;
use super::{stderr, stdout};

/// Passes on chunks as they come and returns how the command ended.
pub fn each_chunk(
    mut follow: Follow,
    mut take: impl FnMut(Chunk) -> Result<(), Stop>,
) -> Result<Progress, Stop> {
    let mut last = Progress::lost();
    while let Some(batch) = follow.next_batch()? {
        batch.chunks.into_iter().try_for_each(&mut take)?;
        last = batch.progress;
    }
    Ok(last)
}

/// Passes one chunk on to the stream it came from.
pub fn pass_on(chunk: &Chunk) -> Result<(), Stop> {
    match chunk.stream {
        Stream::Stdout => stdout::bytes(&chunk.data),
        Stream::Stderr => match stderr::bytes(&chunk.data) {
            // The reader has closed it, as with standard output.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Stop::Unheard),
            // A standard error that was closed before we started has no reader.
            Ok(()) | Err(_) => Ok(()),
        },
    }
}

/// Notices chunks that were not kept, and reports it once.
#[derive(Debug)]
pub struct Gaps {
    last: u64,
    reported: bool,
}

impl Gaps {
    pub fn after(seq: u64) -> Self {
        Self { last: seq, reported: false }
    }

    pub fn see(&mut self, chunk: &Chunk) {
        if chunk.seq > self.last + 1 && !self.reported {
            self.reported = true;
            stderr::note(&format!(
                "output is missing here: chunks {} to {} were not kept",
                self.last + 1,
                chunk.seq - 1
            ));
        }
        self.last = chunk.seq;
    }
}
