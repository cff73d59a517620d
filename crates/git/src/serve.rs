//! Serves a client of git: a fetch is git's own conversation, a push is led from here.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;

use coracle_core::Cancel;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::repo::{
    Heads, Oid, Phase, Protocol, Pushed, Ref, RefChange, RefEnd, RefRules, Service, Serving,
};
use coracle_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::pkt::{self, Packet};
use crate::program::{Program, words};
use crate::push::{self, Push, Report};
use crate::receive::{By, Receiving, Rewinds};
use crate::run::{Job, Reach, share};
use crate::shelf::{Open, Shelf};

/// A list of a million refs.
const LIST_MAX: u64 = 128 << 20;
/// How long `upload-pack` waits for a client that says nothing, in seconds.
const PATIENCE: &str = "--timeout=600";
/// How long what a refused client still sends is waited for.
const DRAIN: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };
const AGENT: &str = concat!("coracle/", env!("CARGO_PKG_VERSION"));
/// What git says of a branch that would lose commits.
const REWIND: &str = "non-fast-forward";

/// One client at one repository.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    pub shelf: &'a Shelf,
    pub open: &'a Open,
    pub program: &'a Program,
    pub serving: &'a Serving,
    /// The most bytes a pack may have.
    pub most: u64,
    pub cancel: &'a Cancel,
}

/// Returns branches and tags, from `upload-pack`'s list.
pub(crate) fn heads(shelf: &Shelf, open: &Open, program: &Program) -> Result<Heads> {
    let attempted = |error| open.failed("list the refs of", error);
    let cancel = Cancel::default();
    let words = words(["upload-pack", "--strict", "--http-backend-info-refs"], &open.git);
    let job = job(open, program, words, None).map_err(attempted)?;
    let mut running = job.start(Stdio::null(), Stdio::piped(), &cancel).map_err(attempted)?;
    let mut list = Vec::new();
    if let Some(stdout) = running.child().stdout.take() {
        stdout.take(LIST_MAX).read_to_end(&mut list).map_err(attempted)?;
    }
    let (status, complaint) = running.wait().map_err(attempted)?;
    match status.success() {
        true => {
            Ok(Heads { default: shelf.default_branch(open)?, refs: parse_list(&list).map_err(attempted)? })
        }
        false => Err(attempted(io::Error::other(complaint))),
    }
}

fn parse_list(mut list: &[u8]) -> io::Result<Vec<Ref>> {
    let mut refs = Vec::new();
    while let Some(Packet::Line(line)) = pkt::read(&mut list).map_err(io::Error::other)? {
        let line = line.split(|byte| *byte == 0 || *byte == b'\n').next().unwrap_or_default();
        let Some((id, name)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(' ')) else {
            return Err(io::Error::other("git lists what is no ref"));
        };
        // `HEAD`, and what tags lead to, are no refs of their own.
        if let (Ok(target), Ok(name)) = (id.parse::<Oid>(), name.parse()) {
            refs.push(Ref { name, target });
        }
    }
    Ok(refs)
}

fn job<'a>(
    open: &'a Open,
    program: &'a Program,
    words: Vec<std::ffi::OsString>,
    protocol: Option<&'static str>,
) -> io::Result<Job<'a>> {
    let lock = share(&open.shared)?;
    Ok(Job { program, words, protocol, repository: &open.git, reach: Reach::Reads, lock })
}

impl Client<'_> {
    pub fn serve(&self, input: OwnedFd, output: OwnedFd) -> Result<Vec<Pushed>> {
        match self.serving.service {
            Service::UploadPack => self.upload(input, output).map(|()| Vec::new()),
            Service::ReceivePack => self.receive(File::from(input), File::from(output)),
        }
    }

    fn upload(&self, input: OwnedFd, output: OwnedFd) -> Result<()> {
        let attempted = |error| self.open.failed("serve repository", error);
        let words = match self.serving.phase {
            Phase::Whole => words(["upload-pack", "--strict", PATIENCE], &self.open.git),
            Phase::Advertisement => {
                words(["upload-pack", "--strict", "--http-backend-info-refs"], &self.open.git)
            }
            Phase::Request => words(["upload-pack", "--strict", PATIENCE, "--stateless-rpc"], &self.open.git),
        };
        let protocol = match self.serving.protocol {
            Protocol::V0 => None,
            Protocol::V1 => Some("version=1"),
            Protocol::V2 => Some("version=2"),
        };
        let job = job(self.open, self.program, words, protocol).map_err(attempted)?;
        let running = job.start(input.into(), output.into(), self.cancel).map_err(attempted)?;
        let (status, complaint) = running.wait().map_err(attempted)?;
        self.cancel.check()?;
        let said = complaint.lines().last().unwrap_or("it ended").to_owned();
        match status.success() {
            true => Ok(()),
            false => Err(Error::new(Kind::ExecutionFailed, format!("git did not serve the client: {said}"))),
        }
    }

    fn receive(&self, mut input: File, mut output: File) -> Result<Vec<Pushed>> {
        let gone = |error| Error::new(Kind::Aborted, "the client left during a push").caused_by(error);
        if self.serving.phase != Phase::Request {
            let list = heads(self.shelf, self.open, self.program)?.refs;
            let mut bytes = Vec::new();
            if self.serving.protocol == Protocol::V1 {
                pkt::line(&mut bytes, b"version 1\n");
            }
            bytes.extend(push::advertisement(&list, AGENT));
            output.write_all(&bytes).map_err(gone)?;
        }
        if self.serving.phase == Phase::Advertisement {
            return Ok(Vec::new());
        }
        self.cancel.check()?;
        let push = match push::read(&mut input) {
            Ok(Some(push)) => push,
            Ok(None) => return Ok(Vec::new()),
            Err(error) => {
                let mut bytes = Vec::new();
                pkt::line(&mut bytes, format!("ERR {error}").as_bytes());
                let _ = output.write_all(&bytes);
                return Err(Error::invalid("push", "cannot be understood").caused_by(error));
            }
        };
        let answer = self.take(&push, &mut input)?;
        output.write_all(&answer.report.written(&push)).map_err(gone)?;
        drop(output);
        self.drain(input);
        Ok(answer.pushed)
    }

    /// Carries out a push as far as the rules admit it.
    fn take(&self, push: &Push, input: &mut File) -> Result<Answer> {
        let rules = &self.serving.rules;
        let mut answer = Answer::default();
        let mut admitted: Vec<RefChange> = Vec::new();
        for command in &push.commands {
            let refusal = match &command.change {
                None => Some("no ref may have this name"),
                Some(change) => rules.refusal(change),
            };
            match (&command.change, refusal) {
                (Some(change), None) => admitted.push(change.clone()),
                (_, why) => answer.refuse(&command.name, why.unwrap_or_default()),
            }
        }
        let refused = admitted.len() < push.commands.len();
        if push.atomic && refused {
            admitted.iter().for_each(|change| {
                answer.refuse(change.name.as_str(), "another ref of the push was refused")
            });
            admitted.clear();
        }
        if !admitted.is_empty() {
            self.write(push, &admitted, input, &mut answer)?;
        }
        let changes = push.commands.iter().filter_map(|command| command.change.clone());
        answer.pushed = changes.map(|change| answer.end_of(change)).collect();
        self.settle_default(&answer);
        Ok(answer)
    }

    /// Writes what was admitted. Git refuses rewinds of all refs of a push or of none: where busy branches are among them it
    /// refuses all, and those that are not busy are tried again, with the objects there.
    fn write(
        &self,
        push: &Push,
        admitted: &[RefChange],
        input: &mut File,
        answer: &mut Answer,
    ) -> Result<()> {
        let rules: &RefRules = &self.serving.rules;
        let busy = admitted.iter().any(|change| rules.is_busy(&change.name));
        let receiving = Receiving {
            changes: admitted,
            shallow: &push.shallow,
            atomic: push.atomic,
            rewinds: if busy { Rewinds::Refused } else { Rewinds::Allowed },
            by: By::Client,
            most: self.most,
        };
        let pack = push.brings_pack().then_some(input);
        let received = receiving.carry_out(self.shelf, self.open, self.program, pack, self.cancel)?;
        answer.report.unpack = match received.report.unpack {
            Some(_) => received.error(self.most).map(|error| one_line(&error.message)),
            None => None,
        };
        let (mut again, mut ends) = (Vec::new(), received.report.refs.clone());
        if busy && !push.atomic && received.report.unpack.is_none() {
            let denied = |change: &&RefChange| {
                !rules.is_busy(&change.name)
                    && received.report.refusal(change.name.as_str()).as_deref() == Some(REWIND)
            };
            again = admitted.iter().filter(denied).cloned().collect();
        }
        if !again.is_empty() {
            let retry = Receiving { changes: &again, rewinds: Rewinds::Allowed, ..receiving };
            let second = retry.carry_out(self.shelf, self.open, self.program, None, self.cancel)?;
            ends.retain(|(name, _)| !again.iter().any(|change| change.name.as_str() == name));
            ends.extend(second.report.refs);
        }
        for change in admitted {
            let end = ends.iter().find(|(name, _)| name == change.name.as_str());
            let refusal = match end {
                Some((_, Some(why))) if why == REWIND && rules.is_busy(&change.name) => {
                    Some("a sandbox works on this branch: it can only move forward".to_owned())
                }
                Some((_, refusal)) => refusal.clone(),
                None => Some("not carried out".to_owned()),
            };
            answer.report.refs.push((change.name.to_string(), refusal));
        }
        Ok(())
    }

    /// Makes a branch the default that was pushed into a repository without its default branch.
    fn settle_default(&self, answer: &Answer) {
        let made = |pushed: &&Pushed| pushed.end == RefEnd::Done && pushed.change.new.is_some();
        let Some(branch) = answer.pushed.iter().filter(made).find_map(|pushed| pushed.change.name.branch())
        else {
            return;
        };
        // A clone of it says that the default branch is missing, which is no reason to refuse the push.
        let _ = heads(self.shelf, self.open, self.program).and_then(|heads| match &heads.default {
            Some(default) if heads.branch(default).is_some() => Ok(()),
            Some(_) | None => self.shelf.point_head(self.open, &branch),
        });
    }

    /// Reads what the client still sends, so that it gets to read its report. It closes its end then.
    fn drain(&self, mut input: File) {
        let (mut piece, mut left) = (vec![0; 64 << 10], self.most);
        while left > 0 && !self.cancel.is_cancelled() {
            let mut fds = [PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)];
            if !matches!(poll(&mut fds, Some(&DRAIN)), Ok(1..)) {
                return;
            }
            match input.read(&mut piece) {
                Ok(0) | Err(_) => return,
                Ok(count) => left = left.saturating_sub(count as u64),
            }
        }
    }
}

/// What a client gets, and what became of its push.
#[derive(Debug, Default)]
struct Answer {
    report: Report,
    pushed: Vec<Pushed>,
}

impl Answer {
    fn refuse(&mut self, name: &str, why: &str) {
        self.report.refs.push((name.to_owned(), Some(why.to_owned())));
    }

    fn end_of(&self, change: RefChange) -> Pushed {
        let end = match self.report.refusal(change.name.as_str()) {
            None => RefEnd::Done,
            Some(why) => RefEnd::Refused(why),
        };
        Pushed { change, end }
    }
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ").chars().take(500).collect()
}
