//! From a session key to a sandbox: atomic, idempotent, and made once however many ask at the same time.
//!
//! The call that inserts the record holds the right to work on it until the sandbox is ready or failed. Others wait for
//! that right, and so learn that the maker is done, or dead.

use std::time::Duration;

use coracle_core::difference::{Difference, Values, Wish};
use coracle_core::record::Secret;
use coracle_core::spec::OnIdle;
use coracle_core::store::{Durability, Opened, Work};
use coracle_core::{
    Backend, Error, ExecId, Kind, Lease, Record, Result, SandboxId, SessionKey, Spec, State, lease, lifecycle,
};

use super::Lifecycle;
use crate::access::expiry::is_asleep;
use crate::access::gate::Inside;
use crate::access::tie::Tied;
use crate::guest::Guest;
use crate::lifecycle::spares::Taken;
use crate::lifecycle::teardown::may_close;
use crate::placement::backends::Choice;
use crate::random::random;
use crate::{Call, Caller, crash, spans};

/// How often a key is looked up again after what it named went away. Each round means that another call made and
/// lost a sandbox in the meantime.
const ROUNDS: usize = 16;

/// What is done with a sandbox that has the key already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is returned, if it is what the caller wrote.
    Keep,
    /// It is closed, and another one is made.
    Replace,
}

/// A sandbox, and whether it was made for this call.
#[derive(Debug)]
pub(crate) struct Session {
    pub record: Record,
    pub created: bool,
    /// The line that was opened to its guest, if one was.
    pub guest: Option<Guest>,
    /// What ends with that line.
    pub tied: Option<Tied>,
    /// An interpreter that waits in it for a program.
    pub warm: Option<ExecId>,
}

impl Session {
    fn new(record: Record, created: bool, guest: Option<Guest>) -> Self {
        Self { record, created, guest, tied: None, warm: None }
    }

    /// Returns a sandbox that another process has made and given away.
    pub(crate) fn given(record: Record) -> Self {
        Self::new(record, true, None)
    }

    /// Ends the interpreter that waits: in a sandbox that was just opened nothing runs.
    pub(crate) fn cool_down(&mut self) -> Result<()> {
        if let (Some(exec), Some(guest)) = (self.warm.take(), &mut self.guest) {
            guest.stop(exec.as_str(), Some(Duration::ZERO))?;
        }
        Ok(())
    }
}

impl Lifecycle {
    /// Returns a new sandbox without a key.
    pub(crate) fn open_session(&self, call: &Call, spec: &Spec) -> Result<Session> {
        told(|| self.open_another(call, spec))
    }

    /// Returns the sandbox with this key, or a new one.
    ///
    /// One that differs from what the caller wrote is a conflict. Of several who replace a sandbox at the same time, each
    /// closes the one it found at first, and the others' new one is treated like any other that is there: all end with one.
    pub(crate) fn open_by_key(
        &self,
        call: &Call,
        key: &SessionKey,
        wish: &Wish,
        existing: Existing,
    ) -> Result<Session> {
        told(|| {
            let found = self.records.store().find_key(call.caller.tenant.as_ref(), key)?;
            match found.filter(|_| existing == Existing::Replace) {
                Some(old) => self.replace(call, key, wish, &old),
                None => self.look_up(call, key, wish),
            }
        })
    }

    /// Makes a sandbox and closes the one that has its key. The new one comes first: a directory, a user or an image it
    /// cannot be made with must not cost the old one.
    fn replace(&self, call: &Call, key: &SessionKey, wish: &Wish, old: &Record) -> Result<Session> {
        may_close(&call.caller, old)?;
        let (made, work) = self.make_successor(call, &wish.spec, old)?;
        let closed = match old.state {
            State::Destroying => self.await_worker(call, old),
            _ => self.close(call, &old.id),
        };
        let named = closed.and_then(|()| self.give_key(&made.id, key));
        match named {
            Ok(Some(record)) => Ok(Session::new(record, true, None)),
            // Another caller has replaced it meanwhile.
            Ok(None) => {
                self.remove_successor(&made, work)?;
                self.look_up(call, key, wish)
            }
            Err(error) => {
                // The error says why the old one is still there; what was made in vain is swept if this fails as well.
                let _ = self.remove_successor(&made, work);
                Err(error)
            }
        }
    }

    /// Makes a sandbox that shall have the key of another. Until then it is a spare: lists do not show it, and if we die the janitor
    /// removes it, because its work lock is free.
    fn make_successor(&self, call: &Call, spec: &Spec, old: &Record) -> Result<(Record, Box<dyn Work>)> {
        let caller = &call.caller;
        self.headroom.expect("open a sandbox")?;
        self.expect_repo(caller, spec.repo.as_ref())?;
        self.placement.on_backend(spec, |choice| {
            self.access.check_image(caller, &**choice.backend, spec)?;
            let draft = self.draft(Lease::new(caller.claim.run.clone()), None, spec, &choice)?;
            let draft = Record { tenant: caller.tenant.clone(), replaces: Some(old.id.clone()), ..draft };
            let work = self.records.store().work_on(&draft.id, &call.cancel)?;
            let quota = self.access.quota(draft.tenant.as_ref(), &draft.spec, 1);
            self.records.store().open_within(draft.clone(), quota)?;
            Ok((self.provision(&draft, lifecycle::Event::MadeAhead, call)?, work))
        })
    }

    fn remove_successor(&self, made: &Record, work: Box<dyn Work>) -> Result<()> {
        let removed = self.records.entomb(&made.id, &|_| Ok(())).and_then(|record| self.remove(&record));
        drop(work);
        removed
    }

    /// Gives a sandbox its key and its caller; `None` if another sandbox has the key.
    fn give_key(&self, sandbox: &SandboxId, key: &SessionKey) -> Result<Option<Record>> {
        self.records.crash_at(crash::REPLACE_CLOSE_AFTER);
        let given = self.records.change(sandbox, Durability::Power, &mut |mut row| {
            row.state =
                row.state.step(lifecycle::Event::Taken).map_err(|refused| refused.into_error(&row.id))?;
            (row.key, row.replaces) = (Some(key.clone()), None);
            Ok(row)
        });
        match given {
            Err(error) if error.kind == Kind::Conflict => Ok(None),
            given => given.map(Some),
        }
    }

    fn look_up(&self, call: &Call, key: &SessionKey, wish: &Wish) -> Result<Session> {
        for _ in 0..ROUNDS {
            let settled = match self.records.store().find_key(call.caller.tenant.as_ref(), key)? {
                Some(record) => self.settle(call, record, wish)?,
                None => self.open_new(call, Some(key), &wish.spec)?,
            };
            if let Some(session) = settled {
                return Ok(session);
            }
        }
        Err(contended().detail("session_key", key.as_str()))
    }

    /// Returns a new sandbox, made ahead or made now.
    fn open_another(&self, call: &Call, spec: &Spec) -> Result<Session> {
        self.headroom.expect("open a sandbox")?;
        match self.take_spare(&call.caller, spec)? {
            Some(Taken { inside: Inside { record, guest, tied }, warm }) => {
                Ok(Session { tied, warm, ..Session::new(record, true, Some(guest)) })
            }
            None => self.open_new(call, None, spec)?.ok_or_else(contended),
        }
    }

    /// Makes a sandbox; `None` if another call took the key first.
    fn open_new(&self, call: &Call, key: Option<&SessionKey>, spec: &Spec) -> Result<Option<Session>> {
        let caller = &call.caller;
        self.headroom.expect("open a sandbox")?;
        self.expect_repo(caller, spec.repo.as_ref())?;
        self.placement.on_backend(spec, |choice| {
            self.access.check_image(caller, &**choice.backend, spec)?;
            let draft = self.draft(Lease::new(caller.claim.run.clone()), key, spec, &choice)?;
            self.open_on(call, Record { tenant: caller.tenant.clone(), ..draft })
        })
    }

    /// Makes the sandbox of a draft.
    fn open_on(&self, call: &Call, draft: Record) -> Result<Option<Session>> {
        // Before the row: a `creating` row whose work lock is free then means that its maker is dead.
        let work = self.records.store().work_on(&draft.id, &call.cancel)?;
        self.records.crash_at(crash::CREATE_ROW_BEFORE);
        let quota = self.access.quota(draft.tenant.as_ref(), &draft.spec, 1);
        match self.records.store().open_within(draft, quota)? {
            Opened::Created(record) => {
                let made = self.provision(&record, lifecycle::Event::Started, call);
                drop(work);
                Ok(Some(Session::new(made?, true, None)))
            }
            Opened::Existing(_) => Ok(None),
        }
    }

    /// Returns the first record of a sandbox that is about to be made.
    pub(crate) fn draft(
        &self,
        lease: Lease,
        key: Option<&SessionKey>,
        spec: &Spec,
        choice: &Choice<'_>,
    ) -> Result<Record> {
        let spec = Spec { on_idle: Some(decide_on_idle(spec, &**choice.backend)?), ..spec.clone() };
        let now = self.records.moment()?;
        let id = SandboxId::generate(now.wall, random()?);
        Ok(Record {
            key: key.cloned(),
            lease,
            backend: choice.backend.name().to_owned(),
            refused: choice.refused.to_vec(),
            secret: Secret(random()?),
            boot: self.records.boot().to_owned(),
            ..Record::new(id, State::Creating, spec, now)
        })
    }

    /// Decides what an existing record means for the caller; `None` if its key is free again.
    fn settle(&self, call: &Call, record: Record, wish: &Wish) -> Result<Option<Session>> {
        let caller = &call.caller;
        caller.check_reach(&record)?;
        if matches!(record.state, State::Ready | State::Hibernated | State::Resuming) {
            self.expect_as_written(caller, &record, wish)?;
        }
        let record = self.own(caller, record)?;
        match record.state {
            State::Creating | State::Destroying => self.await_worker(call, &record).map(|()| None),
            State::Ready | State::Hibernated | State::Resuming => self.revisit(call, record),
            State::Lost | State::DestroyFailed => self.clear(call, &record).map(|()| None),
            State::Destroyed | State::Failed | State::Expired => Ok(None),
            State::Spare | State::Paused | State::Hibernating | State::Quarantined => {
                Err(record.state.refuse(&record.id, "open"))
            }
        }
    }

    /// Refuses a sandbox that differs from what the caller wrote. Before it is taken, if it has no owner; one that is gone
    /// differs from nothing.
    fn expect_as_written(&self, caller: &Caller, record: &Record, wish: &Wish) -> Result<()> {
        let differences = wish.differences(record);
        if differences.is_empty() {
            return Ok(());
        }
        if record.lease.owner().is_some() {
            record.lease.admit(&caller.claim).map_err(|denied| denied.into_error(&record.id))?;
        }
        if record.state != State::Ready {
            return Err(differs(caller, record, &differences));
        }
        match self.access.reach(record, record.lease.epoch()) {
            Ok(_) => Err(differs(caller, record, &differences)),
            Err(error) if is_asleep(&error) => Err(differs(caller, record, &differences)),
            Err(error) => match self.records.find(&record.id)?.state {
                State::Ready => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// Checks that the sandbox is the caller's, taking it if it has no owner.
    fn own(&self, caller: &Caller, record: Record) -> Result<Record> {
        let deny = |denied: lease::Denied| denied.into_error(&record.id);
        if record.lease.owner().is_some() {
            return record.lease.admit(&caller.claim).map_err(deny).map(|_| record.clone());
        }
        self.records.change(&record.id, Durability::Power, &mut |mut row| {
            row.lease = row.lease.step(&caller.claim, &lease::Event::Claim).map_err(deny)?;
            Ok(row)
        })
    }

    /// Waits for the work lock of the sandbox, and cleans up after a process that died with it.
    fn await_worker(&self, call: &Call, record: &Record) -> Result<()> {
        let _work = self.records.store().work_on(&record.id, &call.cancel)?;
        let row = self.records.find(&record.id)?;
        match row.state {
            State::Creating => self.fail(&row, "the process that was making it stopped before it was done"),
            State::Destroying => self.remove(&row),
            _ => Ok(()),
        }
    }

    /// Returns a sandbox that says it is ready, if its guest still answers.
    fn revisit(&self, call: &Call, record: Record) -> Result<Option<Session>> {
        match self.entry.enter(call, &record.id) {
            Ok(Inside { record, guest, .. }) => Ok(Some(Session::new(record, false, Some(guest)))),
            Err(error) => match self.records.find(&record.id)?.state {
                State::Lost => self.clear(call, &record).map(|()| None),
                State::Ready | State::Hibernated | State::Resuming => Err(error),
                _ => Ok(None),
            },
        }
    }

    /// Ends a sandbox that cannot be used any more, so that its key is free.
    fn clear(&self, call: &Call, record: &Record) -> Result<()> {
        self.close(call, &record.id)
    }
}

/// Returns the limits and walls that are not enforced, with the reason.
pub(crate) fn missing_walls(record: &Record) -> Vec<String> {
    let walls = record.profile.iter().flat_map(|profile| &profile.walls);
    walls.filter(|wall| !wall.enforced).map(|wall| format!("{}: {}", wall.name, wall.how)).collect()
}

/// Has a session told of as one.
fn told(open: impl FnOnce() -> Result<Session>) -> Result<Session> {
    let span = spans::session();
    let opened = spans::within(span.clone(), open);
    if let Ok(session) = &opened {
        spans::opened(&span, session.created);
        spans::name(&session.record);
    }
    opened
}

/// Decides what becomes of a sandbox without its guest: it hibernates where its backend can keep its files, unless the caller
/// wants it destroyed. Refuses a caller who wants it kept where that cannot be.
fn decide_on_idle(spec: &Spec, backend: &dyn Backend) -> Result<OnIdle> {
    if spec.on_idle == Some(OnIdle::Destroy) {
        return Ok(OnIdle::Destroy);
    }
    let unable = || {
        let what =
            format!("backend `{}` cannot keep the files of a sandbox without its guest", backend.name());
        Error::new(Kind::Unsupported, what).hint("leave `on_idle` out").detail("field", "on_idle")
    };
    match backend.hibernation().ok_or_else(unable).and_then(|files| files.expect_keeping(spec)) {
        Ok(()) => Ok(OnIdle::Hibernate),
        Err(_) if spec.on_idle.is_none() => Ok(OnIdle::Destroy),
        Err(error) => Err(error),
    }
}

/// Refuses a sandbox that is not what was written.
fn differs(caller: &Caller, record: &Record, differences: &[Difference]) -> Error {
    let key = record.key.as_ref().map_or("", SessionKey::as_str);
    let fields: Vec<_> = differences.iter().map(|difference| difference.field.as_str()).collect();
    let said: Vec<_> = differences.iter().map(said).collect();
    let model = caller.ceiling.as_ref().is_some_and(|ceiling| ceiling.is_of_model());
    let hint = match model {
        true => {
            "close it with `sandbox_close` and open it again, or use another `session_key`; the person who started this \
             server has changed what its sandboxes are"
        }
        false => {
            "leave these fields out to use it as it is, close it and open a new one with `replace`, or use another \
             key"
        }
    };
    let what = format!(
        "sandbox `{}` with the key `{key}` is not what was asked for: {}",
        record.id,
        said.join("; ")
    );
    Error::new(Kind::Conflict, what)
        .hint(hint)
        .detail("sandbox_id", record.id.as_str())
        .detail("session_key", key)
        .detail("fields", fields)
        .detail("differences", differences.iter().map(Difference::to_json).collect::<Vec<_>>())
}

/// Says in words what differs.
fn said(Difference { field, values }: &Difference) -> String {
    match values {
        None => format!("its `{field}` is another"),
        Some(Values { written, sandbox }) if sandbox.is_null() => {
            format!("it has no `{field}`, which should be {}", shown(written))
        }
        Some(Values { written, sandbox }) => {
            format!("its `{field}` is {}, not {}", shown(sandbox), shown(written))
        }
    }
}

fn shown(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

fn contended() -> Error {
    Error::new(Kind::Conflict, "could not open the sandbox: others keep closing it")
        .hint("try again, or use another session key")
}
