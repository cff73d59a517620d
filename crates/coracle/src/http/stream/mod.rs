//! Output as it comes: as server-sent events, and as a WebSocket that takes input, too.
//!
//! Both read at the client's pace and hold nothing for it: who reads slowly makes nobody wait but itself, and what it
//! has not read is in the guest's spool. Both go on from any number, so a stream that ends without an end is asked for
//! again from the last one seen.

mod orders;
mod room;
pub mod socket;
pub mod sse;

use coracle::{Error, ExecId, Result, SandboxId};
use coracle_engine::ops::sandbox::exec_read::{self, OutputChunk};
use coracle_engine::progress::Progress;
use coracle_engine::{Batch, Cutter, Follow, Inline};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::room::{Room, Seat};

use super::Door;
use super::auth::Identity;
use super::reply::Refusal;

/// What is read for a client at once, and held for as long as it does not read: no less than the guest's longest chunk.
const BATCH: u64 = 64 << 10;

/// The exec a path names.
#[derive(Debug, Deserialize)]
pub struct Named {
    sandbox_id: SandboxId,
    exec_id: ExecId,
}

/// What is told of an exec.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Told {
    Chunk(OutputChunk),
    End(Progress),
    /// An error as every door shows it.
    Error {
        error: Value,
    },
}

impl Told {
    fn failure(to: &Identity, error: Error) -> Self {
        Self::Error { error: to.told(error).to_json()["error"].take() }
    }
}

/// Where a reader is in an exec's output. Dropping it leaves the exec alone.
struct Reader {
    follow: Follow,
    /// Ends a reading that waits.
    cutter: Option<Cutter>,
    _seat: Seat,
}

impl Reader {
    /// Takes a place among those who read, and connects.
    async fn start(
        door: &Door,
        identity: &Identity,
        named: Named,
        since: u64,
        attend: bool,
    ) -> Result<Self, Refusal> {
        let Named { sandbox_id, exec_id } = named;
        let (room, caller) = (door.0.streams.clone(), identity.caller.clone());
        door.ask(identity, move |engine| {
            let (engine, caller) = (engine.answering(Inline::at_most(BATCH)), &caller);
            // Whether there is such an exec, and whether it is the caller's, is to be said with a status, not in the
            // middle of a stream, and before it is said how many read it.
            engine.perform(caller, glance(&sandbox_id, &exec_id))?;
            let seat = room.take(sandbox_id.as_str(), caller.tenant.as_ref())?;
            let mut follow = match attend {
                true => engine.attend(caller, &sandbox_id, &exec_id, since)?,
                false => engine.follow(caller, &sandbox_id, &exec_id, since)?,
            };
            Ok(Self { cutter: follow.cutter()?, follow, _seat: seat })
        })
        .await
    }

    /// Returns what comes next; nothing behind the end. An empty batch only says that the exec still runs.
    ///
    /// Dropping the future ends the reading at once: its place is free for others, and so is its thread.
    async fn next(mut self) -> (Self, Result<Option<Batch>>) {
        let cutter = self.cutter.take();
        let read = tokio::task::spawn_blocking(move || {
            let batch = self.follow.next_batch();
            (self, batch)
        });
        // A panic in there is ours, and is passed on as one.
        let (mut reader, batch) =
            read.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        reader.cutter = cutter;
        (reader, batch)
    }

    fn seq(&self) -> u64 {
        self.follow.seq()
    }
}

fn glance(sandbox: &SandboxId, exec: &ExecId) -> exec_read::Input {
    let (sandbox_id, exec_id) = (sandbox.clone(), exec.clone());
    exec_read::Input { sandbox_id, exec_id, since_seq: 0, max_chunks: Some(1) }
}

/// Returns what a batch has to tell.
fn told(batch: Batch) -> impl Iterator<Item = Told> {
    let end = batch.progress.is_done().then_some(Told::End(batch.progress));
    batch.chunks.into_iter().map(|chunk| Told::Chunk(chunk.into())).chain(end)
}
