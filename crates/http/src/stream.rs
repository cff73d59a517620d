//! Live output: as server-sent events, and as a WebSocket that takes input, too.
//!
//! Both read at the client's pace and buffer nothing for it: a slow client delays only itself, and what it has not
//! read is in the guest's spool. Both continue from any chunk, so a client of a stream that broke off reconnects with
//! the last number it saw.

mod orders;
pub mod socket;
pub mod sse;

use coracle::{Error, ExecId, Result, SandboxId};
use coracle_core::cancel::{Cancel, CancelOnDrop};
use coracle_engine::ops::sandbox::exec_read::OutputChunk;
use coracle_engine::progress::Progress;
use coracle_engine::{Batch, Call, Follow, Inline};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use coracle_service::auth::Identity;
use coracle_service::reply::Refusal;
use coracle_service::{Deadline, Seat, Service, deadline};
use tokio::task::JoinError;

/// How much is read for a client at once, and held while it does not read: no less than the guest's longest chunk.
const BATCH: u64 = 64 << 10;

/// The exec that a path names.
#[derive(Debug, Deserialize)]
pub struct Named {
    sandbox_id: SandboxId,
    exec_id: ExecId,
}

/// One message about an exec.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamItem {
    Chunk(OutputChunk),
    End(Progress),
    /// An error as every door shows it.
    Error {
        error: Value,
    },
}

impl StreamItem {
    fn failure(to: &Identity, error: Error) -> Self {
        Self::Error { error: to.told(error).to_json()["error"].take() }
    }
}

/// The position of a reader in an exec's output. Dropping it leaves the exec alone.
struct Reader {
    follow: Follow,
    /// Ends a read that waits.
    cancel: Cancel,
    deadline: Deadline,
    _seat: Seat,
}

/// How a client reads.
struct Reading {
    /// The number of the last chunk it has.
    since: u64,
    /// The command waits for it.
    attend: bool,
    deadline: Deadline,
}

impl Reader {
    /// Takes a place among the readers, and connects.
    async fn start(
        service: &Service,
        identity: &Identity,
        named: Named,
        reading: Reading,
    ) -> Result<Self, Refusal> {
        let Named { sandbox_id, exec_id } = named;
        let Reading { since, attend, deadline } = reading;
        let (places, caller) = (service.streams().clone(), identity.caller.clone());
        let started = service.ask(identity, move |engine| {
            let (engine, cancel) = (engine.answering(Inline::at_most(BATCH)), Cancel::default());
            let call = Call::by(caller.clone()).cancelled_by(cancel.clone());
            // The status reports whether the exec exists and is the caller's, before it reports that too many
            // clients read it.
            let mut follow = engine.execs().follow(call, &sandbox_id, &exec_id, since)?;
            let seat = places.take(sandbox_id.as_str(), caller.tenant.as_ref())?;
            if attend {
                follow.attend()?;
            }
            Ok(Self { cancel, follow, deadline, _seat: seat })
        });
        deadline.bound(started).await?
    }

    /// Returns the next batch; `None` after the end. An empty batch only says that the exec still runs. Fails at the
    /// deadline.
    ///
    /// Dropping the future ends the read at once: its place and its thread are free again.
    async fn next(mut self) -> (Self, Result<Option<Batch>>) {
        let (deadline, cancel) = (self.deadline, self.cancel.clone());
        if let Err(late) = deadline.check() {
            return (self, Err(late));
        }
        let unread = CancelOnDrop::of(&cancel);
        let mut read = tokio::task::spawn_blocking(move || {
            let batch = self.follow.next_batch();
            (self, batch)
        });
        // A panic in there is ours, and is passed on as one.
        let panicked = |error: JoinError| std::panic::resume_unwind(error.into_panic());
        let ended = tokio::select! {
            ended = &mut read => ended.unwrap_or_else(panicked),
            () = deadline.passed() => {
                cancel.expire();
                let (reader, _) = read.await.unwrap_or_else(panicked);
                (reader, Err(deadline::late()))
            }
        };
        unread.disarm();
        ended
    }

    fn seq(&self) -> u64 {
        self.follow.seq()
    }
}

/// Returns the messages of a batch.
fn items(batch: Batch) -> impl Iterator<Item = StreamItem> {
    let end = batch.progress.is_done().then_some(StreamItem::End(batch.progress));
    batch.chunks.into_iter().map(|chunk| StreamItem::Chunk(chunk.into())).chain(end)
}
