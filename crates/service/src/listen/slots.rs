//! Bounds the number of connections, so that the daemon has descriptors left for its own work. If all slots are
//! taken, the connection that has been silent for longest makes room: a client with a request is served, however many
//! clients only hold a connection open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Connections at once on one listener. Each costs some kilobytes.
const MOST: usize = 4096;
/// With fewer the daemon would be useless.
const FEWEST: usize = 8;
/// What the daemon opens independently of its clients: its database and logs, spares and their locks, a sweep, and a
/// sandbox that is being made.
const RESERVE: usize = 192;
/// What one connection takes at most: itself and, for a WebSocket, three connections to a guest, a handle to cut
/// each, and two descriptors to watch its keeper; one spare for a descriptor passed while a connection is made.
const EACH: usize = 10;

/// How long a connection may be silent before it makes room: a client sends its request within that time, also on a
/// busy machine.
const GRACE: Duration = Duration::from_millis(500);

/// Returns how many connections each of `listeners` may have, if `files` files may be open.
pub fn for_each(listeners: usize, files: usize) -> usize {
    (files.saturating_sub(RESERVE) / EACH / listeners.max(1)).clamp(FEWEST, MOST)
}

/// The slots of one listener. All clones share them.
#[derive(Debug, Clone)]
pub struct ConnectionSlots {
    max: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    last: u64,
    /// The connections without a pending request, the longest silent first.
    silent: BTreeMap<u64, Silent>,
}

#[derive(Debug)]
struct Silent {
    since: Instant,
    /// Ends the connection.
    end: CancellationToken,
}

/// The result of asking for a slot.
#[derive(Debug)]
enum Asked {
    Slot(Arc<ConnectionSlot>),
    /// A silent connection makes room after this time, unless a slot is freed before.
    Later(Duration),
    /// All are busy.
    Full,
}

/// A taken slot. Dropping it releases it.
#[derive(Debug)]
pub struct ConnectionSlot {
    slots: ConnectionSlots,
    /// Cancelled when the connection has to make room.
    end: CancellationToken,
    /// Its number among the silent ones; `None` while a request is pending.
    silent: Mutex<Option<u64>>,
}

/// A request is pending on the connection, or the connection was upgraded. Until this is dropped it makes no room for
/// others.
#[derive(Debug)]
pub struct Busy(Arc<ConnectionSlot>);

impl ConnectionSlots {
    pub fn new(max: usize) -> Self {
        Self { max, state: Arc::default() }
    }

    /// Takes a slot; if need be, waits for the connection that has been silent for longest to make room. `None` if
    /// all are busy.
    pub async fn take(&self) -> Option<Arc<ConnectionSlot>> {
        loop {
            match self.ask(GRACE) {
                Asked::Slot(slot) => return Some(slot),
                Asked::Later(time) => sleep(time).await,
                Asked::Full => return None,
            }
        }
    }

    fn ask(&self, grace: Duration) -> Asked {
        let mut state = self.state();
        if state.taken < self.max {
            state.taken += 1;
        } else {
            let Some(longest) = state.silent.first_entry() else { return Asked::Full };
            let left = grace.saturating_sub(longest.get().since.elapsed());
            if !left.is_zero() {
                return Asked::Later(left);
            }
            // The new connection has its slot now.
            longest.remove().end.cancel();
        }
        let end = CancellationToken::new();
        let number = state.fall_silent(&end);
        drop(state);
        Asked::Slot(Arc::new(ConnectionSlot { slots: self.clone(), end, silent: Mutex::new(Some(number)) }))
    }

    /// Tells whether no slot is taken.
    pub fn are_free(&self) -> bool {
        self.state().taken == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fall_silent(&mut self, end: &CancellationToken) -> u64 {
        self.last += 1;
        self.silent.insert(self.last, Silent { since: Instant::now(), end: end.clone() });
        self.last
    }
}

impl ConnectionSlot {
    /// Waits until the connection has to make room.
    pub async fn is_wanted(&self) {
        self.end.cancelled().await;
    }

    /// Tells whether a request is pending on it.
    pub fn is_busy(&self) -> bool {
        self.silent().is_none()
    }

    /// Keeps the slot for as long as a request is pending.
    pub fn keep(self: &Arc<Self>) -> Busy {
        let mut silent = self.silent();
        if let Some(number) = silent.take() {
            let mut state = self.slots.state();
            if state.silent.remove(&number).is_none() {
                // The slot was given away at this moment. The request is still answered: one slot more counts as
                // taken until it ends, so that no other connection is let in meanwhile.
                state.taken += 1;
            }
        }
        drop(silent);
        Busy(self.clone())
    }

    fn silent(&self) -> MutexGuard<'_, Option<u64>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut silent = self.0.silent();
        // A connection that has to make room is on its way out.
        if silent.is_none() && !self.0.end.is_cancelled() {
            *silent = Some(self.0.slots.state().fall_silent(&self.0.end));
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let number = *self.silent();
        let mut state = self.slots.state();
        // A connection that is no longer among the silent ones had to make room: another one has its slot.
        let given_away = number.is_some_and(|number| state.silent.remove(&number).is_none());
        if !given_away {
            state.taken = state.taken.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a slot from a silent connection, however short it has been silent.
    fn taken(slots: &ConnectionSlots) -> Option<Arc<ConnectionSlot>> {
        match slots.ask(Duration::ZERO) {
            Asked::Slot(slot) => Some(slot),
            Asked::Later(_) | Asked::Full => None,
        }
    }

    #[test]
    fn the_longest_silent_makes_room_and_the_busy_do_not() {
        let slots = ConnectionSlots::new(2);
        let first = taken(&slots).expect("room");
        let second = taken(&slots).expect("room");
        let busy = first.keep();

        assert!(matches!(slots.ask(Duration::from_secs(60)), Asked::Later(_)), "it may still ask something");
        let third = taken(&slots).expect("the second makes room");
        assert!(second.end.is_cancelled() && !first.end.is_cancelled());
        let kept = third.keep();
        assert!(matches!(slots.ask(Duration::ZERO), Asked::Full), "all are busy");

        drop(busy);
        let fourth = taken(&slots).expect("the first is silent again");
        assert!(first.end.is_cancelled() && !third.end.is_cancelled());
        let late = first.keep();
        assert!(first.is_busy() && slots.state().taken == 3, "it was asked at the last moment");
        assert!(matches!(slots.ask(Duration::from_secs(60)), Asked::Later(_)));
        drop((first, second, third, kept, fourth, late));
        assert!(slots.are_free());
    }

    #[test]
    fn few_descriptors_make_few_places_and_leave_a_reserve() {
        for (listeners, files) in [(1, 256), (2, 1024), (1, 4096), (3, 65_536), (0, 1024)] {
            let all = for_each(listeners, files) * listeners;
            assert!(
                all * EACH + RESERVE <= files.max(RESERVE + FEWEST * EACH * listeners),
                "{listeners} {files}"
            );
        }
        assert_eq!((for_each(2, 0), for_each(1, 1 << 30)), (FEWEST, MOST));
    }
}
