//! The calls under way: how many there may be, and how they are ended from outside.

use std::sync::Arc;

use coracle_core::{Error, Kind, Result};
use futures_util::future::select_all;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Each call holds a thread; an agent has a handful under way, and the threads of a process are bounded.
const UNDER_WAY_MAX: usize = 64;

/// The calls of one server. Cheap to clone; all clones are the same.
#[derive(Debug, Clone)]
pub struct Calls {
    places: Arc<Semaphore>,
    closing: CancellationToken,
}

impl Default for Calls {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(UNDER_WAY_MAX)), closing: CancellationToken::new() }
    }
}

impl Calls {
    /// Takes a place for one call, which has it until the place is dropped.
    pub fn enter(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Error::new(Kind::LimitExceeded, format!("{UNDER_WAY_MAX} calls are under way"))
                .hint("wait for one to end; long commands belong in the background, with `stream`")
        })
    }

    /// Returns whether anybody wants the answer of a call, which ends with any of these, too.
    pub fn interest(&self, ends_with: impl IntoIterator<Item = CancellationToken>) -> Interest {
        Interest { ends_with: ends_with.into_iter().chain([self.closing.clone()]).collect() }
    }

    /// Ends every call, now and from now on.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Waits until no call is under way.
    pub async fn ended(&self) {
        let all = u32::try_from(UNDER_WAY_MAX).unwrap_or(u32::MAX);
        // It cannot fail: nobody closes it.
        let _ = self.places.acquire_many(all).await;
    }
}

/// Whether anybody still wants the answer of a call.
#[derive(Debug, Clone)]
pub struct Interest {
    ends_with: Vec<CancellationToken>,
}

impl Interest {
    pub fn is_lost(&self) -> bool {
        self.ends_with.iter().any(CancellationToken::is_cancelled)
    }

    /// Waits until nobody wants it.
    pub async fn lost(&self) {
        let ends = self.ends_with.iter().map(|end| Box::pin(end.cancelled()));
        drop(select_all(ends).await);
    }
}
