//! One command in a sandbox of its own, which is gone afterwards, however the command ended. The same for every door.
//!
//! No other process could read its output, so the sandbox is tied to this one: it ends with this process, however that
//! dies. A detached one stays, and is not tied.

use std::fmt;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use coracle_core::backend::EndsWith;
use coracle_core::cancel::Registration;
use coracle_core::difference::Wish;
use coracle_core::exec::Outcome;
use coracle_core::selection::Refusal;
use coracle_core::spec::{Purpose, Runtime, SpecInput};
use coracle_core::{Error, ExecId, Kind, Record, Result, SandboxId, SessionKey, Spec};

use super::Lifecycle;
use crate::access::gate::Inside;
use crate::access::tie::Tied;
use crate::call::{Call, Notice, Placed};
use crate::exec::cancel::{AtCancel, cut_at_cancel};
use crate::exec::{Captured, ExecRequest, Watched, image};
use crate::files::{self, NewFile};
use crate::lifecycle::sessions::{Existing, Session, missing_walls};
use crate::lifecycle::spares::RemoteSpares;
use crate::ops::sandbox::run;
use crate::progress::Progress;

/// What is to be done in a sandbox of its own.
pub struct OneCommand {
    /// What the sandbox shall be; its language chooses the image even where no program text is run.
    pub spec: SpecInput,
    /// The name the sandbox has while it is there; refused if there is one of that name.
    pub name: Option<SessionKey>,
    /// Set where program text is run.
    pub runtime: Option<Runtime>,
    /// What is written before the command starts.
    pub files: Vec<(NewFile, Box<dyn Read + Send>)>,
    /// Without a command where the image's own is to be run; which one that is shows when the image is here.
    pub request: ExecRequest,
    pub output: OutputTo,
    pub pool: Pool,
}

impl fmt::Debug for OneCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneCommand").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Where the output of a command goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputTo {
    /// Into the answer.
    Answer,
    /// To the observer of the call, as it comes.
    Observer,
}

/// How it ended.
#[derive(Debug)]
pub struct Ran {
    pub sandbox: SandboxId,
    pub backend: String,
    /// Backends that came before that one and were not used, with the reason.
    pub refused: Vec<Refusal>,
    pub end: End,
}

/// A command that has ended.
#[derive(Debug)]
pub enum End {
    Captured(Captured),
    /// The observer has its output.
    Watched(Watched),
}

/// Who keeps spares for this process, if another one does.
type Pool = Option<Arc<dyn RemoteSpares>>;

/// A connection to a sandbox in which the command can start.
struct There {
    inside: Inside,
    /// An interpreter that waits for a program.
    warm: Option<ExecId>,
    _cut: Registration,
}

impl End {
    pub fn progress(&self) -> &Progress {
        match self {
            Self::Captured(captured) => &captured.progress,
            Self::Watched(watched) => &watched.progress,
        }
    }
}

impl Lifecycle {
    /// Makes a sandbox, runs the command in it and removes it.
    pub fn run(&self, call: impl Into<Call>, command: OneCommand) -> Result<Ran> {
        let call = call.into();
        self.access.performing(&call, &run::FACTS, || self.run_one(&call, command))
    }

    /// Makes a sandbox that stays, starts the command in it and returns the sandbox.
    pub fn run_detached(&self, call: impl Into<Call>, mut command: OneCommand) -> Result<SandboxId> {
        let call = call.into();
        self.access.performing(&call, &run::FACTS, || {
            let (mut session, _) = self.open_for(&call, &mut command, Purpose::Session)?;
            session.cool_down()?;
            let id = session.record.id.clone();
            let started = self
                .move_in(&call, session, &mut command)
                .and_then(|mut there| self.execs.start_in(&call, &mut there.inside, &command.request));
            match started {
                Ok(_) => Ok(id),
                Err(error) => match self.dismiss(&call.caller.of_its_own(), &id) {
                    Ok(()) => Err(error),
                    Err(left) => Err(error.detail("not_removed", left.chain())),
                },
            }
        })
    }

    pub(crate) fn run_one(&self, call: &Call, mut command: OneCommand) -> Result<Ran> {
        // A new sandbox has an epoch of its own; the caller's is about others.
        let owner = call.on_behalf_of(call.caller.under(None));
        let maker = self.tied_to_this_process();
        let (session, pool) = maker.open_for(&owner, &mut command, Purpose::OneCommand)?;
        let Record { id, backend, refused, .. } = session.record.clone();

        // Another handle of the connection: the guest is not to end by itself while it is removed.
        let mut tied = None;
        let end = maker.work(&owner, session, &mut command, &mut tied).and_then(|end| {
            // The connection was cut, so its end was not seen.
            if end.progress().outcome == Some(Outcome::Lost) {
                call.cancel.check()?;
            }
            Ok(end)
        });
        // What it broke off at is of no interest.
        let end = end.map_err(|error| call.cancel.check().err().unwrap_or(error));
        let removed = match pool.is_some_and(|pool| pool.dismiss(&owner.caller, &id)) {
            true => Ok(()),
            false => self.dismiss(&owner.caller.of_its_own(), &id),
        };
        drop(tied);
        // What the command did is worth more than a complaint about cleaning up, which the janitor repeats.
        match (end, removed) {
            (Ok(end), removed) => {
                if let Err(left) = removed {
                    call.observer.notice(&Notice::NotRemoved { reason: left.chain() });
                }
                Ok(Ran { sandbox: id, backend, refused, end })
            }
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(left)) => Err(error.detail("not_removed", left.chain())),
        }
    }

    /// Returns a new sandbox: what runs in it is the caller's alone. With it comes the pool that may remove
    /// it, wherever it came from.
    fn open_for(&self, call: &Call, command: &mut OneCommand, purpose: Purpose) -> Result<(Session, Pool)> {
        let wanted = std::mem::take(&mut command.spec);
        let spec = self.access.resolve_for(&call.caller, wanted.clone(), purpose)?;
        // Where no program text is run, the language has chosen the image and is of no more use.
        let spec = Spec { runtime: command.runtime, ..spec };
        if let Some(name) = &command.name {
            return Ok((self.open_named(call, name, &Wish { written: wanted, spec })?, None));
        }
        let pool = command.pool.take();
        match pool.as_ref().and_then(|pool| pool.take(&call.caller, &spec)) {
            Some(record) => Ok((Session::given(record), pool)),
            None => Ok((self.open_session(call, &spec)?, pool)),
        }
    }

    fn open_named(&self, call: &Call, name: &SessionKey, wish: &Wish) -> Result<Session> {
        match self.open_by_key(call, name, wish, Existing::Keep) {
            Ok(session) if !session.created => Err(taken(name, session.record.id.as_str())),
            // That it is another than was asked for does not matter here.
            Err(error) if error.details.contains_key("differences") => {
                let id = error.details.get("sandbox_id").and_then(|id| id.as_str());
                Err(taken(name, id.unwrap_or_default()))
            }
            opened => opened,
        }
    }

    /// Does everything over one connection to the guest.
    fn work(
        &self,
        call: &Call,
        session: Session,
        command: &mut OneCommand,
        tied: &mut Option<UnixStream>,
    ) -> Result<End> {
        let There { mut inside, warm, _cut } = self.move_in(call, session, command)?;
        *tied = inside.guest.handle().ok();
        let request = &command.request;
        if command.output == OutputTo::Observer {
            return self.execs.watch_in(call, inside, request).map(End::Watched);
        }
        let ran =
            warm.map(|exec| self.execs.run_warm(call, &mut inside, exec, request)).transpose()?.flatten();
        let captured =
            ran.map_or_else(|| self.execs.run_until(call, &mut inside, request, AtCancel::CutOff), Ok);
        captured.map(End::Captured)
    }

    /// Connects to a new sandbox and brings everything the command needs.
    fn move_in(&self, call: &Call, session: Session, command: &mut OneCommand) -> Result<There> {
        let Session { record, guest, tied, warm, .. } = session;
        call.cancel.check()?;
        let guest = match guest {
            Some(guest) => guest,
            None => self.access.reach(&record, record.lease.epoch())?,
        };
        let _cut = cut_at_cancel(call, &guest)?;
        let mut inside = Inside { tied, ..Inside::new(record, guest) };
        if self.ends_with == EndsWith::Maker && inside.tied.is_none() {
            self.access.tie(call, &mut inside, Tied::Sandbox)?;
        }
        call.observer.placed(&Placed {
            sandbox: &inside.record.id,
            backend: &inside.record.backend,
            refused: &inside.record.refused,
            missing: &missing_walls(&inside.record),
        })?;
        let request = &mut command.request;
        if request.argv.is_empty() {
            request.argv = image::command(&inside.record)?;
        }
        for (file, contents) in &mut command.files {
            files::write(&mut inside, file, contents)?;
        }
        Ok(There { inside, warm, _cut })
    }
}

fn taken(name: &SessionKey, id: &str) -> Error {
    Error::new(Kind::Conflict, format!("there is a sandbox `{name}` already: `{id}`"))
        .hint(format!("use it with `coracle exec`, or remove it with `coracle rm {id}`"))
        .detail("sandbox_id", id)
}
