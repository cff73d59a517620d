//! Re-checks every 5 s that an open stream's token is still valid: a stream has no next request that would be refused.

use std::time::{Duration, Instant};

use super::Service;
use super::auth::{self, Identity};

/// How long a stream may outlive its token.
const EVERY: Duration = Duration::from_secs(5);

/// The reader of a stream, and when its token was checked last.
#[derive(Debug)]
pub struct TokenRecheck {
    pub identity: Identity,
    pub service: Service,
    checked: Instant,
}

impl TokenRecheck {
    pub fn new(identity: Identity, service: Service) -> Self {
        Self { identity, service, checked: Instant::now() }
    }

    /// Tells whether the token would be accepted now, too.
    pub async fn is_valid(&mut self) -> bool {
        if self.checked.elapsed() < EVERY {
            return true;
        }
        self.checked = Instant::now();
        auth::is_still_valid(&self.service, &self.identity).await
    }
}
