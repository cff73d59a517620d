//! Histories: the commits of one, and whether one contains another.

use std::collections::{BinaryHeap, HashSet};

use coracle_porter::{Answer, Failed, LogEntry, Why};
use gix_hash::ObjectId;

use super::objects::Objects;
use crate::checkout::chain;

/// More commits than any history has that a person made.
const COMMITS_MAX: usize = 5_000_000;
/// How much of a message is answered.
const MESSAGE_MAX: usize = 64 << 10;
/// The most commits of one answer.
const LOG_MAX: u32 = 10_000;
/// The most bytes of messages in one answer.
const LOG_BYTES_MAX: usize = 16 << 20;

/// Returns commits, newest first, each before its parents as far as their times say so.
pub fn log(objects: &Objects, from: &str, max: u32) -> Result<Answer, Failed> {
    let mut walk = Walk::from(objects, objects.id(from)?)?;
    let (mut commits, mut bytes) = (Vec::new(), 0);
    while commits.len() < max.min(LOG_MAX) as usize && bytes < LOG_BYTES_MAX {
        let Some(id) = walk.next(objects)? else { return Ok(Answer::Log { commits, more: false }) };
        let entry = entry(objects, &id)?;
        bytes += entry.message.len();
        commits.push(entry);
    }
    let more = walk.next(objects)?.is_some();
    Ok(Answer::Log { commits, more })
}

/// Tells whether one commit is in the history of another.
pub fn is_ancestor(objects: &Objects, ancestor: &str, descendant: &str) -> Result<bool, Failed> {
    let (ancestor, descendant) = (objects.id(ancestor)?, objects.id(descendant)?);
    objects.commit(&ancestor)?;
    let mut walk = Walk::from(objects, descendant)?;
    while let Some(id) = walk.next(objects)? {
        if id == ancestor {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Commits by time, the newest first.
struct Walk {
    waiting: BinaryHeap<(i64, ObjectId)>,
    seen: HashSet<ObjectId>,
}

impl Walk {
    fn from(objects: &Objects, start: ObjectId) -> Result<Self, Failed> {
        let time = objects.commit(&start)?.time;
        Ok(Self { waiting: BinaryHeap::from([(time, start)]), seen: HashSet::from([start]) })
    }

    fn next(&mut self, objects: &Objects) -> Result<Option<ObjectId>, Failed> {
        let Some((_, id)) = self.waiting.pop() else { return Ok(None) };
        for parent in objects.commit(&id)?.parents {
            if self.seen.insert(parent) {
                self.waiting.push((objects.commit(&parent)?.time, parent));
            }
        }
        match self.seen.len() > COMMITS_MAX {
            true => Err(Failed::new(Why::Limit, format!("the history has more than {COMMITS_MAX} commits"))),
            false => Ok(Some(id)),
        }
    }
}

fn entry(objects: &Objects, id: &ObjectId) -> Result<LogEntry, Failed> {
    let mut buffer = Vec::new();
    let (_, data) = objects.read(id, &mut buffer)?;
    let commit = gix_object::CommitRef::from_bytes(data, gix_hash::Kind::Sha1)
        .map_err(|error| Failed::broken(format!("read commit `{id}`"), chain(&error)))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let author = commit.author().ok();
    let seconds = |who: Option<gix_actor::SignatureRef<'_>>| {
        who.and_then(|who| who.time().ok()).map_or(0, |time| time.seconds)
    };
    Ok(LogEntry {
        commit: id.to_string(),
        parents: commit.parents().map(|parent| parent.to_string()).collect(),
        author_name: author.map(|who| text(who.name)).unwrap_or_default(),
        author_email: author.map(|who| text(who.email)).unwrap_or_default(),
        author_time: seconds(author),
        commit_time: seconds(commit.committer().ok()),
        message: text(&commit.message[..commit.message.len().min(MESSAGE_MAX)]),
    })
}
