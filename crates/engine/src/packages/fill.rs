//! Fetches packages in a sandbox of their own, and keeps them.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_core::exec::Outcome;
use coracle_core::image::Step;
use coracle_core::install::plan::WORKSPACE;
use coracle_core::install::{Draft, Ecosystem, Manifests, Plan, Sealed};
use coracle_core::spec::{SpecInput, Storage};
use coracle_core::{Error, Kind, Record, Result};
use coracle_wire::{Chunk, Stream};

use super::{Packages, REASON, end_of};
use crate::call::{Call, Notice, Observer};
use crate::files::NewFile;
use crate::lifecycle::one_command::{End, OneCommand, OutputTo};
use crate::{crash, spans};

/// The label of fillers, for people who list sandboxes.
const LABEL: &str = "coracle.filler";

impl Packages {
    /// Makes an entry; callers that wait for it are told if that fails.
    pub(super) fn fill(
        &self,
        call: &Call,
        record: &Record,
        manifests: &Manifests,
        plan: &Plan,
        draft: Box<dyn Draft>,
    ) -> Result<Box<dyn Sealed>> {
        self.records.crash_at(crash::INSTALL_DRAFT_AFTER);
        let ecosystem = manifests.ecosystem;
        self.expect_network(ecosystem)?;
        self.headroom.expect("fetch packages")?;
        call.observer.step(&Step::Said { line: format!("Fetching {ecosystem} packages…") });
        let sink = Arc::new(Sink::into(draft, call.observer.clone()));
        let command = self.filler(record, manifests, plan);
        let fetching = Call { observer: sink.clone(), ..call.on_behalf_of(call.caller.of_its_own()) };
        let fetched = spans::within(spans::fill(record, ecosystem), || {
            self.fetch(&self.lifecycle, &fetching, command, &sink)
        });
        self.records.crash_at(crash::INSTALL_FILL_AFTER);
        let Some(draft) = sink.draft().take() else { return Err(interrupted()) };
        match fetched {
            Ok(()) => {
                let sealed = draft.seal(self.records.observed()?)?;
                self.records.crash_at(crash::INSTALL_SEAL_AFTER);
                Ok(sealed)
            }
            Err(error) => {
                // Those that wait try for themselves where this call was given up: theirs was not.
                if !call.cancel.is_cancelled() {
                    draft.fail(&error.chain());
                }
                Err(error)
            }
        }
    }

    fn fetch(
        &self,
        lifecycle: &crate::lifecycle::Lifecycle,
        call: &Call,
        command: OneCommand,
        sink: &Sink,
    ) -> Result<()> {
        let ran = lifecycle.run_one(call, command);
        // Why nothing more was taken says more than that the command was cut off.
        if let Some(error) = sink.full() {
            return Err(error);
        }
        let End::Watched(watched) = ran?.end else { return Err(interrupted()) };
        let how = match watched.progress.outcome {
            Some(Outcome::Exited { code: 0 }) if !watched.progress.truncated => return Ok(()),
            Some(Outcome::Exited { code }) => format!("ended with exit code {code}"),
            _ => watched.progress.complaint().unwrap_or_else(|| "did not end".to_owned()),
        };
        let mut what = format!("could not fetch packages: the package manager {how}");
        for denial in watched.egress_denied.iter().take(3) {
            what += &format!("; it may not reach {}:{}", denial.host, denial.port);
        }
        let said = sink.said();
        if !said.is_empty() {
            what = format!("{what}: {said}");
        }
        Err(Error::new(Kind::ExecutionFailed, what))
    }

    /// Describes a filler: the image and the user of the sandbox, its walls, and nothing else of it. Nothing of the caller's is
    /// in its environment.
    fn filler(&self, record: &Record, manifests: &Manifests, plan: &Plan) -> OneCommand {
        let ecosystem = manifests.ecosystem;
        let spec = SpecInput {
            image: Some(record.spec.image.clone()),
            user: record.spec.user.clone(),
            storage: Some(Storage::Disk),
            network: Some(self.rules().network(ecosystem).to_string()),
            backend: Some(record.backend.clone()),
            labels: BTreeMap::from([(LABEL.to_owned(), ecosystem.name().to_owned())]),
            require: record.spec.require.clone(),
            allow_missing: record.spec.allow_missing.clone(),
            ..SpecInput::default()
        };
        let file = |(path, contents): (&str, &[u8])| {
            let contents: Box<dyn Read + Send> = Box::new(Cursor::new(contents.to_vec()));
            (NewFile::at(format!("{WORKSPACE}/{path}")), contents)
        };
        OneCommand {
            spec,
            name: None,
            runtime: None,
            files: manifests.files().map(file).collect(),
            request: self.request(plan.fill(), &[]),
            output: OutputTo::Observer,
            pool: None,
        }
    }

    /// Refuses to fetch where the operator allows no network for it.
    fn expect_network(&self, ecosystem: Ecosystem) -> Result<()> {
        if !self.rules().network(ecosystem).is_none() {
            return Ok(());
        }
        let what = format!(
            "the packages of this lockfile are not here, and fetching {ecosystem} packages is not allowed"
        );
        Err(Error::new(Kind::NotAvailable, what)
            .hint(format!("set `{}` to `allow=HOST,…` with the hosts of the registry", ecosystem.setting())))
    }
}

/// Takes what a filler prints: the archive into the draft, and the end of the rest for people.
struct Sink {
    draft: Mutex<Option<Box<dyn Draft>>>,
    said: Mutex<Vec<u8>>,
    full: Mutex<Option<String>>,
    observer: Arc<dyn Observer>,
}

impl Sink {
    fn into(draft: Box<dyn Draft>, observer: Arc<dyn Observer>) -> Self {
        Self { draft: Mutex::new(Some(draft)), said: Mutex::default(), full: Mutex::default(), observer }
    }

    fn draft(&self) -> MutexGuard<'_, Option<Box<dyn Draft>>> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn said(&self) -> String {
        end_of(&self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns why no more was taken, if that is so.
    fn full(&self) -> Option<Error> {
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        full.as_ref().map(|reason| {
            Error::new(Kind::LimitExceeded, format!("could not keep fetched packages: {reason}"))
        })
    }
}

impl Observer for Sink {
    fn step(&self, step: &Step) {
        self.observer.step(step);
    }

    fn output(&self, chunk: &Chunk) -> Result<()> {
        match chunk.stream {
            Stream::Stdout => {
                let Some(written) = self.draft().as_mut().map(|draft| draft.write_all(&chunk.data)) else {
                    return Err(interrupted());
                };
                written.map_err(|error| {
                    let reason = error.to_string();
                    *self.full.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.clone());
                    Error::internal("could not keep fetched packages", error)
                })
            }
            Stream::Stderr => {
                let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                said.extend_from_slice(&chunk.data);
                // One byte more than is shown tells that there was more.
                let surplus = said.len().saturating_sub(2 * REASON);
                said.drain(..surplus);
                Ok(())
            }
        }
    }

    fn notice(&self, notice: &Notice) {
        self.observer.notice(notice);
    }
}

fn interrupted() -> Error {
    Error::new(Kind::Aborted, "fetching packages was interrupted")
}
