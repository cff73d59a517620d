//! Ties of the fake guest: what ends with the last connection it is tied to. No grace: whoever leaves has left.

use std::collections::{BTreeMap, BTreeSet};

use coracle_wire::Ending;

use super::Guest;

/// Which execs are tied. The sandbox itself has no name.
#[derive(Debug, Default)]
pub struct Ties {
    /// By how many connections.
    tied: BTreeMap<Option<String>, usize>,
    /// Execs whose client has gone before they were started.
    gone: BTreeSet<String>,
}

impl Ties {
    /// Has an exec end with no connection, and forgets that its client has gone.
    pub fn untie(&mut self, exec: &str) {
        self.tied.remove(&Some(exec.to_owned()));
        self.gone.remove(exec);
    }

    /// Tells whether the client that is about to start this exec has gone.
    pub fn is_over(&self, exec: &str) -> bool {
        self.gone.contains(exec)
    }
}

impl Guest {
    /// Ties a connection. What was started untied stays so.
    pub(super) fn tie(&self, exec: Option<&str>) {
        let mut state = self.state();
        let name = exec.map(str::to_owned);
        let untied = exec.is_some_and(|exec| state.execs.has(exec)) && !state.ties.tied.contains_key(&name);
        if !untied {
            *state.ties.tied.entry(name).or_default() += 1;
        }
    }

    /// Takes note that a connection has ended to which something was tied.
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
