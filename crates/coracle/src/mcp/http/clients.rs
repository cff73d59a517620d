//! The clients that have calls under way, each with a share of its own.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use coracle_core::{Error, Kind, Result};

use crate::mcp::Calls;

/// Callers that may have something under way at once; the tokens of a home are fewer.
const CLIENTS_MAX: usize = 1024;

/// Calls by who made them, as the audit log names them.
#[derive(Debug, Default)]
pub struct Clients {
    calls: Mutex<HashMap<String, Calls>>,
}

impl Clients {
    /// Returns the calls of a caller.
    pub fn calls_of(&self, who: &str) -> Result<Calls> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= CLIENTS_MAX && !calls.contains_key(who) {
            // Whoever has nothing under way finds the same again.
            calls.retain(|_, calls| !calls.are_none());
            if calls.len() >= CLIENTS_MAX {
                return Err(Error::new(Kind::LimitExceeded, "too many clients have calls under way"));
            }
        }
        Ok(calls.entry(who.to_owned()).or_default().clone())
    }
}
