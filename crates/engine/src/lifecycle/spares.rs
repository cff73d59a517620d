//! The spare pool: sandboxes made ahead. A caller that wants one like the last gets a spare for the cost of changing a
//! row, and the pool makes the next one meanwhile.
//!
//! A spare is a sandbox like any other, with a row of its own before anything of it exists, so that whatever happens to
//! us the janitor finds it. Nothing has ever run in it, and the caller that takes it is its only user: no spare is given out
//! twice, and nothing of a used sandbox is used again. Its guest ends itself when it is not tended any more.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use coracle_core::backend::EndsWith;
use coracle_core::image::Silent;
use coracle_core::store::{Durability, Work};
use coracle_core::{
    Cancel, Claim, ExecId, Kind, Lease, Record, Result, SandboxId, Spec, State, lease, lifecycle,
};

use super::Lifecycle;
use crate::access::gate::Inside;
use crate::access::tie::Tied;
use crate::guest::Guest;
use crate::lifecycle::teardown::{Afterwards, may_close};
use crate::{Caller, crash, spans};

/// How long a spare outlives the process that tends it.
const IDLE_SECONDS: u64 = 60;
/// How often the guests of spares are told that they are still wanted: well within that.
const TEND: Duration = Duration::from_secs(20);
/// What a sandbox is made of may change: an older one is made anew.
const AGE_MAX: Duration = Duration::from_secs(300);
/// How many may wait to be removed before callers remove their own: a burst, not a way of life.
const LEAVING_MAX: usize = 16;
/// How long after a spare was taken nothing is made or removed: its caller wants the machine for itself, and is
/// mostly done by then.
const QUIET: Duration = Duration::from_millis(10);
/// How many kinds are kept: who runs commands and programs in turn shall wait for neither.
const SHAPES_MAX: usize = 2;
/// How long making spares rests after it failed. Callers that want a sandbox meanwhile are told what is wrong.
const REST: Duration = Duration::from_secs(5);

/// The pool, and a bell for the thread that tends it.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    pool: Mutex<Pool>,
    bell: Condvar,
}

/// What waits to be taken and what waits to be removed.
#[derive(Debug, Default)]
struct Pool {
    /// How many to keep. None while they are not tended.
    count: usize,
    /// What was asked for last, the latest first.
    shapes: VecDeque<Spec>,
    ready: VecDeque<Spare>,
    leaving: VecDeque<SandboxId>,
    rest_until: Option<Instant>,
    quiet_until: Option<Instant>,
}

/// A sandbox without an owner, and an open line to its guest.
struct Spare {
    record: Record,
    shape: Spec,
    guest: Guest,
    made: Instant,
    /// An interpreter that waits for a program.
    warm: Option<ExecId>,
    /// Held for as long as it is tended: a spare whose work lock is free is a leftover.
    work: Box<dyn Work>,
}

impl fmt::Debug for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spare").field("record", &self.record.id).finish_non_exhaustive()
    }
}

/// A spare that was given out.
#[derive(Debug)]
pub(crate) struct Taken {
    pub inside: Inside,
    pub warm: Option<ExecId>,
}

/// Something to do for the thread that tends the spares.
enum Chore {
    Make(Box<Spec>),
    Remove(SandboxId),
    Discard(Box<Spare>),
    Tend,
    Stop,
}

/// Keeps the spare pool of a home filled until it is dropped, and then removes the spares.
#[derive(Debug)]
pub struct SparePool {
    lifecycle: Lifecycle,
    thread: Option<JoinHandle<()>>,
}

/// Spares that another process keeps for this one.
pub trait RemoteSpares: Send + Sync {
    /// Returns a sandbox like this that is the caller's now, if there is one.
    fn take(&self, caller: &Caller, spec: &Spec) -> Option<Record>;

    /// Leaves the removal of a sandbox to the pool. Tells whether it sees to that.
    fn dismiss(&self, caller: &Caller, sandbox: &SandboxId) -> bool;
}

impl Lifecycle {
    /// Keeps so many spares ready of each shape that was asked for last.
    pub fn keep_spares(&self, count: usize) -> SparePool {
        self.spares.lock().count = count;
        let lifecycle = self.clone();
        let thread =
            std::thread::Builder::new().name("spare-pool".to_owned()).spawn(move || lifecycle.tend());
        // Without a thread there are no spares, and everything works as it does without.
        if thread.is_err() {
            self.spares.lock().count = 0;
        }
        SparePool { lifecycle: self.clone(), thread: thread.ok() }
    }

    /// Has spares of this shape made before anyone asks for one.
    pub fn want(&self, spec: &Spec) {
        self.spares.want(spec);
    }

    /// Gives a spare to a caller in another process, who reaches its guest by the record.
    pub fn give_out(&self, caller: &Caller, spec: &Spec) -> Result<Option<Record>> {
        self.headroom.expect("open a sandbox")?;
        // Their programs come by other ways than an interpreter that waits.
        let spec = Spec { runtime: None, ..spec.clone() };
        Ok(self.take_spare(caller, &spec)?.map(|taken| taken.inside.record))
    }

    /// Gives out a spare of this shape, if there is one.
    pub(crate) fn take_spare(&self, caller: &Caller, spec: &Spec) -> Result<Option<Taken>> {
        self.access.expect_place(caller.tenant.as_ref(), spec)?;
        let Some(spare) = self.spares.pop(spec) else { return Ok(None) };
        spans::within(spans::take_spare(&spare.record), || self.hand_over(caller, spec, spare))
    }

    /// Makes a spare the caller's.
    fn hand_over(&self, caller: &Caller, spec: &Spec, spare: Spare) -> Result<Option<Taken>> {
        let now = self.records.now();
        // A new sandbox has an epoch of its own; the one the caller believes in is about others.
        let claim = Claim { epoch: None, ..caller.claim.clone() };
        let quota = self.access.quota(caller.tenant.as_ref(), spec, 1);
        let taken =
            self.records.change_within(&spare.record.id, Durability::Process, quota, &mut |mut row| {
                row.state =
                    row.state.step(lifecycle::Event::Taken).map_err(|refused| refused.into_error(&row.id))?;
                row.lease = row
                    .lease
                    .step(&claim, &lease::Event::Claim)
                    .map_err(|denied| denied.into_error(&row.id))?;
                row.tenant = caller.tenant.clone();
                row.spec = spec.clone();
                row.created_at = now;
                Ok(row)
            });
        let record = match taken {
            Ok(record) => record,
            // Another call of its tenant was faster. The spare is still there to be taken.
            Err(error) if error.kind == Kind::LimitExceeded => {
                self.spares.give_back(spare).into_iter().for_each(|spare| self.discard(spare));
                return Err(error);
            }
            // It was removed, by a janitor after a long sleep perhaps. One is made the ordinary way.
            Err(_) => return Ok(None),
        };
        let Spare { mut guest, work, warm, .. } = spare;
        drop(work);
        guest.act_under(record.lease.epoch());
        // In the same request, so that a crash of ours leaves no sandbox between the two that nothing ends.
        let tie = (self.ends_with == EndsWith::Maker).then(|| self.access.grace_of(&record));
        match guest.adopt(&record, tie) {
            Ok(tied) => {
                let tied = tied.then_some(Tied::Sandbox);
                Ok(Some(Taken { inside: Inside { tied, ..Inside::new(record, guest) }, warm }))
            }
            Err(_) => {
                self.teardown(&record.id, Afterwards::Nothing, &|_| Ok(()))?;
                Ok(None)
            }
        }
    }

    /// Ends a sandbox of the caller's in which nothing runs any more. Where spares are tended, what is left of it
    /// is removed after this returns.
    pub fn dismiss(&self, caller: &Caller, id: &SandboxId) -> Result<()> {
        let allow = |record: &Record| may_close(caller, record);
        if !self.spares.has_room_to_leave() {
            return self.teardown(id, Afterwards::Nothing, &allow);
        }
        self.records.crash_at(crash::DESTROY_ROW_BEFORE);
        self.records.entomb(id, &allow)?;
        self.records.crash_at(crash::DESTROY_ROW_AFTER);
        self.spares.leave(id.clone());
        Ok(())
    }

    /// Does what there is to do until told to stop. Errors are not reported: what could not be made will be asked for,
    /// and what could not be removed is left to the janitor, with its row.
    fn tend(&self) {
        loop {
            match self.spares.wait() {
                Chore::Make(shape) => match self.make_spare(&shape) {
                    Ok(spare) => self.spares.lock().ready.push_back(spare),
                    Err(_) => self.spares.lock().rest_until = Some(Instant::now() + REST),
                },
                Chore::Remove(id) => drop(self.finish_removal(&id)),
                Chore::Discard(spare) => self.discard(*spare),
                Chore::Tend => self.greet_all(),
                Chore::Stop => return,
            }
        }
    }

    fn make_spare(&self, shape: &Spec) -> Result<Spare> {
        self.headroom.expect("make a spare")?;
        let mut spec = shape.clone();
        spec.limits.timeout_seconds = IDLE_SECONDS;
        self.placement.on_backend(&spec, |choice| {
            self.make_spare_of(shape, self.draft(Lease::unowned(), None, &spec, &choice)?)
        })
    }

    fn make_spare_of(&self, shape: &Spec, draft: Record) -> Result<Spare> {
        let work = self.records.store().work_on(&draft.id, &Cancel::default())?;
        self.records.store().open(draft.clone())?;
        let record = self.provision(&draft, lifecycle::Event::MadeAhead, &Silent)?;
        let mut guest = self.access.reach(&record, record.lease.epoch())?;
        let patience = AGE_MAX + Duration::from_secs(IDLE_SECONDS);
        let warm = shape.runtime.and_then(|runtime| self.execs.warm_up(&mut guest, runtime, patience));
        Ok(Spare { record, shape: shape.clone(), guest, made: Instant::now(), warm, work })
    }

    fn finish_removal(&self, id: &SandboxId) -> Result<()> {
        let _work = self.headroom.freeing(|| self.records.store().work_on(id, &Cancel::default()))?;
        let record = self.records.find(id)?;
        match record.state {
            State::Destroying => self.remove(&record),
            // The janitor was faster.
            _ => Ok(()),
        }
    }

    fn discard(&self, spare: Spare) {
        let Spare { record, work, .. } = spare;
        let removed = self.records.entomb(&record.id, &|_| Ok(())).and_then(|record| self.remove(&record));
        drop((work, removed));
    }

    /// Tells the guests that they are wanted. Those that do not answer are not kept.
    fn greet_all(&self) {
        let spares = std::mem::take(&mut self.spares.lock().ready);
        for mut spare in spares {
            match spare.guest.status() {
                Ok(_) if spare.made.elapsed() < AGE_MAX => self.spares.lock().ready.push_back(spare),
                _ => self.discard(spare),
            }
        }
    }
}

impl Spares {
    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want(&self, spec: &Spec) {
        if let Some(shape) = spec.shape() {
            self.lock().remember(shape);
            self.bell.notify_one();
        }
    }

    /// Takes a spare that fits and has the next one made.
    fn pop(&self, spec: &Spec) -> Option<Spare> {
        let mut pool = self.lock();
        if pool.count == 0 {
            return None;
        }
        let shape = spec.shape()?;
        let fitting = pool.ready.iter().position(|spare| spare.shape == shape);
        pool.remember(shape);
        let spare = fitting.and_then(|index| pool.ready.remove(index));
        // Who finds nothing is slow anyway, and shall find something the next time.
        pool.quiet_until = spare.is_some().then(|| Instant::now() + QUIET);
        self.bell.notify_one();
        spare
    }

    /// Puts back a spare that was not used after all; returns it if spares are not tended any more.
    fn give_back(&self, spare: Spare) -> Option<Spare> {
        let mut pool = self.lock();
        if pool.count == 0 {
            return Some(spare);
        }
        pool.ready.push_front(spare);
        None
    }

    fn has_room_to_leave(&self) -> bool {
        let pool = self.lock();
        pool.count > 0 && pool.leaving.len() < LEAVING_MAX
    }

    fn leave(&self, id: SandboxId) {
        self.lock().leaving.push_back(id);
        self.bell.notify_one();
    }

    /// Waits for something to do. Making comes first: a caller may want it sooner than a directory has to go.
    fn wait(&self) -> Chore {
        let mut pool = self.lock();
        loop {
            let quiet = pool.quiet();
            if quiet.is_zero()
                && let Some(chore) = pool.next()
            {
                return chore;
            }
            let time = if quiet.is_zero() { TEND } else { quiet };
            let (woken, timeout) = self.bell.wait_timeout(pool, time).unwrap_or_else(PoisonError::into_inner);
            pool = woken;
            if timeout.timed_out() && quiet.is_zero() && !pool.ready.is_empty() {
                return Chore::Tend;
            }
        }
    }

    /// Has everything that waits removed, and no more kept.
    fn close(&self) -> Vec<SandboxId> {
        let mut pool = self.lock();
        pool.count = 0;
        self.bell.notify_all();
        pool.leaving.drain(..).collect()
    }
}

impl Pool {
    /// Returns how long to leave the machine alone: not at all when told to stop, or when much waits to be removed.
    fn quiet(&self) -> Duration {
        if self.count == 0 || self.leaving.len() >= LEAVING_MAX / 2 {
            return Duration::ZERO;
        }
        self.quiet_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    fn next(&mut self) -> Option<Chore> {
        if self.count == 0 {
            return Some(Chore::Stop);
        }
        let forgotten = self.ready.iter().position(|spare| !self.shapes.contains(&spare.shape));
        if let Some(spare) = forgotten.and_then(|index| self.ready.remove(index)) {
            return Some(Chore::Discard(Box::new(spare)));
        }
        let rested = self.rest_until.is_none_or(|until| until <= Instant::now());
        match self.lacking() {
            Some(shape) if rested => Some(Chore::Make(Box::new(shape))),
            _ => self.leaving.pop_front().map(Chore::Remove),
        }
    }

    /// Returns a shape there are too few of.
    fn lacking(&self) -> Option<Spec> {
        let have = |shape: &Spec| self.ready.iter().filter(|spare| spare.shape == *shape).count();
        self.shapes.iter().find(|shape| have(shape) < self.count).cloned()
    }

    fn remember(&mut self, shape: Spec) {
        self.shapes.retain(|known| *known != shape);
        self.shapes.push_front(shape);
        self.shapes.truncate(SHAPES_MAX);
    }
}

impl SparePool {
    /// Returns how many sandboxes wait to be taken.
    pub fn ready(&self) -> usize {
        self.lifecycle.spares.lock().ready.len()
    }
}

impl Drop for SparePool {
    fn drop(&mut self) {
        let leaving = self.lifecycle.spares.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // What cannot be removed keeps its row, and the janitor tries again.
        leaving.iter().for_each(|id| drop(self.lifecycle.finish_removal(id)));
        let spares = std::mem::take(&mut self.lifecycle.spares.lock().ready);
        spares.into_iter().for_each(|spare| self.lifecycle.discard(spare));
    }
}
