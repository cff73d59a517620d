//! Takes in a git bundle: its head is read here, its pack goes to `receive-pack`, with commands written here.

use std::fs::File;

use coracle_core::Cancel;
use coracle_core::error::{Error, Result};
use coracle_core::repo::{Pushed, Ref, RefChange, RefEnd, RefRules};

use crate::bundle;
use crate::crash;
use crate::program::Program;
use crate::receive::{By, Receiving, Rewinds};
use crate::serve::heads;
use crate::shelf::{Open, Shelf};

/// What bundles are taken in with.
#[derive(Debug)]
pub(crate) struct Import<'a> {
    pub shelf: &'a Shelf,
    pub program: &'a Program,
    /// The most bytes a pack may have.
    pub most: u64,
    pub cancel: &'a Cancel,
}

impl Import<'_> {
    /// Fills an empty repository.
    pub fn fill(&self, open: &Open, mut bundle: File) -> Result<()> {
        let head = bundle::read(&mut bundle).map_err(refused)?;
        let new = |one: &Ref| RefChange { name: one.name.clone(), old: None, new: Some(one.target.clone()) };
        let changes: Vec<_> = head.refs.iter().map(new).collect();
        let receiving = self.receiving(&changes, Rewinds::Allowed, Together::All);
        let received = receiving.carry_out(self.shelf, open, self.program, Some(&mut bundle), self.cancel)?;
        received.error(self.most).map_or(Ok(()), Err)?;
        if let Some(branch) = head.default_branch() {
            self.shelf.point_head(open, &branch)?;
        }
        self.shelf.reached(crash::ADD_FILL_AFTER);
        Ok(())
    }

    /// Moves branches forward and adds what is missing.
    pub fn update(&self, open: &Open, mut bundle: File, rules: &RefRules) -> Result<Vec<Pushed>> {
        let head = bundle::read(&mut bundle).map_err(refused)?;
        let there = heads(self.shelf, open, self.program)?.refs;
        let (mut changes, mut pushed) = (Vec::new(), Vec::new());
        for one in head.refs {
            let old = there.iter().find(|known| known.name == one.name).map(|known| known.target.clone());
            if old.as_ref() == Some(&one.target) {
                continue;
            }
            let moves_tag = old.is_some() && one.name.branch().is_none();
            let change = RefChange { name: one.name, old, new: Some(one.target) };
            let refusal = if moves_tag { Some("a tag does not move") } else { rules.refusal(&change) };
            match refusal {
                Some(why) => pushed.push(Pushed { change, end: RefEnd::Refused(why.to_owned()) }),
                None => changes.push(change),
            }
        }
        if changes.is_empty() {
            return Ok(pushed);
        }
        let receiving = self.receiving(&changes, Rewinds::Refused, Together::Each);
        let received = receiving.carry_out(self.shelf, open, self.program, Some(&mut bundle), self.cancel)?;
        if received.report.unpack.is_some() {
            received.error(self.most).map_or(Ok(()), Err)?;
        }
        pushed.extend(changes.into_iter().map(|change| {
            let refusal = received.report.refusal(change.name.as_str());
            Pushed { change, end: refusal.map_or(RefEnd::Done, RefEnd::Refused) }
        }));
        pushed.sort_by(|a, b| a.change.name.cmp(&b.change.name));
        Ok(pushed)
    }

    fn receiving<'a>(&self, changes: &'a [RefChange], rewinds: Rewinds, together: Together) -> Receiving<'a> {
        let atomic = together == Together::All;
        Receiving { changes, shallow: &[], atomic, rewinds, by: By::Host, most: self.most }
    }
}

/// Which changes happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Together {
    All,
    Each,
}

fn refused(why: bundle::Refused) -> Error {
    Error::invalid("bundle", "cannot be taken in")
        .hint("make a whole one: `git bundle create FILE --branches --tags HEAD`")
        .caused_by(why)
}
