//! Limits how fast a sandbox may use the network: bytes, and name lookups.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use coracle_core::network::Name;

/// How many seconds' worth of names may be looked up at once.
const BURST: f64 = 2.5;
/// A name looked up this recently is not new.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Names remembered at once.
const REMEMBERED_MAX: usize = 256;

/// A token bucket, which fills up again with time.
#[derive(Debug)]
struct Bucket {
    level: f64,
    most: f64,
    per_second: f64,
    at: Instant,
}

impl Bucket {
    fn full(per_second: f64, most: f64) -> Self {
        Self { level: most, most, per_second, at: Instant::now() }
    }

    fn fill(&mut self) {
        let now = Instant::now();
        let gained = now.duration_since(self.at).as_secs_f64() * self.per_second;
        self.level = (self.level + gained).min(self.most);
        self.at = now;
    }
}

/// Bytes per second, over both directions of all connections.
#[derive(Debug)]
pub struct Pace(Option<Mutex<Bucket>>);

impl Pace {
    pub fn new(mbit: Option<u32>) -> Self {
        let per_second = |mbit: u32| f64::from(mbit) * 125_000.0;
        Self(mbit.map(|mbit| Mutex::new(Bucket::full(per_second(mbit), per_second(mbit) / 4.0))))
    }

    /// Waits until this many bytes are within the limit.
    pub fn spend(&self, bytes: usize) {
        let Some(bucket) = &self.0 else { return };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.fill();
        bucket.level -= bytes as f64;
        let debt = -bucket.level / bucket.per_second;
        drop(bucket);
        if debt > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(debt.min(10.0)));
        }
    }
}

/// New names per second.
#[derive(Debug)]
pub struct Names(Mutex<Lookups>);

#[derive(Debug)]
struct Lookups {
    bucket: Bucket,
    recent: VecDeque<(Name, Instant)>,
}

impl Names {
    pub fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        let bucket = Bucket::full(per_second, (per_second * BURST).max(1.0));
        Self(Mutex::new(Lookups { bucket, recent: VecDeque::new() }))
    }

    /// Tells whether a name may be looked up now.
    pub fn admit(&self, name: &Name) -> bool {
        let mut lookups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        lookups.recent.retain(|(_, at)| now.duration_since(*at) < REMEMBERED);
        if lookups.recent.iter().any(|(recent, _)| recent == name) {
            return true;
        }
        lookups.bucket.fill();
        if lookups.bucket.level < 1.0 {
            return false;
        }
        lookups.bucket.level -= 1.0;
        if lookups.recent.len() == REMEMBERED_MAX {
            lookups.recent.pop_front();
        }
        lookups.recent.push_back((name.clone(), now));
        true
    }
}
