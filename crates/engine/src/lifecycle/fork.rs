//! Forking: sandboxes of their own that start with the files of another, all of them or none.
//!
//! Their rows come first. Then the sandbox is held for as long as its files are taken, and goes on. What is taken shows
//! nowhere until a child uses it, so a crash at any point leaves rows that the janitor ends, and a sandbox that its
//! guest lets go when the connection that held it ends, or is not heard of any more.

use std::time::{Duration, Instant};

use coracle_core::forking::{ForkSource, Forking, HeldSandbox, Method};
use coracle_core::mount::Access;
use coracle_core::redact;
use coracle_core::store::{Opened, Quota, Work};
use coracle_core::{
    Backend, Cancel, Error, ImageId, Kind, Lease, Record, Result, SandboxId, SessionKey, image, tenant,
};

use super::Lifecycle;
use crate::guest::hold::Hold;
use crate::placement::backends::Choice;
use crate::random::random;
use crate::{Call, Caller, crash};

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub parent: &'a SandboxId,
    /// One child each, with the key it is found again by.
    pub keys: Vec<Option<SessionKey>>,
    /// What the parent shares with others through its mounts, its children may share, too.
    pub share_mounts: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Forked {
    pub children: Vec<Record>,
    pub method: Method,
    /// How long the parent stood still.
    pub held: Duration,
}

/// Files that were taken, and how long that took.
struct Files<'a> {
    source: Box<dyn ForkSource + 'a>,
    held: Duration,
}

/// A child to be, and the right to work on it.
struct Child {
    record: Record,
    _work: Box<dyn Work>,
}

impl Lifecycle {
    pub(crate) fn fork(&self, call: &Call, plan: &Plan<'_>) -> Result<Forked> {
        let caller = &call.caller;
        self.entry.rouse(call, plan.parent)?;
        self.running_or_paused(caller, plan.parent, "fork")?;
        self.headroom.expect("fork a sandbox")?;
        let _work = self.records.store().work_on(plan.parent, &call.cancel)?;
        let parent = self.running_or_paused(caller, plan.parent, "fork")?;
        check_mounts(&parent, plan.share_mounts)?;
        let children = self.announce(caller, plan, &parent)?;
        self.records.crash_at(crash::FORK_ROWS_AFTER);
        let Files { source, held } = match self.take_files(call, &parent) {
            Ok(files) => files,
            Err(error) => return Err(self.give_up(children, error)),
        };
        self.records.crash_at(crash::FORK_FILES_AFTER);
        let method = source.method();
        let children = self.bring_up_all(call, children, &*source)?;
        self.records.crash_at(crash::FORK_CHILDREN_AFTER);
        Ok(Forked { children, method, held })
    }

    /// Writes the rows of all children, none of which is there yet.
    fn announce(&self, caller: &Caller, plan: &Plan<'_>, parent: &Record) -> Result<Vec<Child>> {
        let mut children = Vec::with_capacity(plan.keys.len());
        for (written, key) in plan.keys.iter().enumerate() {
            // Places for all that are still to come: the first is refused where the last would be.
            let (tenant, more) = (parent.tenant.as_ref(), plan.keys.len() - written);
            let quota = self.access.quota(tenant, &parent.spec, more);
            match self.announce_one(caller, key.as_ref(), parent, quota) {
                Ok(child) => children.push(child),
                Err(error) => return Err(self.give_up(children, error)),
            }
        }
        Ok(children)
    }

    fn announce_one(
        &self,
        caller: &Caller,
        key: Option<&SessionKey>,
        parent: &Record,
        quota: Option<Quota>,
    ) -> Result<Child> {
        let choice = Choice { backend: self.placement.backend_of(parent)?, refused: &parent.refused };
        let draft = Record {
            tenant: parent.tenant.clone(),
            forked_from: Some(parent.id.clone()),
            // Its work tree stands on the parent's branch.
            repo: parent.repo.clone(),
            // What was taken from the parent's network does not come back with a child.
            narrowed: parent.narrowed.clone(),
            ..self.draft(Lease::new(caller.claim.run.clone()), key, &parent.spec, &choice)?
        };
        // Before the row: a `creating` row whose work lock is free then means that its maker is dead.
        let work = self.records.store().work_on(&draft.id, &Cancel::default())?;
        match self.records.store().open_within(draft, quota)? {
            Opened::Created(record) => Ok(Child { record, _work: work }),
            Opened::Existing(other) => Err(taken(&other)),
        }
    }

    /// Keeps the files of a sandbox as an image. A call that is cancelled before they are all copied leaves none.
    pub(crate) fn snapshot(&self, call: &Call, id: &SandboxId) -> Result<image::Stored> {
        let caller = &call.caller;
        self.entry.rouse(call, id)?;
        self.running_or_paused(caller, id, "snapshot")?;
        self.headroom.expect("keep a snapshot")?;
        let _work = self.records.store().work_on(id, &call.cancel)?;
        let record = self.running_or_paused(caller, id, "snapshot")?;
        let image = ImageId::generate(self.records.now(), random()?);
        let backend = self.placement.backend_of(&record)?;
        self.holdings.hold_snapshot(&record, backend, || {
            self.with_held(call, &record, |held| {
                forking(backend.as_ref(), "keep a sandbox's files as an image")?.snapshot(held, &image)
            })
        })
    }

    /// Takes the files of a sandbox.
    fn take_files(&self, call: &Call, parent: &Record) -> Result<Files<'_>> {
        let backend = self.placement.backend_of(parent)?;
        let began = Instant::now();
        let source = self
            .with_held(call, parent, |held| forking(backend.as_ref(), "fork a sandbox")?.fork_source(held))?;
        Ok(Files { source, held: began.elapsed() })
    }

    /// Does something while a sandbox is held as it is.
    fn with_held<T>(
        &self,
        call: &Call,
        parent: &Record,
        deed: impl FnOnce(&HeldSandbox<'_>) -> Result<T>,
    ) -> Result<T> {
        let placement = parent.placement.as_ref().ok_or_else(|| crate::records::unknown(&parent.id))?;
        let hold = Hold::of(&parent.id, self.access.reach(parent, parent.lease.epoch())?)?;
        self.records.crash_at(crash::FORK_HOLD_AFTER);
        let none = image::Config::default();
        let spec = tenant::spec_of(parent.tenant.as_ref(), &parent.spec)?;
        let held = HeldSandbox {
            sandbox: &parent.id,
            placement,
            spec: &spec,
            tenant: parent.tenant.as_ref(),
            image: parent.image.as_ref().unwrap_or(&none),
            grip: &hold,
            idle: hold.is_idle(),
            cancel: &call.cancel,
        };
        let done = hold.keep_while(|| deed(&held));
        hold.let_go();
        done
    }

    /// Makes every child, or none: one that fails takes the others with it.
    fn bring_up_all(
        &self,
        call: &Call,
        children: Vec<Child>,
        source: &dyn ForkSource,
    ) -> Result<Vec<Record>> {
        let mut ready = Vec::with_capacity(children.len());
        let mut waiting = children.into_iter();
        loop {
            // Also behind the last: its caller no longer wants any of them.
            if let Err(error) = call.cancel.check() {
                let error = self.close_all(&call.caller, &ready, error);
                return Err(self.give_up(waiting.collect(), error));
            }
            let Some(child) = waiting.next() else { return Ok(ready) };
            match self.provision_from(&child.record, source) {
                Ok(record) => ready.push(record),
                Err(error) => {
                    drop(child);
                    let error = self.close_all(&call.caller, &ready, error);
                    return Err(self.give_up(waiting.collect(), error));
                }
            }
        }
    }

    fn close_all(&self, caller: &Caller, ready: &[Record], error: Error) -> Error {
        // Their epoch is another than that of their parent, which the caller may insist on.
        let owner = Call::by(caller.of_its_own());
        let closed = ready.iter().map(|record| self.close(&owner, &record.id));
        closed.filter_map(Result::err).fold(error, |error, left| error.detail("not_removed", left.chain()))
    }

    /// Records of children that were never made that they will not be.
    fn give_up(&self, children: Vec<Child>, error: Error) -> Error {
        let ended = children.iter().map(|child| {
            let reason = format!("its fork failed: {}", redact::reason(&child.record, &error));
            self.fail(&child.record, &reason)
        });
        let left: Vec<_> = ended.filter_map(Result::err).collect();
        left.into_iter().fold(error, |error, left| error.detail("not_removed", left.chain()))
    }
}

/// Returns the part of a backend that forks and snapshots, or refuses: not every backend has it.
fn forking<'a>(backend: &'a dyn Backend, attempt: &str) -> Result<&'a dyn Forking> {
    backend.forking().ok_or_else(|| {
        let name = backend.name();
        Error::new(Kind::Unsupported, format!("backend `{name}` cannot {attempt}"))
            .hint("the native backend can")
            .detail("backend", name)
    })
}

/// Refuses to share what can be written to unless the caller says so: children would write into each other's.
fn check_mounts(parent: &Record, share: bool) -> Result<()> {
    let shared = parent.spec.mounts.iter().find(|mount| mount.access == Access::ReadWrite);
    match shared.filter(|_| !share) {
        None => Ok(()),
        Some(mount) => Err(Error::new(
            Kind::Conflict,
            format!(
                "could not fork sandbox `{}`: what is mounted at `{}` would be shared",
                parent.id, mount.target
            ),
        )
        .hint("set `share_mounts` if its forks are to write there, too")
        .detail("sandbox_id", parent.id.as_str())
        .detail("mount", mount.target.as_str())),
    }
}

fn taken(other: &Record) -> Error {
    let key = other.key.as_ref().map(ToString::to_string).unwrap_or_default();
    Error::new(Kind::Conflict, format!("session key `{key}` is taken by sandbox `{}`", other.id))
        .hint("choose another, or close that one")
        .detail("session_key", key)
}
