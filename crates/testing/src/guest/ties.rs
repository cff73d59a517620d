//! Ties of the fake guest: what ends with the last connection it is tied to. There is no grace period.

use std::collections::{BTreeMap, BTreeSet};

use coracle_wire::Ending;

use super::Guest;

/// What is tied: execs by id, and the sandbox itself as `None`.
#[derive(Debug, Default)]
pub struct Ties {
    /// The number of connections each is tied to.
    tied: BTreeMap<Option<String>, usize>,
    /// Execs whose client left before they were started.
    gone: BTreeSet<String>,
}

impl Ties {
    /// Unties an exec, and forgets that its client left.
    pub fn untie(&mut self, exec: &str) {
        self.tied.remove(&Some(exec.to_owned()));
        self.gone.remove(exec);
    }

    /// Tells whether the client that is about to start this exec has left.
    pub fn is_over(&self, exec: &str) -> bool {
        self.gone.contains(exec)
    }
}

impl Guest {
    /// Ties a connection. An exec that was started untied stays so.
    pub(super) fn tie(&self, exec: Option<&str>) {
        let mut state = self.state();
        let name = exec.map(str::to_owned);
        let untied = exec.is_some_and(|exec| state.execs.has(exec)) && !state.ties.tied.contains_key(&name);
        if !untied {
            *state.ties.tied.entry(name).or_default() += 1;
        }
    }

    /// Handles the end of a connection with a tie.
    pub(super) fn end_tie(&self, exec: Option<&str>) {
        let mut state = self.state();
        let name = exec.map(str::to_owned);
        let Some(left) = state.ties.tied.get_mut(&name) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        state.ties.tied.remove(&name);
        let started = exec.is_some_and(|exec| state.execs.has(exec));
        state.ties.gone.extend(name.filter(|_| !started));
        drop(state);
        match exec {
            None => self.die(),
            Some(exec) if started => {
                // It may have ended by itself.
                let _ = self.want(exec, Ending::Stopped);
            }
            Some(_) => {}
        }
    }
}
