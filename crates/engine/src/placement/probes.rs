//! What each backend can do here, asked of all at once: one that does not answer does not delay the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use coracle_core::backend::{Probe, Profile};
use coracle_core::selection::AUTO;
use coracle_core::{Backend, Result};
use schemars::JsonSchema;
use serde::Serialize;

use super::Placement;

/// Backends on this machine answer within seconds; one at the end of a line is given time to be called.
const PATIENCE: Duration = Duration::from_secs(3);

/// A backend and what it can do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Probed {
    pub name: String,
    /// It is what a caller gets who names none.
    pub default: bool,
    #[serde(flatten)]
    pub probe: Probe,
}

impl Placement {
    /// Asks the roll-call, and what the operator's choice names besides.
    pub fn probe_all(&self) -> Vec<Probed> {
        let backends = self.listed();
        let answers = ask(&backends);
        let deadline = Instant::now() + PATIENCE;
        let mut probes = BTreeMap::new();
        while probes.len() < backends.len() {
            let Ok((index, probe)) = answers.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            else {
                break;
            };
            probes.insert(index, probe);
        }
        let default = self.default_name();
        let told = backends.iter().enumerate().map(|(index, (name, backend))| Probed {
            name: name.clone(),
            default: default.as_deref() == Some(name),
            probe: match backend {
                Ok(_) => probes.remove(&index).unwrap_or_else(silent),
                Err(error) => absent(error.chain()),
            },
        });
        told.collect()
    }

    /// Lists the roll-call and what the operator's choice names besides, once each.
    fn listed(&self) -> Vec<(String, Result<&Arc<dyn Backend>>)> {
        let preference = &self.preference;
        let written = preference.backend.iter().chain(&preference.fallback);
        let mut names: Vec<_> = self.backends().iter().map(|backend| backend.name().to_owned()).collect();
        for name in written.chain(preference.order.iter().flatten()).filter(|name| *name != AUTO) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names.into_iter().map(|name| (name.clone(), self.named(&name))).collect()
    }

    /// Returns what a caller gets who names none; nothing where that depends on the sandbox.
    fn default_name(&self) -> Option<String> {
        let first = || self.backends().first().map(|backend| backend.name().to_owned());
        self.preference.backend.clone().or_else(first).filter(|name| name != AUTO)
    }
}

/// Asks each on a thread of its own. One that never answers ends with the process.
fn ask(backends: &[(String, Result<&Arc<dyn Backend>>)]) -> Receiver<(usize, Probe)> {
    // Room for every answer: no thread waits for us to listen.
    let (sender, answers) = mpsc::sync_channel(backends.len());
    for (index, (_, backend)) in backends.iter().enumerate() {
        let Ok(backend) = backend else { continue };
        let (backend, sender) = (Arc::clone(backend), sender.clone());
        // A backend that cannot be asked has not answered.
        let _ = std::thread::Builder::new().name("probe".to_owned()).spawn(move || {
            let _ = sender.send((index, backend.probe()));
        });
    }
    answers
}

fn silent() -> Probe {
    absent(format!("it did not answer within {} seconds", PATIENCE.as_secs()))
}

fn absent(reason: String) -> Probe {
    Probe {
        available: false,
        reason: Some(reason),
        version: None,
        endpoint: None,
        profile: Profile::default(),
    }
}
