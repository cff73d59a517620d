//! Brings records and reality together: finishes what a dead process left half done, removes what is not needed.
//!
//! Decides by `reconcile::plan`, then takes the right to work on each sandbox and looks at its record once more
//! before it does anything. The caller decides when, and whether it may wait for engines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coracle_core::backend::Found;
use coracle_core::reconcile::{self, Action, Facts};
use coracle_core::spec::SpecInput;
use coracle_core::store::{Durability, Which};
use coracle_core::{Backend, Policy, Record, Result, SandboxId, Spec, State, Timestamp, lifecycle};
use schemars::JsonSchema;
use serde::Serialize;

use super::Upkeep;
use crate::spans;

/// How long the records of ended sandboxes can be looked at.
pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many records of ended sandboxes are kept of each tenant, and of the home's own people: one a minute for a week.
const ENDED_MAX: usize = 10_000;

/// How many events are kept: a few days of a busy home, twenty megabytes of it.
const EVENTS_MAX: u64 = 100_000;

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// Never came to be; what there was of them is removed.
    pub failed: usize,
    /// Idle for as long as they may be; what there was of them is removed.
    pub expired: usize,
    /// Without a guest; their files are kept.
    pub rested: usize,
    /// Asleep, and told that they end within a day.
    pub announced: usize,
    /// Vanished; what there was of them is removed.
    pub lost: usize,
    /// Usable again after saving them had failed.
    pub revived: usize,
    /// Removals that somebody else had begun.
    pub finished: usize,
    /// Ended long ago, but something had been left.
    pub swept: usize,
    /// Found without a record, kept for a person to look at.
    pub quarantined: usize,
    /// Lost or in quarantine, and looked at by nobody for too long.
    pub discarded: usize,
    /// Records of ended sandboxes that were dropped.
    pub forgotten: usize,
    /// Layers of images that nothing used any more, or that somebody had brought half way.
    pub layers: u64,
    /// What those took.
    pub layer_bytes: u64,
    /// What did not work; the next sweep tries again.
    pub trouble: Vec<String>,
}

/// A sandbox that something has to be done about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Orphan {
    pub sandbox_id: SandboxId,
    pub backend: String,
    /// What a sweep would do: `fail`, `expire`, `rest`, `lose`, `revive`, `finish`, `sweep`, `quarantine` or `discard`.
    pub action: &'static str,
    /// What is there of it.
    pub objects: Vec<String>,
}

/// What a sweep would do something about, and which backends did not answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Left {
    pub orphans: Vec<Orphan>,
    /// What is made of the home's files and belongs to no sandbox.
    pub remains: Vec<String>,
    /// Where there may be more: nobody could look.
    pub trouble: Vec<String>,
}

/// How long after the end of a sandbox an engine may still bring something of it: clients wait two minutes for an engine.
const BELATED_MS: u64 = 180_000;

/// What there is on one backend and what to do about it.
struct Survey<'a> {
    backend: &'a Arc<dyn Backend>,
    records: Vec<Record>,
    found: Vec<Found>,
    actions: Vec<Action>,
}

impl Upkeep {
    /// Carries out everything there is to do, and waits for engines as long as it takes them. One sandbox that resists
    /// does not stop the others.
    pub fn sweep(&self) -> Result<Report> {
        self.sweep_except(&[])
    }

    /// The same, but for backends of these names.
    pub(crate) fn sweep_except(&self, except: &[String]) -> Result<Report> {
        spans::within(spans::sweep(), || self.sweep_all(except))
    }

    fn sweep_all(&self, except: &[String]) -> Result<Report> {
        let mut report = Report::default();
        for backend in self.inhabited(&mut report.trouble)? {
            if !except.iter().any(|name| name == backend.name()) {
                self.sweep_one(backend, &mut report, &|| {});
            }
        }
        // Not in passing: a keeper says that it serves only once it has reached its guest, through an engine perhaps.
        report.trouble.extend(self.egress.replace_keepers());
        self.sweep_home(&mut report)?;
        Ok(report)
    }

    /// Sweeps one backend; `answered` is called when it is known what there is on it.
    pub(crate) fn sweep_one(&self, backend: &Arc<dyn Backend>, report: &mut Report, answered: &dyn Fn()) {
        let survey = self.survey(backend);
        answered();
        match survey {
            Ok(survey) => self.carry_out(&survey, report),
            Err(error) => report.trouble.push(format!("{}: {}", backend.name(), error.chain())),
        }
    }

    /// Sweeps what is in the home itself.
    pub(crate) fn sweep_home(&self, report: &mut Report) -> Result<()> {
        for id in self.stray_keepers()? {
            match self.sweep_keeper(&id) {
                Ok(true) => report.swept += 1,
                Ok(false) => {}
                Err(error) => report.trouble.push(format!("{id}: {}", error.chain())),
            }
        }
        let observed = self.records.observed()?;
        let before = self.facts(observed, &BTreeSet::new()).forget_before();
        report.forgotten = self.headroom.freeing(|| self.records.store().forget(before, ENDED_MAX))?;
        self.headroom.freeing(|| self.records.store().forget_events(before, EVENTS_MAX))?;
        if let Err(error) = self.execs.sweep_logs(observed) {
            report.trouble.push(format!("logs: {}", error.chain()));
        }
        if let Err(error) = self.packages.sweep(observed) {
            report.trouble.push(format!("packages: {}", error.chain()));
        }
        match self.headroom.freeing(|| self.repositories.port().sweep()) {
            Ok(repos) => report.swept += repos,
            Err(error) => report.trouble.push(format!("repos: {}", error.chain())),
        }
        self.headroom.tend();
        Ok(())
    }

    /// Sweeps and collects.
    pub fn gc(&self) -> Result<Report> {
        let mut report = self.sweep()?;
        // Afterwards: what was swept may have been the last to use a layer.
        let Report { layers, layer_bytes, trouble, .. } = self.collect();
        report.trouble.extend(trouble);
        Ok(Report { layers, layer_bytes, ..report })
    }

    /// Removes layers that no image and no sandbox uses. Apart from [`Upkeep::sweep`], because it may take long and
    /// what it removes is in no call's way.
    pub fn collect(&self) -> Report {
        self.collect_from(|_| true)
    }

    /// The same without asking any engine.
    pub fn collect_at_hand(&self) -> Report {
        self.collect_from(|backend| backend.silence().is_none())
    }

    fn collect_from(&self, chosen: impl Fn(&dyn Backend) -> bool) -> Report {
        let mut report = Report::default();
        for backend in self.placement.backends().iter().filter(|backend| chosen(backend.as_ref())) {
            let Some(images) = backend.images() else { continue };
            match self.headroom.freeing(|| images.collect()) {
                Ok(removed) => {
                    report.layers += removed.layers;
                    report.layer_bytes += removed.bytes;
                }
                Err(error) => report.trouble.push(format!("{}: {}", backend.name(), error.chain())),
            }
        }
        report
    }

    /// Lists what a sweep would do something about, and does nothing.
    pub fn orphans(&self) -> Result<Left> {
        let mut left = Left::default();
        for backend in self.inhabited(&mut left.trouble)? {
            match self.survey(backend) {
                Ok(survey) => left.orphans.extend(self.orphans_of(&survey)?),
                Err(error) => left.trouble.push(format!("{}: {}", backend.name(), error.chain())),
            }
            match backend.remains() {
                Ok(remains) => left.remains.extend(remains),
                Err(error) => left.trouble.push(format!("{}: {}", backend.name(), error.chain())),
            }
        }
        match self.repositories.port().remains() {
            Ok(remains) => left.remains.extend(remains),
            Err(error) => left.trouble.push(format!("repos: {}", error.chain())),
        }
        for id in self.stray_keepers()? {
            if !left.orphans.iter().any(|orphan| orphan.sandbox_id == id)
                && self.headroom.freeing(|| self.records.store().try_work_on(&id))?.is_some()
            {
                left.orphans.push(stray(id));
            }
        }
        Ok(left)
    }

    fn orphans_of(&self, survey: &Survey<'_>) -> Result<Vec<Orphan>> {
        let mut orphans = Vec::new();
        for action in survey.actions.iter().filter(|action| action.is_repair()) {
            if self.headroom.freeing(|| self.records.store().try_work_on(action.sandbox()))?.is_some() {
                orphans.push(survey.orphan(action));
            }
        }
        Ok(orphans)
    }

    /// Lists the backends something of ours may be on: the roll-call, and what live records name besides. A name
    /// that means nothing any more is trouble, and no reason to leave the others alone.
    pub(crate) fn inhabited(&self, trouble: &mut Vec<String>) -> Result<Vec<&Arc<dyn Backend>>> {
        let mut backends: Vec<_> = self.placement.backends().iter().collect();
        let mut named: BTreeSet<_> =
            self.records.store().list(Which::Live)?.into_iter().map(|record| record.backend).collect();
        // An engine may still be carrying out a request for a sandbox that has ended since.
        let since = self.records.observed()?.as_millis().saturating_sub(BELATED_MS);
        named.extend(self.records.store().ended_on(Timestamp::from_millis(since))?);
        // Records may be lost; rooms say where the others are.
        named.extend(self.placement.settled());
        for name in named {
            match self.placement.named(&name) {
                Ok(backend) if backends.iter().any(|known| known.name() == backend.name()) => {}
                Ok(backend) => backends.push(backend),
                Err(error) => trouble.push(format!("{name}: {}", error.chain())),
            }
        }
        Ok(backends)
    }

    /// Lists sandboxes that are over or have no record, and of whose network something is left.
    fn stray_keepers(&self) -> Result<Vec<SandboxId>> {
        let mut stray = Vec::new();
        for id in self.egress.kept()? {
            if self.records.store().find(&id)?.is_none_or(|record| record.state.is_ended()) {
                stray.push(id);
            }
        }
        Ok(stray)
    }

    /// Ends a keeper that is not needed; `false` if its sandbox is being worked on.
    fn sweep_keeper(&self, id: &SandboxId) -> Result<bool> {
        let Some(_work) = self.headroom.freeing(|| self.records.store().try_work_on(id))? else {
            return Ok(false);
        };
        match self.records.store().find(id)?.is_none_or(|record| record.state.is_ended()) {
            true => self.headroom.freeing(|| self.egress.unkeep(id)).map(|()| true),
            false => Ok(false),
        }
    }

    /// Looks at a backend between two readings of its records: what moved in between is left alone.
    fn survey<'a>(&self, backend: &'a Arc<dyn Backend>) -> Result<Survey<'a>> {
        let before: BTreeMap<_, _> =
            self.records_of(backend)?.into_iter().map(|record| (record.id.clone(), record)).collect();
        let found = backend.survey()?;
        let mut records = self.records_of(backend)?;
        self.add_ended(&mut records, &found)?;
        let moved = |record: &&Record| !record.state.is_ended() && before.get(&record.id) != Some(record);
        let busy = records.iter().filter(moved).map(|record| record.id.clone()).collect();
        let boot = backend.ends_with_this_machine().then_some(self.records.boot());
        let actions =
            reconcile::plan(&records, &found, &Facts { boot, ..self.facts(self.records.observed()?, &busy) });
        Ok(Survey { backend, records, found, actions })
    }

    fn records_of(&self, backend: &Arc<dyn Backend>) -> Result<Vec<Record>> {
        let mut records = self.records.store().list(Which::Live)?;
        records.retain(|record| record.backend == backend.name());
        Ok(records)
    }

    /// Adds the records of ended sandboxes that something was found of. Reading all ended ones would make a sweep
    /// slower with everything that ever was.
    fn add_ended(&self, records: &mut Vec<Record>, found: &[Found]) -> Result<()> {
        let known: BTreeSet<_> = records.iter().map(|record| record.id.clone()).collect();
        for object in found.iter().filter(|object| !known.contains(&object.sandbox)) {
            records.extend(self.records.store().find(&object.sandbox)?);
        }
        Ok(())
    }

    fn facts<'a>(&'a self, observed: Timestamp, busy: &'a BTreeSet<SandboxId>) -> Facts<'a> {
        Facts {
            observed,
            boot: Some(self.records.boot()),
            busy,
            quarantine: reconcile::QUARANTINE,
            retention: RETENTION,
            keep: self.keep,
        }
    }

    fn carry_out(&self, survey: &Survey<'_>, report: &mut Report) {
        for action in &survey.actions {
            let span = spans::reconcile(name_of(action), action.sandbox(), survey.backend.name());
            match spans::within(span, || self.act(survey, action)) {
                Ok(true) => *report.count(action) += 1,
                Ok(false) => {}
                Err(error) => report.trouble.push(format!("{}: {}", action.sandbox(), error.chain())),
            }
        }
    }

    /// Does one thing; `false` if the sandbox is being worked on or has changed since.
    fn act(&self, survey: &Survey<'_>, action: &Action) -> Result<bool> {
        let id = action.sandbox();
        let Some(_work) = self.headroom.freeing(|| self.records.store().try_work_on(id))? else {
            return Ok(false);
        };
        let record = self.records.store().find(id)?;
        if record.as_ref() != survey.record(id) {
            return Ok(false);
        }
        match (action, record) {
            (Action::Quarantine { .. }, None) => self.quarantine(survey.backend, id)?,
            (Action::Fail { reason, .. }, Some(record)) => {
                self.lifecycle.fail(&record, &reason.to_string())?
            }
            (Action::Lose { reason, .. }, Some(_)) => {
                self.records.note(id, lifecycle::Event::Vanished, &reason.to_string())?;
                self.headroom.freeing(|| survey.backend.destroy(id))?;
            }
            (Action::Revive { .. }, Some(_)) => {
                self.records.note(
                    id,
                    lifecycle::Event::NotSaved,
                    "the process that was saving it stopped before it was done",
                )?;
            }
            (Action::Rest { .. }, Some(record)) => {
                self.entry.put_to_rest(&record)?;
            }
            (Action::Announce { ends, .. }, Some(_)) => self.announce_end(id, *ends)?,
            (Action::Expire { ended, .. }, Some(_)) => {
                self.records.expire(id, *ended)?;
                self.headroom.freeing(|| survey.backend.destroy(id))?;
                self.headroom.freeing(|| self.egress.unkeep(id))?;
            }
            (Action::Finish { .. } | Action::Discard { .. }, Some(_)) => {
                let record = self.records.entomb(id, &|_| Ok(()))?;
                // The process that began it may have been killed before; of spares there is nothing.
                if !record.is_untaken() {
                    self.execs.collect_logs(&record);
                }
                self.lifecycle.remove(&record)?;
            }
            (Action::Sweep { .. }, Some(_)) => {
                self.headroom.freeing(|| survey.backend.destroy(id))?;
                self.headroom.freeing(|| self.egress.unkeep(id))?;
            }
            (_, _) => return Ok(false),
        }
        Ok(true)
    }

    /// Notes when a sleeper ends; the event comes with the note, and so only once.
    fn announce_end(&self, id: &SandboxId, ends: Timestamp) -> Result<()> {
        let noted = self.headroom.freeing(|| {
            self.records.change(id, Durability::Process, &mut |mut row| {
                row.kept.iter_mut().for_each(|kept| kept.ends_soon = Some(ends));
                Ok(row)
            })
        });
        noted.map(drop)
    }

    /// Makes a record for something of ours that has none, as after restoring an old database.
    fn quarantine(&self, backend: &Arc<dyn Backend>, id: &SandboxId) -> Result<()> {
        // What it was is not known; the defaults are only there because a record has a spec. Not the operator's: what they
        // forbid now must not keep it from being noticed.
        let spec = Spec::resolve(SpecInput::default(), &Policy::default())?;
        let record = Record {
            backend: backend.name().to_owned(),
            boot: self.records.boot().to_owned(),
            reason: Some("found without a record".to_owned()),
            ..Record::new(id.clone(), State::Quarantined, spec, self.records.moment()?)
        };
        self.headroom.freeing(|| self.records.store().open(record.clone())).map(drop)
    }
}

fn name_of(action: &Action) -> &'static str {
    match action {
        Action::Fail { .. } => "fail",
        Action::Lose { .. } => "lose",
        Action::Revive { .. } => "revive",
        Action::Finish { .. } => "finish",
        Action::Sweep { .. } => "sweep",
        Action::Quarantine { .. } => "quarantine",
        Action::Expire { .. } => "expire",
        Action::Rest { .. } => "rest",
        Action::Announce { .. } => "announce",
        Action::Discard { .. } => "discard",
    }
}

/// Describes a keeper without a sandbox.
fn stray(sandbox_id: SandboxId) -> Orphan {
    Orphan { sandbox_id, backend: String::new(), action: "sweep", objects: vec!["keeper".to_owned()] }
}

impl Survey<'_> {
    fn record(&self, id: &SandboxId) -> Option<&Record> {
        self.records.iter().find(|record| record.id == *id)
    }

    fn orphan(&self, action: &Action) -> Orphan {
        let objects = self.found.iter().filter(|found| found.sandbox == *action.sandbox());
        Orphan {
            sandbox_id: action.sandbox().clone(),
            backend: self.backend.name().to_owned(),
            action: name_of(action),
            objects: objects.flat_map(|found| found.objects.clone()).collect(),
        }
    }
}

impl Report {
    /// Adds what another sweep did.
    pub(crate) fn add(&mut self, other: Self) {
        let Self { failed, expired, lost, revived, finished, swept, quarantined, .. } = other;
        self.failed += failed;
        self.lost += lost;
        self.revived += revived;
        self.finished += finished;
        self.swept += swept;
        self.quarantined += quarantined;
        self.expired += expired;
        self.rested += other.rested;
        self.announced += other.announced;
        self.discarded += other.discarded;
        self.forgotten += other.forgotten;
        self.layers += other.layers;
        self.layer_bytes += other.layer_bytes;
        self.trouble.extend(other.trouble);
    }

    fn count(&mut self, action: &Action) -> &mut usize {
        match action {
            Action::Fail { .. } => &mut self.failed,
            Action::Lose { .. } => &mut self.lost,
            Action::Revive { .. } => &mut self.revived,
            Action::Finish { .. } => &mut self.finished,
            Action::Sweep { .. } => &mut self.swept,
            Action::Quarantine { .. } => &mut self.quarantined,
            Action::Expire { .. } => &mut self.expired,
            Action::Rest { .. } => &mut self.rested,
            Action::Announce { .. } => &mut self.announced,
            Action::Discard { .. } => &mut self.discarded,
        }
    }
}
