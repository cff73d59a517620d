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
use coracle_service::{Seat, Service};

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
    _seat: Seat,
}

impl Reader {
    /// Takes a place among the readers, and connects.
    async fn start(
        service: &Service,
        identity: &Identity,
        named: Named,
        since: u64,
        attend: bool,
    ) -> Result<Self, Refusal> {
        let Named { sandbox_id, exec_id } = named;
        let (places, caller) = (service.streams().clone(), identity.caller.clone());
        service
            .ask(identity, move |engine| {
                let (engine, cancel) = (engine.answering(Inline::at_most(BATCH)), Cancel::default());
                let call = Call::by(caller.clone()).cancelled_by(cancel.clone());
                // The status reports whether the exec exists and is the caller's, before it reports that too many
                // clients read it.
                let mut follow = engine.execs().follow(call, &sandbox_id, &exec_id, since)?;
                let seat = places.take(sandbox_id.as_str(), caller.tenant.as_ref())?;
                if attend {
                    follow.attend()?;
                }
                Ok(Self { cancel, follow, _seat: seat })
            })
            .await
    }

    /// Returns the next batch; `None` after the end. An empty batch only says that the exec still runs.
    ///
    /// Dropping the future ends the read at once: its place and its thread are free again.
    async fn next(mut self) -> (Self, Result<Option<Batch>>) {
        let unread = CancelOnDrop::of(&self.cancel);
        let read = tokio::task::spawn_blocking(move || {
            let batch = self.follow.next_batch();
            (self, batch)
        });
        // A panic in there is ours, and is passed on as one.
        let ended = read.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
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
