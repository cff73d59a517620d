//! Unpacks one layer into the store: once, complete, and only if its digest is right.

use std::fs::File;
use std::io;

use coracle_core::image::Phase;
use coracle_core::{Error, Kind, Result};
use coracle_unpack::{Outcome, Reason};

use super::Store;
use super::draft::Draft;
use super::meter::Meter;
use crate::digest::Digest;
use crate::proportion::Allowance;
use crate::unpacker::{self, Failure, Job};

/// Where the bytes of a layer are.
#[derive(Debug)]
pub struct Source<'a> {
    pub file: &'a File,
    pub offset: u64,
    pub length: u64,
}

impl Store {
    pub(super) fn has_layer(&self, diff_id: &Digest) -> bool {
        self.layout.layer(diff_id).symlink_metadata().is_ok()
    }

    /// Unpacks a layer and adds it to the store. `allowance` is its image's; `wanted` tells whether the caller
    /// still wants it.
    pub(super) fn unpack_layer(
        &self,
        source: &Source<'_>,
        diff_id: &Digest,
        allowance: &Allowance,
        meter: &mut Meter<'_>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<()> {
        let draft = Draft::new(&self.layout).map_err(kept("make a directory for a layer"))?;
        let target = draft.tree();
        let job = Job {
            programs: &self.layout.unpacker(),
            file: source.file,
            offset: source.offset,
            length: source.length,
            limits: allowance.limits(self.limits, source.length),
            target: &target,
        };
        meter.tell(Phase::Unpacking, 0, source.length);
        let outcome = unpacker::unpack(&job, &mut |read| {
            meter.tell(Phase::Unpacking, read, source.length);
            wanted()
        });
        let outcome = outcome.map_err(|failure| refused(failure, diff_id))?;
        check(&outcome, diff_id)?;
        allowance.spend(outcome.bytes)?;
        draft.commit(&self.layout, diff_id, &outcome, self.config.crash).map_err(kept("keep a layer"))
    }
}

/// Refuses a layer that is not the one the image's configuration names.
fn check(outcome: &Outcome, diff_id: &Digest) -> Result<()> {
    let found = Digest::from_hash(&outcome.diff_id);
    match found == *diff_id {
        true => Ok(()),
        false => Err(Error::new(Kind::Invalid, "a layer is not the one its configuration names")
            .detail("expected", diff_id.as_str())
            .detail("found", found.as_str())),
    }
}

fn refused(failure: Failure, diff_id: &Digest) -> Error {
    let error = match failure {
        Failure::Refused(refusal) => {
            let kind = match refusal.reason {
                Reason::Malformed => Kind::Invalid,
                Reason::Limit => Kind::LimitExceeded,
                Reason::Unsupported => Kind::Unsupported,
                Reason::Machine => Kind::Internal,
            };
            let error = Error::new(kind, "a layer could not be unpacked").caused_by(refusal);
            if kind == Kind::Internal { error.hint("is there space left on the disk?") } else { error }
        }
        Failure::Late => Error::new(Kind::Timeout, "a layer took too long to unpack"),
        Failure::Abandoned => Error::new(Kind::Aborted, "another layer of the image could not be brought"),
        Failure::Broken { attempted, cause } => Error::internal(format!("could not {attempted}"), cause),
    };
    error.detail("layer", diff_id.as_str())
}

/// Says what could not be done in the store's directory.
pub fn kept(attempted: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        let full = error.kind() == io::ErrorKind::StorageFull;
        let error = Error::internal(format!("could not {attempted} in the image store"), error);
        if full { error.hint("the disk is full; `coracle gc` removes what nothing uses") } else { error }
    }
}
