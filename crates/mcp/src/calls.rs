//! The running calls: how many there may be, and how they are cancelled from outside.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_core::{Error, Kind, Result};
use futures_util::future::select_all;
use rmcp::model::RequestId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Each call holds a thread; an agent has a handful running, and the threads of a process are bounded.
const UNDER_WAY_MAX: usize = 64;

/// The running calls of one client. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub struct Calls {
    places: Arc<Semaphore>,
    closing: CancellationToken,
    named: Arc<Mutex<HashMap<Name, CancellationToken>>>,
}

/// The client's id of a call, with its session: the same number means another call in another session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name {
    pub session: String,
    pub request: RequestId,
}

impl Default for Calls {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(UNDER_WAY_MAX));
        Self { places, closing: CancellationToken::new(), named: Arc::default() }
    }
}

impl Calls {
    /// Takes a place for one call; dropping the result releases it.
    pub fn enter(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Error::new(Kind::LimitExceeded, format!("{UNDER_WAY_MAX} calls are under way"))
                .hint("wait for one to end; long commands belong in the background, with `stream`")
        })
    }

    /// Returns the signal that the client lost interest in a call; any of these tokens sends it, too.
    pub fn interest(&self, ends_with: impl IntoIterator<Item = CancellationToken>) -> Interest {
        Interest { ends_with: ends_with.into_iter().chain([self.closing.clone()]).collect() }
    }

    /// Lets the client cancel a call by its name while the result is held.
    pub fn register(&self, name: Name) -> Registered {
        let token = CancellationToken::new();
        self.names().insert(name.clone(), token.clone());
        Registered { calls: self.clone(), name, token }
    }

    /// Cancels the call of this name, if there is one.
    pub fn take_back(&self, name: &Name) {
        if let Some(token) = self.names().get(name) {
            token.cancel();
        }
    }

    /// Cancels every call, now and from now on.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Waits until no call is running.
    pub async fn ended(&self) {
        let all = u32::try_from(UNDER_WAY_MAX).unwrap_or(u32::MAX);
        // Fails only if the semaphore is closed, which never happens.
        let _ = self.places.acquire_many(all).await;
    }

    /// Tells whether no call is running.
    pub fn are_none(&self) -> bool {
        self.places.available_permits() == UNDER_WAY_MAX
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Name, CancellationToken>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that can be cancelled by its name.
#[derive(Debug)]
pub struct Registered {
    calls: Calls,
    name: Name,
    token: CancellationToken,
}

impl Registered {
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.calls.names().remove(&self.name);
    }
}

/// Whether the client still wants the answer of a call.
#[derive(Debug, Clone)]
pub struct Interest {
    ends_with: Vec<CancellationToken>,
}

impl Interest {
    pub fn is_lost(&self) -> bool {
        self.ends_with.iter().any(CancellationToken::is_cancelled)
    }

    /// Waits until the client no longer wants it.
    pub async fn lost(&self) {
        let ends = self.ends_with.iter().map(|end| Box::pin(end.cancelled()));
        drop(select_all(ends).await);
    }
}
