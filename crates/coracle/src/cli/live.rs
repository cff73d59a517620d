//! Output of a command while it runs, and all of it at once when it has ended.

use coracle_engine::exec::Captured;
use coracle_engine::follow::{Chunk, Follow, Stream};
use coracle_engine::ops::sandbox::exec_wait;
use coracle_engine::progress::Progress;

use super::signals::Target;
use super::stop::Stop;
use super::{stderr, stdout};

/// Passes output on, stream by stream, until the command ends. The command waits for us, so nothing is missed.
pub fn attend(target: &Target) -> Result<Progress, Stop> {
    let follow = target.engine.attend(&target.caller, &target.sandbox, &target.exec, 0)?;
    let mut gaps = Gaps::after(0);
    each_chunk(follow, |chunk| {
        gaps.see(&chunk);
        pass_on(&chunk)
    })
}

/// Waits for the end of a command and returns what was kept of its output.
///
/// Read only afterwards: what is kept is bounded, what comes while it runs is not.
pub fn collect(target: &Target) -> Result<Captured, Stop> {
    let input = exec_wait::Input {
        sandbox_id: target.sandbox.clone(),
        exec_id: target.exec.clone(),
        timeout_seconds: None,
        timeout_ms: None,
    };
    target.engine.perform(&target.caller, input)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let follow = target.engine.follow(&target.caller, &target.sandbox, &target.exec, 0)?;
    let progress = each_chunk(follow, |chunk| {
        match chunk.stream {
            Stream::Stdout => stdout.extend(chunk.data),
            Stream::Stderr => stderr.extend(chunk.data),
        }
        Ok(())
    })?;
    let egress_denied = Vec::new();
    Ok(Captured { exec_id: target.exec.clone(), progress, stdout, stderr, gap: None, egress_denied })
}

/// Hands out chunks as they come and returns how the command ended.
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
        Stream::Stderr => {
            stderr::bytes(&chunk.data);
            Ok(())
        }
    }
}

/// Notices chunks that were not kept, and says so once.
#[derive(Debug)]
pub struct Gaps {
    last: u64,
    said: bool,
}

impl Gaps {
    pub fn after(seq: u64) -> Self {
        Self { last: seq, said: false }
    }

    pub fn see(&mut self, chunk: &Chunk) {
        if chunk.seq > self.last + 1 && !self.said {
            self.said = true;
            stderr::note(&format!(
                "output is missing here: chunks {} to {} were not kept",
                self.last + 1,
                chunk.seq - 1
            ));
        }
        self.last = chunk.seq;
    }
}
