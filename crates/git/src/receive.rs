//! How objects and refs enter a repository: by one `receive-pack` for each push, with commands written here.
//!
//! Git keeps new objects apart, checks them, compares and swaps the refs, and syncs files. Directories are synced here, before
//! the client hears of it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Stdio;

use coracle_core::Cancel;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::repo::{Oid, RefChange};

use crate::crash;
use crate::durable;
use crate::feed::{Said, feed};
use crate::program::{Program, words};
use crate::push::{self, Report};
use crate::run::{Job, Reach, share};
use crate::shelf::{Open, Shelf};

/// Whom a rewind is refused to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewinds {
    Allowed,
    Refused,
}

/// Who changes refs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Client,
    /// May delete the default branch as well.
    Host,
}

/// One run of `receive-pack`.
#[derive(Debug)]
pub(crate) struct Receiving<'a> {
    pub changes: &'a [RefChange],
    pub shallow: &'a [Oid],
    pub atomic: bool,
    pub rewinds: Rewinds,
    pub by: By,
    /// The most bytes a pack may have.
    pub most: u64,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Received {
    pub report: Report,
    pub complaint: String,
}

impl Receiving<'_> {
    /// Does it, with as much of the pack as git reads. Without one, the objects have to be there.
    pub fn carry_out(
        &self,
        shelf: &Shelf,
        open: &Open,
        program: &Program,
        pack: Option<&mut File>,
        cancel: &Cancel,
    ) -> Result<Received> {
        let attempted = |error| open.failed("write to repository", error);
        cancel.check()?;
        let said = self.talk(open, program, pack, cancel).map_err(attempted)?;
        cancel.check()?;
        shelf.reached(crash::RECEIVE_GIT_AFTER);
        let report = Report::read(&said.report).map_err(|error| failed(&said, open).caused_by(error))?;
        if report.refs.iter().any(|(_, refusal)| refusal.is_none()) {
            sync(&open.git, self.changes).map_err(attempted)?;
        }
        shelf.reached(crash::RECEIVE_SYNC_AFTER);
        Ok(Received { report, complaint: said.complaint })
    }

    fn talk(
        &self,
        open: &Open,
        program: &Program,
        pack: Option<&mut File>,
        cancel: &Cancel,
    ) -> io::Result<Said> {
        let mut commands = push::commands(self.changes, self.shallow, self.atomic);
        if pack.is_none() && self.changes.iter().any(|change| change.new.is_some()) {
            commands.extend_from_slice(EMPTY_PACK);
        }
        let deny = format!("receive.denyNonFastForwards={}", self.rewinds == Rewinds::Refused);
        let current = match self.by {
            By::Client => "receive.denyDeleteCurrent=refuse",
            By::Host => "receive.denyDeleteCurrent=ignore",
        };
        let most = format!("receive.maxInputSize={}", self.most);
        let settings = ["-c", deny.as_str(), "-c", current, "-c", most.as_str()];
        let mut all: Vec<_> = settings.iter().map(Into::into).collect();
        all.extend(words(["receive-pack", "--stateless-rpc"], &open.git));
        let job = Job {
            program,
            words: all,
            protocol: None,
            repository: &open.git,
            // An index comes with each pack.
            reach: Reach::Writes(self.most.saturating_mul(2).max(1 << 20)),
            lock: share(&open.shared)?,
        };
        feed(job.start(Stdio::piped(), Stdio::piped(), cancel)?, commands, pack)
    }
}

impl Received {
    /// Returns why all of it was refused, for changes that happen together.
    pub fn error(&self, most: u64) -> Option<Error> {
        if self.report.unpack.is_some() {
            return Some(self.unpacked(most));
        }
        let refused: Vec<_> =
            self.report.refs.iter().filter_map(|(name, why)| Some((name, why.as_ref()?))).collect();
        let missing = refused.iter().find(|(_, why)| why.contains("missing necessary objects"));
        if let Some((name, _)) = missing {
            return Some(Error::invalid(
                "new",
                format!("of `{name}`, or what it needs, is not in the repository"),
            ));
        }
        let (name, why) = refused.first()?;
        let said = self.complaint.lines().find_map(|line| line.strip_prefix("error: "));
        let error = Error::new(Kind::Conflict, format!("could not change `{name}`: {}", said.unwrap_or(why)));
        Some(error.hint("look where it leads now and try again"))
    }

    /// Returns the error for a pack git has refused.
    fn unpacked(&self, most: u64) -> Error {
        let too_large = ["exceeds maximum", "out of memory", "File too large", "allocat", "SIGXFSZ"];
        let said =
            self.complaint.lines().find(|line| line.starts_with("fatal:") || line.starts_with("error:"));
        let said = said.or(self.report.unpack.as_deref()).unwrap_or_default();
        match too_large.iter().any(|sign| self.complaint.contains(sign)) {
            true => Error::new(Kind::LimitExceeded, format!("could not take in the pack: {said}"))
                .detail("limit", "repos.push_max")
                .detail("max", most),
            false => Error::invalid("pack", format!("was refused: {said}")),
        }
    }
}

/// A pack without objects.
const EMPTY_PACK: &[u8] =
    b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";

fn failed(said: &Said, open: &Open) -> Error {
    let why = said.complaint.lines().last().unwrap_or("it ended without a report").to_owned();
    Error::new(Kind::Internal, format!("git could not write to repository `{}`: {why}", open.repo.id))
}

/// Syncs every directory in which a push may have changed an entry. Git has synced the files.
fn sync(git: &Path, changes: &[RefChange]) -> io::Result<()> {
    let mut places: std::collections::BTreeSet<&Path> = std::collections::BTreeSet::new();
    let refs: Vec<_> = changes.iter().map(|change| git.join(change.name.as_str())).collect();
    for path in &refs {
        places.extend(path.ancestors().skip(1).take_while(|place| place.starts_with(git)));
    }
    let (objects, pack) = (git.join("objects"), git.join("objects/pack"));
    places.extend([git, objects.as_path(), pack.as_path()]);
    // The deepest first; what git has removed with the last ref in it has no entries.
    for place in places.into_iter().rev() {
        match durable::sync_directory(place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
