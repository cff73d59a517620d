//! Whether whoever reads a stream may still do so: a stream has no next request that would be refused.

use std::time::{Duration, Instant};

use super::Door;
use super::auth::{self, Identity};

/// How long a token that was revoked, or is over, goes on to read.
const EVERY: Duration = Duration::from_secs(5);

/// Who reads a stream, where, and when that was last looked at.
#[derive(Debug)]
pub struct Vigil {
    pub identity: Identity,
    pub door: Door,
    looked: Instant,
}

impl Vigil {
    pub fn new(identity: Identity, door: Door) -> Self {
        Self { identity, door, looked: Instant::now() }
    }

    /// Tells whether they would be let in now, too.
    pub async fn goes_on(&mut self) -> bool {
        if self.looked.elapsed() < EVERY {
            return true;
        }
        self.looked = Instant::now();
        auth::is_still_valid(&self.door, &self.identity).await
    }
}
