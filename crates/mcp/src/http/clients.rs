//! The clients that have running calls, each with its own bound.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use coracle_core::{Error, Kind, Result};

use crate::Calls;

/// Callers that may have running calls at once; a home has fewer tokens.
const CLIENTS_MAX: usize = 1024;

/// Calls by their caller, as the audit log names it.
#[derive(Debug, Default)]
pub struct Clients {
    calls: Mutex<HashMap<String, Calls>>,
}

impl Clients {
    /// Returns the calls of a caller.
    pub fn calls_of(&self, who: &str) -> Result<Calls> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= CLIENTS_MAX && !calls.contains_key(who) {
            // A caller without running calls starts from the same state anew.
            calls.retain(|_, calls| !calls.are_none());
            if calls.len() >= CLIENTS_MAX {
                return Err(Error::new(Kind::LimitExceeded, "too many clients have calls under way")
                    .hint("wait until some of them have ended, then ask again"));
            }
        }
        Ok(calls.entry(who.to_owned()).or_default().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_too_many_gets_a_hint_and_the_others_go_on() {
        let clients = Clients::default();
        let busy: Vec<_> = (0..CLIENTS_MAX)
            .map(|who| {
                clients.calls_of(&who.to_string()).and_then(|calls| calls.enter()).expect("there is room")
            })
            .collect();

        let refused = clients.calls_of("one more").expect_err("all of them have something under way");

        assert_eq!(refused.kind, Kind::LimitExceeded);
        assert!(refused.hint.is_some(), "{refused:?}");
        assert!(clients.calls_of("7").is_ok(), "who is known goes on");
        drop(busy);
        assert!(clients.calls_of("one more").is_ok(), "who has nothing under way makes room");
    }
}
