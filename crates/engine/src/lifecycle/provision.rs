//! Making a sandbox whose record is there already: prepare, create, ready. What fails is removed before the error
//! is returned.

use std::sync::Arc;

use coracle_core::backend::{Created, Order};
use coracle_core::forking::ForkSource;
use coracle_core::image::{Progress, Reference};
use coracle_core::redact;
use coracle_core::store::Durability;
use coracle_core::{Backend, Error, Kind, Record, Result, Spec, lifecycle, tenant};

use super::Lifecycle;
use crate::{crash, spans};

/// What a sandbox starts with.
#[derive(Clone, Copy)]
enum From<'a> {
    /// An image, which may have to be brought first.
    Image(&'a dyn Progress),
    /// The files of another sandbox.
    Files(&'a dyn ForkSource),
}

impl Lifecycle {
    /// Brings what a sandbox like this needs, such as its image, before there is one: what takes long can be given up
    /// without leaving a sandbox half made.
    pub fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<()> {
        spans::within(spans::bring(spec), || {
            self.placement.on_backend(spec, |choice| {
                // A sandbox that is found again by its key was made from this image, which is here then.
                if let Err(error) = self.headroom.expect("bring an image")
                    && !has_image(choice.backend, &spec.image)
                {
                    return Err(error);
                }
                choice.backend.prepare(spec, progress)
            })
        })
    }

    /// Takes a sandbox from `creating` to what `made` leads to, or to `failed`. The caller holds the right to work on it.
    pub(crate) fn provision(
        &self,
        record: &Record,
        made: lifecycle::Event,
        progress: &dyn Progress,
    ) -> Result<Record> {
        self.bring_up(record, made, From::Image(progress))
    }

    /// Makes one that starts with the files of another.
    pub(crate) fn provision_from(&self, record: &Record, source: &dyn ForkSource) -> Result<Record> {
        self.bring_up(record, lifecycle::Event::Started, From::Files(source))
    }

    fn bring_up(&self, record: &Record, made: lifecycle::Event, from: From<'_>) -> Result<Record> {
        spans::within(spans::create(record), || self.make(record, made, from))
    }

    fn make(&self, record: &Record, made: lifecycle::Event, from: From<'_>) -> Result<Record> {
        self.records.crash_at(crash::CREATE_ROW_AFTER);
        match self.start(record, made, from) {
            Ok(ready) => {
                self.records.crash_at(crash::CREATE_READY_AFTER);
                Ok(ready)
            }
            Err(error) => Err(self.abandon(record, error)),
        }
    }

    fn start(&self, record: &Record, made: lifecycle::Event, from: From<'_>) -> Result<Record> {
        let backend = self.placement.backend_of(record)?;
        let spec = tenant::spec_of(record.tenant.as_ref(), &record.spec)?;
        if let From::Image(progress) = from {
            self.holdings.hold_image(record.tenant.as_ref(), backend, &spec.image, || {
                spans::within(spans::prepare(record), || backend.prepare(&spec, progress))
            })?;
        }
        let _making = self.holdings.admit_volumes(record, backend, &spec)?;
        self.records.crash_at(crash::CREATE_PREPARE_AFTER);

        let order = Order {
            sandbox: &record.id,
            instance: &self.records.store().instance()?,
            spec: &spec,
            secret: &record.secret,
            epoch: record.lease.epoch(),
            replaces: record.replaces.as_ref(),
            ends_with: self.ends_with,
        };
        let created = spans::within(spans::create_on_backend(record), || match from {
            From::Image(_) => backend.create(&order),
            From::Files(source) => source.create(&order),
        })?;
        self.records.crash_at(crash::CREATE_BACKEND_AFTER);
        if !record.spec.network.is_none() {
            spans::within(spans::give_network(record), || self.give_network(record, &created))?;
        }
        if let From::Image(progress) = from {
            self.bring_repo(record, &created, &progress.cancel())?;
        }
        self.mark_made(record, made, &created)
    }

    /// Starts a keeper before the sandbox can be used. It finds the guest by the record.
    fn give_network(&self, record: &Record, created: &Created) -> Result<()> {
        let placed = self.records.change(&record.id, Durability::Process, &mut |mut row| {
            row.placement = Some(created.placement.clone());
            Ok(row)
        })?;
        self.records.crash_at(crash::CREATE_PLACEMENT_AFTER);
        self.egress.keep(&placed)?;
        self.records.crash_at(crash::CREATE_KEEPER_AFTER);
        Ok(())
    }

    fn mark_made(&self, record: &Record, made: lifecycle::Event, created: &Created) -> Result<Record> {
        self.records.change(&record.id, Durability::Process, &mut |mut row| {
            row.state = row.state.step(made).map_err(|refused| refused.into_error(&row.id))?;
            row.placement = Some(created.placement.clone());
            row.profile = Some(created.profile.clone());
            row.image = Some(created.image.clone());
            Ok(row)
        })
    }

    fn abandon(&self, record: &Record, error: Error) -> Error {
        let reason = redact::reason(record, &error);
        match self.fail(record, &reason) {
            Ok(()) => started_not(record, error),
            // The row stays for the janitor; the first error is the one that matters.
            Err(leftover) => started_not(record, error).detail("not_removed", leftover.chain()),
        }
    }

    /// Removes what there is of a sandbox that did not come to be, then records that.
    ///
    /// In this order: a row that says `failed` promises that nothing is left.
    pub(crate) fn fail(&self, record: &Record, reason: &str) -> Result<()> {
        // First: while the row is there, the next sweep tries again.
        self.headroom.freeing(|| self.drop_branch(record))?;
        let removed = self.headroom.freeing(|| self.placement.backend_of(record)?.destroy(&record.id));
        match removed.and_then(|()| self.headroom.freeing(|| self.egress.unkeep(&record.id))) {
            Ok(()) => self.records.note(&record.id, lifecycle::Event::NotStarted, reason),
            Err(error) => {
                self.records.note(&record.id, lifecycle::Event::Destroy, reason)?;
                self.records.note(&record.id, lifecycle::Event::NotRemoved, reason)?;
                Err(error)
            }
        }
    }
}

fn has_image(backend: &Arc<dyn Backend>, image: &str) -> bool {
    let written_out = image.parse::<Reference>().map_or_else(|_| image.to_owned(), |name| name.to_string());
    let listed = backend.images().and_then(|images| images.list().ok()).unwrap_or_default();
    listed.iter().any(|stored| stored.reference == written_out || stored.reference == image)
}

/// Faults of the machine become `start_failed`; what the backend could name (an image, a limit) keeps its name.
fn started_not(record: &Record, error: Error) -> Error {
    match error.kind {
        Kind::Internal | Kind::StartFailed => Error::new(
            Kind::StartFailed,
            format!("could not start sandbox `{}` on `{}`", record.id, record.backend),
        )
        .hint("`doctor` shows what this machine lacks")
        .detail("sandbox_id", record.id.as_str())
        .detail("backend", record.backend.as_str())
        .caused_by(error),
        _ => error.detail("sandbox_id", record.id.as_str()),
    }
}
