//! Waking: a new guest starts with the files of the last one. Once, however many callers ask at the same time.

use coracle_core::backend::{Created, EndsWith, Order};
use coracle_core::reconcile::Reason;
use coracle_core::record::Secret;
use coracle_core::store::Durability;
use coracle_core::{Error, Kind, Record, Result, SandboxId, State, lifecycle, tenant};

use super::Entry;
use crate::random::random;
use crate::{Call, Notice, crash, spans};

impl Entry {
    /// Wakes a sandbox that sleeps, or whose guest has ended and whose files are there. Does nothing where another caller has
    /// woken it meanwhile. A wake that fails leaves it asleep.
    pub(super) fn wake(&self, call: &Call, id: &SandboxId) -> Result<()> {
        // Of many callers one wakes it; the others wait here and find it awake.
        let _work = self.records.store().work_on(id, &call.cancel)?;
        let record = self.records.find(id)?;
        let asleep = match record.state {
            State::Ready | State::Paused => match self.access.stream_to(&record) {
                Ok(_) => return Ok(()),
                // Only proof that the guest is gone ends what it may have started.
                Err(error) if error.kind == Kind::NotFound => self.put_to_rest(&record)?,
                Err(error) => return Err(error),
            },
            State::Resuming => self.put_to_rest(&record)?,
            State::Hibernated => record,
            state => return Err(state.refuse(id, "wake")),
        };
        // Before the row says that it wakes: a container engine that does not answer leaves it asleep.
        if !self.hibernation_of(&asleep)?.has_files(id)? {
            return Err(self.access.lose(&asleep, &Reason::FilesGone.to_string()));
        }
        self.headroom.expect("wake a sandbox")?;
        call.cancel.check()?;
        call.observer.notice(&Notice::Waking { sandbox: id.clone() });
        spans::within(spans::wake(&asleep), || self.start(call, &asleep))
    }

    fn start(&self, call: &Call, asleep: &Record) -> Result<()> {
        let secret = Secret(random()?);
        // It takes a place of its tenant again. Where none is free it stays asleep.
        let quota = self.access.quota_to_wake(asleep.tenant.as_ref());
        let resuming = self.records.change_within(&asleep.id, Durability::Process, quota, &mut |mut row| {
            row.state =
                row.state.step(lifecycle::Event::Wake).map_err(|refused| refused.into_error(&row.id))?;
            // A guest of an earlier life, should one be left, takes no request of this one.
            row.secret = secret.clone();
            row.boot = self.records.boot().to_owned();
            row.life += 1;
            Ok(row)
        });
        let resuming = resuming.map_err(|error| not_woken(asleep, error))?;
        self.records.crash_at(crash::WAKE_ROW_AFTER);
        self.bring_up(call, &resuming).map_err(|error| match self.put_to_rest(&resuming) {
            Ok(_) => not_woken(asleep, error),
            // The row stays `resuming`, and the janitor puts it to rest.
            Err(left) => not_woken(asleep, error).detail("left_behind", left.chain()),
        })
    }

    fn bring_up(&self, call: &Call, record: &Record) -> Result<()> {
        let backend = self.placement.backend_of(record)?;
        let spec = tenant::spec_of(record.tenant.as_ref(), &record.spec)?;
        let _making = self.holdings.admit_volumes(record, backend, &spec)?;
        let created = self.hibernation_of(record)?.wake(&Order {
            sandbox: &record.id,
            instance: &self.records.store().instance()?,
            spec: &spec,
            secret: &record.secret,
            epoch: record.lease.epoch(),
            replaces: None,
            ends_with: EndsWith::Nothing,
        })?;
        self.records.crash_at(crash::WAKE_BACKEND_AFTER);
        // No caller has used the new guest yet, so ending it loses nothing.
        call.cancel.check()?;
        let placed = self.place(record, &created)?;
        self.egress.keep(&placed)?;
        self.records.crash_at(crash::WAKE_KEEPER_AFTER);
        call.cancel.check()?;
        // From here on callers write to its files, which are not synced. After a power cut the row must not say that they
        // are as they were when it fell asleep.
        self.records.change(&record.id, Durability::Power, &mut |mut row| {
            row.state =
                row.state.step(lifecycle::Event::Started).map_err(|refused| refused.into_error(&row.id))?;
            row.kept = None;
            Ok(row)
        })?;
        self.records.crash_at(crash::WAKE_READY_AFTER);
        Ok(())
    }

    /// Records where the new guest is, before its keeper looks for it.
    fn place(&self, record: &Record, created: &Created) -> Result<Record> {
        self.records.change(&record.id, Durability::Process, &mut |mut row| {
            row.placement = Some(created.placement.clone());
            row.profile = Some(created.profile.clone());
            row.image = Some(created.image.clone());
            Ok(row)
        })
    }
}

fn not_woken(record: &Record, error: Error) -> Error {
    if error.kind == Kind::Aborted || error.kind == Kind::Timeout {
        return error;
    }
    let kind = if error.kind == Kind::Internal { Kind::StartFailed } else { error.kind };
    let hint = error.hint.clone().unwrap_or_else(|| "`doctor` shows what this machine lacks".to_owned());
    Error::new(kind, format!("could not wake sandbox `{}`; its files are kept", record.id))
        .hint(hint)
        .detail("sandbox_id", record.id.as_str())
        .caused_by(error)
}
