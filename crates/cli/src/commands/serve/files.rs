//! How many files the daemon may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than all possible connections and calls ever need. Not the hard limit: programs the daemon starts inherit it,
/// and some close every possible descriptor.
const WANTED: u64 = 1 << 16;

/// Raises the limit as far as allowed and useful. Returns the new one.
pub fn raise_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(WANTED, |most| most.min(WANTED));
    let now = limit.current.unwrap_or(u64::MAX);
    let raised = wanted > now
        && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).is_ok();
    usize::try_from(if raised { wanted } else { now }).unwrap_or(usize::MAX)
}
