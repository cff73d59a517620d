//! Fetches the output of execs from a guest before its sandbox is removed. It waits for a second at most: a guest that
//! does not answer loses its output, and is removed all the same.

use std::sync::mpsc;
use std::time::Duration;

use coracle_core::{ExecId, KeptExec, Record};
use coracle_wire::{Chunk, ExecSummary};

use super::Kept;
use crate::access::Access;
use crate::crash;
use crate::exec::Execs;
use crate::exec::is_waiting_interpreter;
use crate::guest::{ALL_CHUNKS, Guest};

/// How long closing waits for output: much more than a guest that works needs, and little for a caller that waits.
const MOMENT: Duration = Duration::from_secs(1);
/// How much output of one sandbox is kept, the newest execs' first.
const BYTES_MAX: u64 = 4 << 20;
/// How many execs are looked at: as many as a guest remembers.
const EXECS_MAX: usize = 1000;

/// An exec, and its output as far as that was asked for.
type Found = (ExecSummary, Vec<Chunk>);

impl Execs {
    /// Keeps the output of a sandbox that is about to be removed, and tells the ends of execs that no call has seen. A
    /// failure here does not stop the removal.
    pub(crate) fn collect_logs(&self, record: &Record) {
        let Some(found) = self.gather(record) else { return };
        let lives = found.iter().filter_map(|(summary, _)| {
            let exec: ExecId = summary.exec.parse().ok()?;
            Some(self.life_of(record, &exec, &summary.state))
        });
        self.records.tell_now(&lives.flatten().collect::<Vec<_>>());
        let Some(logs) = self.logs.as_ref().filter(|logs| logs.is_on() && !found.is_empty()) else {
            return;
        };
        // What a close would write first must not take the room it needs to end.
        if self.headroom.is_low() {
            return;
        }
        let written = || self.records.crash_at(crash::DESTROY_LOGS_WRITTEN);
        let _ = self.records.observed().map(|now| logs.write(record, &keep(found), now, &written));
        self.records.crash_at(crash::DESTROY_LOGS_AFTER);
    }

    /// Asks the guest on a thread of its own, which ends with the guest if it must.
    fn gather(&self, record: &Record) -> Option<Vec<Found>> {
        record.placement.as_ref()?;
        let (access, record) = (self.access.clone(), record.clone());
        let (sender, receiver) = mpsc::sync_channel(1);
        let wanted = self.logs.as_ref().is_some_and(|logs| logs.is_on());
        let asking = std::thread::Builder::new().name("collect-logs".to_owned()).spawn(move || {
            let _ = sender.send(ask_all(&access, &record, wanted));
        });
        asking.ok()?;
        receiver.recv_timeout(MOMENT).ok()?
    }
}

fn ask_all(access: &Access, record: &Record, with_output: bool) -> Option<Vec<Found>> {
    let mut guest = access.visit(record).ok()?;
    let mut execs = guest.execs().ok()?;
    execs.retain(|summary| !is_waiting_interpreter(&summary.argv));
    execs.truncate(EXECS_MAX);
    let mut room = if with_output { BYTES_MAX } else { 0 };
    let mut found = Vec::with_capacity(execs.len());
    // The newest first: if there is too much, the oldest go without.
    for summary in execs.into_iter().rev() {
        let chunks = output(&mut guest, &summary, &mut room);
        found.push((summary, chunks));
    }
    Some(found)
}

/// Reads the output of an exec, a little more than there is room for at most: what is missing has to be known.
fn output(guest: &mut Guest, summary: &ExecSummary, room: &mut u64) -> Vec<Chunk> {
    let (mut chunks, mut since) = (Vec::new(), 0);
    while *room > 0 && since < summary.state.last_seq {
        let Ok((more, _)) = guest.read(&summary.exec, since, ALL_CHUNKS, Duration::ZERO) else { break };
        let Some(last) = more.last() else { break };
        since = last.seq;
        let bytes: u64 = more.iter().map(|chunk| chunk.data.len() as u64).sum();
        *room = room.saturating_sub(bytes);
        chunks.extend(more);
    }
    chunks
}

fn keep(found: Vec<Found>) -> Vec<KeptExec> {
    let mut room = BYTES_MAX;
    let kept = found.into_iter().filter_map(|(summary, chunks)| {
        let exec: ExecId = summary.exec.parse().ok()?;
        KeptExec::of(&Kept::of(exec, &summary.state, chunks, &mut room)).ok()
    });
    kept.collect()
}
