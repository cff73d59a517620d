//! The janitor's visit in passing: a sweep for a caller that has something else to do, and waits for no engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use coracle_core::backend::Silence;
use coracle_core::{Backend, Result};

use super::Upkeep;
use crate::egress::weak::{self, Wall};
use crate::spans;
use crate::upkeep::janitor::Report;

/// What a sweep did that waits for no engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Glance {
    pub report: Report,
    /// The backends whose engines did not answer in time, now or lately: what is known of their sandboxes may be old.
    pub silent: Vec<String>,
}

impl Upkeep {
    /// Sweeps for a caller that has something else to do. An engine has this long to answer and to do what there is to
    /// do; after that the caller goes on, and the sweep continues on its thread until the process exits. An engine that
    /// did not answer is not asked again for a while.
    pub fn glance(&self, patience: Duration) -> Result<Glance> {
        spans::within(spans::sweep(), || {
            let mut glance = Glance::default();
            for backend in self.inhabited(&mut glance.report.trouble)? {
                match backend.silence().filter(|_| !weak::off(Wall::Sweeps)) {
                    None => self.sweep_one(backend, &mut glance.report, &|| {}),
                    Some(silence) => self.sweep_aside(backend, silence, patience, &mut glance),
                }
            }
            self.sweep_home(&mut glance.report)?;
            Ok(glance)
        })
    }

    /// Sweeps one backend on a thread, and waits for it no longer than `patience`.
    fn sweep_aside(
        &self,
        backend: &Arc<dyn Backend>,
        silence: &dyn Silence,
        patience: Duration,
        glance: &mut Glance,
    ) {
        if silence.is_noted() {
            glance.silent.push(backend.name().to_owned());
            return;
        }
        let (done, finished) = mpsc::channel();
        let answered = Arc::new(AtomicBool::new(false));
        let (upkeep, asked, heard) = (self.clone(), Arc::clone(backend), Arc::clone(&answered));
        let sweep = move || {
            let mut report = Report::default();
            upkeep.sweep_one(&asked, &mut report, &|| heard.store(true, Ordering::SeqCst));
            // The call may have gone on.
            let _ = done.send(report);
        };
        if let Err(error) = std::thread::Builder::new().spawn(sweep) {
            // Our own lack is no word about the engine.
            glance.report.trouble.push(format!("{}: {error}", backend.name()));
            return;
        }
        match finished.recv_timeout(patience) {
            Ok(report) => glance.report.add(report),
            // It is at work.
            Err(_) if answered.load(Ordering::SeqCst) => {}
            Err(_) => {
                silence.note();
                glance.silent.push(backend.name().to_owned());
            }
        }
    }
}
