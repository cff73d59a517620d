//! Running a command for an observer that sees its output as it comes.

use coracle_core::network::Denial;
use coracle_core::{ExecId, Result, SandboxId};

use super::ExecRequest;
use super::Execs;
use super::capture::Reader;
use crate::Call;
use crate::access::gate::Inside;
use crate::call::Running;
use crate::exec::progress::Progress;
use crate::ops::sandbox::exec;

/// A command that ran to its end; the observer of the call has its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    pub exec_id: ExecId,
    pub progress: Progress,
    /// What of the network the sandbox was refused while it ran.
    pub egress_denied: Vec<Denial>,
}

impl Execs {
    /// Runs a command to its end and hands its output to the observer. The command waits for the observer, so nothing is
    /// missed.
    pub fn run_watched(
        &self,
        call: impl Into<Call>,
        sandbox: &SandboxId,
        request: &ExecRequest,
    ) -> Result<Watched> {
        let call = call.into();
        self.access.performing(&call, &exec::FACTS, || {
            self.watch_in(&call, self.entry.enter(&call, sandbox)?, request)
        })
    }

    pub(crate) fn watch_in(&self, call: &Call, mut inside: Inside, request: &ExecRequest) -> Result<Watched> {
        let denied = self.egress.last_denial(&inside.record);
        let exec_id = self.id_of(request)?;
        let started = self.start_as(call, &mut inside, request, exec_id, Reader::Attends)?;
        let exec = &started.exec_id;
        call.observer.started(&Running { sandbox: &inside.record.id, exec, existing: started.existing })?;
        let mut progress = Progress::lost();
        let record = inside.record.clone();
        let mut follow = self.follow_attended(call, inside, exec)?;
        while let Some(batch) = follow.next_batch()? {
            batch.chunks.iter().try_for_each(|chunk| call.observer.output(chunk))?;
            progress = batch.progress;
        }
        let egress_denied = self.egress.denied_since(&record, denied);
        Ok(Watched { exec_id: started.exec_id, progress, egress_denied })
    }
}
