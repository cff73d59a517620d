//! All execs of the sandbox, which the reactor and the connections share.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coracle_sys::{signal, spawn};
use coracle_wire::{Chunk, ExecState, ExecSummary, Fault, FaultCode};

use super::brought::is_brought;
use super::cgroup::Leaf;
use super::exec::{Cause, Exec, Phase};
use super::family::Family;
use super::kept::Kept;
use super::pipes::{Drained, Pipe, SpoolLimit};
use super::start::ExecContext;
use crate::client::Client;
use crate::forker::Forker;

/// Most execs at once; a caller that wants more has to wait.
pub(super) const RUNNING_MAX: usize = 256;
/// Most ended execs remembered. The guest forgets the oldest first, with their ids.
pub(super) const ENDED_MAX: usize = 1000;
/// Most output kept in all. The guest lives outside the sandbox's memory limit, so it bounds itself.
pub(super) const BUDGET: usize = 64 << 20;
/// How long killed processes may take to be gone. Shorter than the host waits for an answer.
const KILLING: Duration = Duration::from_secs(8);
/// The grace between TERM and KILL when a command's client has gone: all its processes must be dead within a
/// second.
const UNTIED_GRACE: Duration = Duration::from_millis(500);
/// How soon the guest looks at paused pipes again, in case no attendant reads.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How much of a frame a list of execs may take.
const LIST_MAX: i64 = 512 << 10;
/// Most empty leaves kept for the next execs.
const SPARE_MAX: usize = 4;

/// The state that the lock guards.
#[derive(Debug, Default)]
pub struct Table {
    pub(super) execs: HashMap<String, Exec>,
    pub(super) ended: VecDeque<String>,
    pub(super) pipes: HashMap<u64, Pipe>,
    pub(super) serial: u64,
    pub(super) starting: usize,
    /// The highest epoch that attendants were checked against.
    pub(super) epoch: u64,
    /// Since when the clocks are stopped, while the commands are frozen.
    pub(super) stopped: Option<Instant>,
    /// Pipes that the reactor does not watch until their spool has room again.
    pub(super) paused: Vec<u64>,
    /// Processes left running in the background.
    pub(super) kept: Vec<Kept>,
    /// Empty leaves of ended execs.
    pub(super) spare: Vec<Leaf>,
    /// How many clients have gone while a thread waited on their behalf.
    departures: u64,
    /// Leaders that ended before `start` had recorded them.
    pub(super) unclaimed: HashMap<i32, Result<i32, i32>>,
}

/// The execs, and what it takes to start one.
#[derive(Debug)]
pub struct Execs {
    table: Mutex<Table>,
    changed: Condvar,
    pub(super) forker: Forker,
    pub(super) context: ExecContext,
}

/// The limits of an exec.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub deadline_ms: u64,
    pub grace_ms: u64,
    pub output_bytes: u64,
}

/// How long a caller waits, and under which epoch.
#[derive(Debug, Clone, Copy)]
pub struct Patience<'a> {
    /// The caller's epoch. Once there is a later one the wait ends, because the fence will refuse the caller.
    pub epoch: u64,
    pub wait: Duration,
    /// The wait ends when the client has gone.
    pub client: &'a Client<'a>,
}

impl Execs {
    pub fn new(forker: Forker, context: ExecContext) -> Self {
        Self { table: Mutex::default(), changed: Condvar::new(), forker, context }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic ends the guest, so a poisoned lock is never seen.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Makes all threads that wait for a client check whether it has gone.
    pub fn note_departure(&self) {
        self.lock().departures += 1;
        self.notify();
    }

    /// Waits until `ready` returns a value, at most for `wait`. Tells `ready` when the call is its last.
    pub(super) fn wait_until<T>(
        &self,
        wait: Duration,
        ready: impl FnMut(&mut Table, bool) -> Option<T>,
    ) -> Option<T> {
        self.wait_for(None, wait, ready)
    }

    /// Like [`Execs::wait_until`], and no longer than the client stays.
    fn wait_for<T>(
        &self,
        client: Option<&Client<'_>>,
        wait: Duration,
        mut ready: impl FnMut(&mut Table, bool) -> Option<T>,
    ) -> Option<T> {
        let mut deadline = Instant::now().checked_add(wait);
        let mut table = self.lock();
        loop {
            let left =
                deadline.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            if let Some(value) = ready(&mut table, left.is_zero()) {
                return Some(value);
            }
            if left.is_zero() {
                return None;
            }
            let sleep = client.map_or(left, |client| client.sleep_for(left, table.departures));
            if sleep.is_zero() {
                deadline = Some(Instant::now());
                continue;
            }
            table = self.changed.wait_timeout(table, sleep).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns chunks after `since`. Waits for a chunk or for the end.
    pub fn read(
        &self,
        exec: &str,
        since: u64,
        max_chunks: usize,
        patience: Patience<'_>,
    ) -> Result<(Vec<Chunk>, ExecState), Fault> {
        let read = self.wait_for(Some(patience.client), patience.wait, |table, late| {
            let late = late || table.epoch > patience.epoch;
            let Some(found) = table.execs.get_mut(exec) else { return Some(Err(unknown(exec))) };
            let ready = late || found.is_ended() || found.spool.has_after(since);
            ready.then(|| {
                let chunks = found.spool.read(since, max_chunks);
                let mut state = found.state();
                // Report the end with the last chunk, not before it.
                if found.spool.has_after(chunks.last().map_or(since, |chunk| chunk.seq)) {
                    (state.ending, state.ended_background) = (None, None);
                }
                Ok((chunks, state))
            })
        });
        read.unwrap_or_else(|| Err(unknown(exec)))
    }

    /// Waits for the end. Returns the state in any case.
    pub fn wait(&self, exec: &str, patience: Patience<'_>) -> Result<ExecState, Fault> {
        let state = self.wait_for(Some(patience.client), patience.wait, |table, late| {
            let late = late || table.epoch > patience.epoch;
            match table.execs.get(exec) {
                None => Some(Err(unknown(exec))),
                Some(found) => (late || found.is_ended()).then(|| Ok(found.state())),
            }
        });
        state.unwrap_or_else(|| Err(unknown(exec)))
    }

    /// Gives an exec that was started ahead to its caller: its limits count from now.
    pub fn renew(&self, exec: &str, epoch: u64, bounds: Bounds) -> Result<(), Fault> {
        let now = Instant::now();
        let mut table = self.lock();
        let found = table.execs.get_mut(exec).ok_or_else(|| unknown(exec))?;
        found.epoch = epoch;
        found.started = now;
        found.deadline = now.checked_add(Duration::from_millis(bounds.deadline_ms));
        found.grace = Duration::from_millis(bounds.grace_ms);
        found.output_bytes = usize::try_from(bounds.output_bytes).unwrap_or(usize::MAX);
        Ok(())
    }

    /// Begins to end an exec and its background processes. Returns their grace.
    pub fn begin_stop(&self, exec: &str, grace: Option<Duration>) -> Result<Duration, Fault> {
        let mut table = self.lock();
        // While the clocks are stopped no grace ends.
        let grace = if table.stopped.is_some() { Some(Duration::ZERO) } else { grace };
        let found = table.execs.get_mut(exec).ok_or_else(|| unknown(exec))?;
        let (grace, now) = (grace.unwrap_or(found.grace), Instant::now());
        match found.is_ended() {
            false => found.stop(Cause::Asked, grace, now),
            true => table.stop_kept(exec, grace, now),
        }
        Ok(grace)
    }

    /// Ends an exec within a second if its client has gone. Tells whether the exec exists.
    ///
    /// Calls `has_gone` under the lock: meanwhile another client may have started an exec of this id, untied.
    pub fn stop_untied(&self, exec: &str, has_gone: impl FnOnce() -> bool) -> bool {
        let mut table = self.lock();
        // While the clocks are stopped no grace ends.
        let grace = if table.stopped.is_some() { Duration::ZERO } else { UNTIED_GRACE };
        let Some(found) = table.execs.get_mut(exec) else { return false };
        if !found.is_ended() && has_gone() {
            found.stop(Cause::Asked, grace.min(found.grace), Instant::now());
        }
        true
    }

    /// Calls `deed` with whether an exec was started, under the lock, so that this cannot change meanwhile.
    pub fn with_start_known<T>(&self, exec: &str, deed: impl FnOnce(bool) -> T) -> T {
        let table = self.lock();
        deed(table.execs.contains_key(exec))
    }

    /// Kills everything that runs under an epoch before `epoch`. Returns a fault if some of it is not dead in time.
    pub fn stop_before(&self, epoch: u64, wake: impl FnOnce()) -> Result<(), Fault> {
        let now = Instant::now();
        let mut table = self.lock();
        for exec in table.execs.values_mut().filter(|exec| exec.epoch < epoch && !exec.is_ended()) {
            exec.stop(Cause::Asked, Duration::ZERO, now);
        }
        table.stop_kept_before(epoch, now);
        drop(table);
        wake();
        let until = now + KILLING;
        // No signal reports the end of background processes, so look now and then.
        while self.wait_until(LOOK_AGAIN, |table, _| (!table.kill_kept(epoch)).then_some(())).is_none() {
            if Instant::now() >= until {
                let message = "what an earlier owner left running could not be ended yet".to_owned();
                return Err(Fault { code: FaultCode::Internal, message, errno: None });
            }
        }
        Ok(())
    }

    pub fn list(&self) -> Vec<ExecSummary> {
        let table = self.lock();
        let mut list: Vec<_> = table
            .execs
            .iter()
            .filter(|(id, _)| !is_brought(id))
            .map(|(id, exec)| ExecSummary {
                exec: id.clone(),
                argv: shown(&exec.argv),
                epoch: exec.epoch,
                state: exec.state(),
            })
            .collect();
        list.sort_by(|one, other| one.exec.cmp(&other.exec));
        // The newest first, as many as fit one answer.
        let mut room = LIST_MAX;
        let fits = |summary: &ExecSummary| {
            room -= 256 + summary.argv.iter().map(|argument| argument.len() as i64 + 8).sum::<i64>();
            room > 0
        };
        let kept: Vec<_> = list.into_iter().rev().take_while(fits).collect();
        kept.into_iter().rev().collect()
    }

    /// Tells whether an exec ends within `wait`.
    pub fn has_ended_within(&self, exec: &str, wait: Duration) -> bool {
        let ended =
            self.wait_until(wait, |table, _| table.execs.get(exec).is_none_or(Exec::is_ended).then_some(()));
        ended.is_some()
    }

    /// Forgets an exec that has ended.
    pub fn forget(&self, exec: &str) {
        let mut table = self.lock();
        if table.execs.get(exec).is_some_and(Exec::is_ended) {
            table.execs.remove(exec);
            table.ended.retain(|id| id != exec);
        }
    }

    /// Returns how many execs run, and how much output is kept.
    pub fn load(&self) -> (usize, usize) {
        let table = self.lock();
        (table.running(), table.execs.values().map(|exec| exec.spool.cost()).sum())
    }

    /// Records processes that have ended. Reaps them under the lock: until then the kernel cannot reuse their pids.
    pub fn reap(&self) {
        let mut guard = self.lock();
        let table = &mut *guard;
        while let Some(ended) = signal::reap() {
            if ended.pid == self.forker.pid {
                // Without the forker no command can start any more. The guest ends rather than stay useless.
                spawn::exit(1);
            }
            if table.note_subreaper(ended) {
                continue;
            }
            let leader = table
                .execs
                .iter_mut()
                .find(|(_, exec)| exec.pid == ended.pid && matches!(exec.phase, Phase::Running));
            match leader {
                Some((_, exec)) => exec.phase = Phase::Clearing { exit: ended.exit },
                None if table.starting > 0 => drop(table.unclaimed.insert(ended.pid, ended.exit)),
                None => {}
            }
        }
        table.hear_subreapers();
        self.settle(table);
    }

    /// Concludes execs whose leader has ended and whose processes are gone. Called whenever either may have
    /// changed.
    pub(super) fn settle(&self, table: &mut Table) {
        let clearing: Vec<_> = table
            .execs
            .iter()
            .filter(|(_, exec)| matches!(exec.phase, Phase::Clearing { .. }))
            .map(|(id, _)| id.clone())
            .collect();
        for id in clearing {
            if table.conclude(&id, || self.context.counters.read()) {
                self.notify();
            }
        }
    }

    /// Acts on deadlines; returns when to look again.
    pub fn tick(&self, now: Instant) -> Option<Instant> {
        let mut table = self.lock();
        self.settle(&mut table);
        // An expected attendant may never connect, so look at its deadline now and then.
        let paused = (!table.paused.is_empty()).then(|| now + LOOK_AGAIN);
        if table.stopped.is_some() {
            // Killed processes die while frozen, too, so look after them.
            let clearing = table.execs.values().any(|exec| matches!(exec.phase, Phase::Clearing { .. }));
            return paused.or(clearing.then(|| now + LOOK_AGAIN));
        }
        let kept = table.tick_kept(now);
        let execs = table.execs.values_mut().filter_map(|exec| exec.tick(now));
        execs.chain(kept).chain(paused).min()
    }
}

impl Table {
    pub(super) fn running(&self) -> usize {
        self.execs.values().filter(|exec| !exec.is_ended()).count()
    }

    /// Records a process that has ended. Tells whether it was the subreaper of an exec.
    fn note_subreaper(&mut self, ended: signal::Ended) -> bool {
        let families = self.execs.values().filter_map(|exec| exec.family.as_ref());
        let kept = self.kept.iter().map(Kept::family);
        families
            .chain(kept)
            .any(|family| matches!(family, Family::Subreaper(subreaper) if subreaper.note_end(ended.pid, ended.exit)))
    }

    /// Reads from the subreapers how their commands ended.
    fn hear_subreapers(&mut self) {
        for exec in self.execs.values_mut().filter(|exec| matches!(exec.phase, Phase::Running)) {
            let Some(Family::Subreaper(subreaper)) = &exec.family else { continue };
            if let Some(exit) = subreaper.hear() {
                exec.phase = Phase::Clearing { exit };
            }
        }
    }

    /// Concludes one exec if none of its processes is left to wait for. Never waits for the end of a pipe: a
    /// process outside the exec may hold it open.
    fn conclude(&mut self, id: &str, counters: impl FnOnce() -> super::counters::Reading) -> bool {
        let Some(exec) = self.execs.get_mut(id) else { return false };
        let Phase::Clearing { exit } = exec.phase else { return false };
        // A stop or a deadline ends the whole exec.
        let keep_background = exec.keep_background && exec.cause.is_none();
        let is_populated = exec.family.as_ref().is_some_and(Family::is_populated);
        if !keep_background && is_populated {
            // Processes that were to be kept have a grace of their own; the others end with their leader.
            if !exec.keep_background {
                exec.clear(Instant::now());
            }
            return false;
        }
        let tokens: Vec<_> =
            self.pipes.iter().filter(|(_, pipe)| pipe.exec == id).map(|(token, _)| *token).collect();
        for token in tokens {
            // What is in the pipe now belongs to the exec, even without room in the spool. A pipe holds at most 1
            // MiB.
            let drained = self.drain(token, 1 << 20, SpoolLimit::Ignored);
            if drained == Drained::Closed || !keep_background {
                self.close(token);
            }
        }
        if let Some(exec) = self.execs.get_mut(id) {
            let family = exec.conclude(exit, counters());
            if !keep_background {
                let reusable = family.and_then(Family::into_reusable);
                self.spare.extend(reusable.filter(|_| self.spare.len() < SPARE_MAX));
            } else {
                self.kept.extend(family.map(|family| Kept::of(id, exec, family)));
                self.forget_gone();
            }
        }
        self.remember(id);
        true
    }

    /// Adds an exec to the ended ones, and forgets the oldest ones past the bounds.
    fn remember(&mut self, id: &str) {
        self.ended.push_back(id.to_owned());
        while self.ended.len() > ENDED_MAX {
            // Keep an exec with background processes: callers stop those by its id. There are at most as many as
            // processes.
            self.forget_gone();
            let Some(oldest) = self.ended.iter().position(|id| !self.has_kept(id)) else { break };
            if let Some(oldest) = self.ended.remove(oldest) {
                self.execs.remove(&oldest);
            }
        }
        self.bound_ended();
    }

    /// Drops the output of the oldest ended execs until all kept output is within the budget.
    pub(super) fn bound_ended(&mut self) {
        let mut kept: usize = self.execs.values().map(|exec| exec.spool.cost()).sum();
        for oldest in &self.ended {
            if kept <= BUDGET {
                break;
            }
            if let Some(exec) = self.execs.get_mut(oldest).filter(|exec| exec.attendants.is_empty()) {
                kept -= exec.spool.cost();
                exec.spool.clear();
            }
        }
    }
}

pub(super) fn unknown(exec: &str) -> Fault {
    Fault { code: FaultCode::NotFound, message: format!("there is no exec `{exec}`"), errno: None }
}

/// Returns a command line short enough for a list.
pub(super) fn shown(argv: &[Vec<u8>]) -> Vec<Vec<u8>> {
    argv.iter().take(16).map(|argument| argument.iter().copied().take(128).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::exec::tests::{family, starting};
    use super::*;

    #[test]
    fn an_exec_is_not_forgotten_while_it_has_left_something_running() {
        let (mut table, now) = (Table::default(), Instant::now());
        table.kept.push(Kept::of("0", &starting(now), family()));

        for number in 0..ENDED_MAX + 2 {
            table.execs.insert(number.to_string(), starting(now));
            table.remember(&number.to_string());
        }

        assert_eq!(table.execs.len(), ENDED_MAX);
        assert!(table.execs.contains_key("0"));
        assert!(!table.execs.contains_key("1") && !table.execs.contains_key("2"));
    }
}
