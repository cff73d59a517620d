//! Turns by name: what is done under one name is done one after the other, and waits for no other name.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Names that are taken.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    taken: Mutex<BTreeSet<String>>,
    freed: Condvar,
}

/// A name that is taken until this is dropped.
#[derive(Debug)]
#[must_use = "it lasts as long as what is returned"]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    name: String,
}

impl Turns {
    /// Takes a name, and waits while it is taken.
    pub fn take(&self, name: String) -> Turn<'_> {
        let is_taken = |taken: &mut BTreeSet<String>| taken.contains(&name);
        let waited = self.freed.wait_while(self.lock(), is_taken);
        waited.unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        Turn { turns: self, name }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().remove(&self.name);
        self.turns.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_at_a_time_has_a_name_and_others_do_not_wait() {
        let (turns, inside, most) = (Turns::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let _other = turns.take("other".to_owned());

        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _turn = turns.take("same".to_owned());
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });

        assert_eq!(most.into_inner(), 1);
    }
}
