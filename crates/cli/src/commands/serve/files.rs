//! How many files the daemon may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than all connections and calls there may be at once would ever need. Not simply all that is allowed: programs the
/// daemon starts inherit it, and some close every number there could be.
const WANTED: u64 = 1 << 16;

/// Raises the limit as far as it is allowed and useful. Returns what it is now.
pub fn raise_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(WANTED, |most| most.min(WANTED));
    let now = limit.current.unwrap_or(u64::MAX);
    let raised = wanted > now
        && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).is_ok();
    usize::try_from(if raised { wanted } else { now }).unwrap_or(usize::MAX)
}
