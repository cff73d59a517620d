//! Installs what a repository depends on, in a sandbox that has its files.
//!
//! The sandbox installs without a network, from packages that a filler has fetched: a one-shot sandbox that gets the
//! lockfile and the manifests alone, runs nothing of a package, and has the network the operator allows. What it fetched is
//! kept for the next sandbox of the same repository with the same lockfile. Each sandbox gets a copy, so what runs in one
//! reaches no other.

mod fill;
mod read;

use std::sync::Arc;

use coracle_core::bytes::Bytes;
use coracle_core::exec::Outcome;
use coracle_core::install::plan::{Script, WORKSPACE};
use coracle_core::install::{
    self, Claim, Key, Manifests, PackageCache, Plan, Project, Report, Rules, Sealed, Status,
};
use coracle_core::store::Durability;
use coracle_core::{Error, ExecId, Kind, Policy, Record, Result, SandboxId, Timestamp};

use crate::access::gate::Inside;
use crate::call::Call;
use crate::entry::Entry;
use crate::exec::{Captured, ExecRequest, Execs, Timeout};
use crate::files::{self, NewFile};
use crate::headroom::Headroom;
use crate::inline::Inline;
use crate::lifecycle::Lifecycle;
use crate::random::random;
use crate::records::Records;
use crate::{crash, spans};

/// How much of a package manager's output is looked at for the reason of a failure.
const OUTPUT: u64 = 64 << 10;
/// How much of it is repeated.
const REASON: usize = 1000;

/// Installs dependencies, and keeps their packages.
#[derive(Debug, Clone)]
pub struct Packages {
    records: Arc<Records>,
    headroom: Arc<Headroom>,
    entry: Arc<Entry>,
    execs: Execs,
    lifecycle: Lifecycle,
    policy: Arc<Policy>,
    /// Where packages are kept; without it nothing is installed.
    cache: Option<Arc<dyn PackageCache>>,
}

/// What dependencies are installed with.
pub(crate) struct PackageParts {
    pub records: Arc<Records>,
    pub headroom: Arc<Headroom>,
    pub entry: Arc<Entry>,
    pub execs: Execs,
    pub lifecycle: Lifecycle,
    pub policy: Arc<Policy>,
    pub cache: Option<Arc<dyn PackageCache>>,
}

impl Packages {
    pub(crate) fn new(parts: PackageParts) -> Self {
        let PackageParts { records, headroom, entry, execs, lifecycle, policy, cache } = parts;
        let execs = execs.answering(Inline::at_most(OUTPUT));
        Self { records, headroom, entry, execs, lifecycle, policy, cache }
    }

    /// Installs the dependencies of the repository that is checked out in a sandbox of the caller's. That it fails is a
    /// result; only a call that was cancelled is an error.
    ///
    /// The exec is called [`install::EXEC`], so a sandbox installs once: asked again, this reports how that ended.
    pub fn install(&self, call: &Call, sandbox: &SandboxId, project: &Project) -> Result<Report> {
        let mut report = Report::skipped("there is no lockfile in the top of the repository");
        let installed = self.entry.enter(call, sandbox).and_then(|mut inside| {
            spans::within(spans::install(&inside.record), || {
                self.install_in(call, &mut inside, project, &mut report)
            })
        });
        if let Err(error) = installed {
            call.cancel.check()?;
            report =
                Report { status: Status::Failed, reason: Some(error.chain()), hint: error.hint, ..report };
        }
        // An open that was killed before this installs again; the exec, if there was one, is found by its id.
        self.records.change(sandbox, Durability::Process, &mut |mut row| {
            row.install = Some(report.clone());
            Ok(row)
        })?;
        Ok(report)
    }

    /// Removes packages that nobody used for long, and what a crash left. Returns how many entries.
    pub(crate) fn sweep(&self, now: Timestamp) -> Result<usize> {
        self.cache.as_ref().map_or(Ok(0), |cache| self.headroom.freeing(|| cache.sweep(now)))
    }

    fn rules(&self) -> &Rules {
        &self.policy.install
    }

    fn install_in(
        &self,
        call: &Call,
        inside: &mut Inside,
        project: &Project,
        report: &mut Report,
    ) -> Result<()> {
        let Some(cache) = &self.cache else {
            *report = Report::skipped("this coracle keeps no packages");
            return Ok(());
        };
        let Some((manifests, others)) = read::manifests(inside, report)? else { return Ok(()) };
        let plan = Plan::of(&manifests, self.rules());
        if let Some(program) = self.missing(call, inside, &plan)? {
            report.reason = Some(format!("the image has no `{program}`"));
            return Ok(());
        }
        let key = self.key(&inside.record, project, &manifests);
        let entry = match cache.claim(&key, self.records.observed()?, &call.cancel)? {
            Claim::Sealed(entry) => entry,
            Claim::Failed(reason) => return Err(Error::new(Kind::ExecutionFailed, reason)),
            Claim::Vacant(draft) => self.fill(call, &inside.record, &manifests, &plan, draft)?,
        };
        let archive = self.bring(inside, &*entry)?;
        drop(entry);
        self.records.crash_at(crash::INSTALL_ARCHIVE_AFTER);
        self.run_install(call, inside, &plan, archive, report)?;
        if report.status == Status::Done && !others.is_empty() {
            let lockfile = manifests.lockfile;
            report.reason =
                Some(format!("installed from `{lockfile}`; `{}` is there as well", others.join("`, `")));
        }
        Ok(())
    }

    fn key(&self, record: &Record, project: &Project, manifests: &Manifests) -> Key {
        let digest = record.image.as_ref().and_then(|image| image.digest.clone());
        Key {
            project: project.clone(),
            ecosystem: manifests.ecosystem,
            manifests_sha256: manifests.sha256(),
            image: digest.unwrap_or_else(|| record.spec.image.clone()),
            registry: self.rules().registries.get(&manifests.ecosystem).cloned(),
        }
    }

    /// Returns the program the image lacks, if it lacks one.
    fn missing(&self, call: &Call, inside: &mut Inside, plan: &Plan) -> Result<Option<String>> {
        let ran = match self.run(call, inside, plan.check(), None, &[]) {
            Err(error) if matches!(error.kind, Kind::ExecutionFailed | Kind::NotFound) => {
                return Ok(Some("sh".to_owned()));
            }
            ran => ran?,
        };
        let said = String::from_utf8_lossy(&ran.stdout);
        Ok(said.lines().next().map(str::to_owned))
    }

    /// Copies packages into the sandbox; returns the path of the archive.
    fn bring(&self, inside: &mut Inside, entry: &dyn Sealed) -> Result<Vec<u8>> {
        let name: u64 = u64::from_be_bytes(random()?);
        let archive = format!("/tmp/packages-{name:016x}.tar").into_bytes();
        let file = NewFile { mode: Some(0o600), overwrite: false, ..NewFile::at(archive.clone()) };
        let written = files::write(inside, &file, &mut entry.read()?).map_err(|error| {
            let what = format!("could not copy {} of packages into the sandbox", Bytes(entry.bytes()));
            Error::new(error.kind, what).caused_by(error)
        });
        written.map(|_| archive)
    }

    fn run_install(
        &self,
        call: &Call,
        inside: &mut Inside,
        plan: &Plan,
        archive: Vec<u8>,
        report: &mut Report,
    ) -> Result<()> {
        let exec: ExecId = install::EXEC.parse()?;
        report.exec_id = Some(exec.clone());
        let ran = self.run(call, inside, plan.install(), Some(exec), &[archive])?;
        match ended_badly(&ran) {
            None => (report.status, report.reason) = (Status::Done, None),
            Some(reason) => {
                (report.status, report.reason) = (Status::Failed, Some(reason));
                report.hint = Some(format!("exec `{}` has all of its output", install::EXEC));
            }
        }
        Ok(())
    }

    fn run(
        &self,
        call: &Call,
        inside: &mut Inside,
        script: Script,
        exec_id: Option<ExecId>,
        arguments: &[Vec<u8>],
    ) -> Result<Captured> {
        let request = ExecRequest { exec_id, ..self.request(script, arguments) };
        self.execs.run_in(call, inside, &request)
    }

    fn request(&self, script: Script, arguments: &[Vec<u8>]) -> ExecRequest {
        let words = ["sh", "-c", &script.text, install::EXEC].map(|word| word.as_bytes().to_vec());
        let most = self.policy.exec_timeout_max.unwrap_or(self.rules().timeout);
        ExecRequest {
            argv: words.into_iter().chain(arguments.iter().cloned()).collect(),
            cwd: Some(WORKSPACE.to_owned()),
            env: script.env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            timeout: Timeout::After(self.rules().timeout.min(most)),
            ..ExecRequest::default()
        }
    }
}

/// Returns why a command did not do what it should have; nothing if it did.
fn ended_badly(ran: &Captured) -> Option<String> {
    let how = match ran.progress.outcome {
        Some(Outcome::Exited { code: 0 }) => return None,
        Some(Outcome::Exited { code }) => format!("ended with exit code {code}"),
        _ => ran.progress.complaint().unwrap_or_else(|| "did not end".to_owned()),
    };
    let output = if ran.stderr.is_empty() { &ran.stdout } else { &ran.stderr };
    Some(match end_of(output) {
        said if said.is_empty() => format!("the package manager {how}"),
        said => format!("the package manager {how}: {said}"),
    })
}

/// Returns the last lines of what a command said.
fn end_of(output: &[u8]) -> String {
    let tail = &output[output.len().saturating_sub(REASON)..];
    let text = String::from_utf8_lossy(tail);
    let text = text.trim();
    match output.len() > REASON {
        true => format!("… {}", text.split_once('\n').map_or(text, |(_, rest)| rest)),
        false => text.to_owned(),
    }
}
