//! What a client of git wants, and what it may do to refs.

use std::collections::BTreeSet;

use super::{BranchName, RefChange, RefName};

/// Which of git's two services a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Fetching, cloning, listing refs.
    UploadPack,
    /// Pushing.
    ReceivePack,
}

impl Service {
    /// Returns the name git's protocols have for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    /// Returns the service of that name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::UploadPack, Self::ReceivePack].into_iter().find(|service| service.as_str() == name)
    }
}

/// The version of git's protocol that a client asks for. Git itself falls back to one it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    #[default]
    V0,
    V1,
    V2,
}

impl Protocol {
    /// Reads what a client sends in `Git-Protocol`: keys separated by colons. What is unknown means version 0, as in git.
    pub fn asked_for(text: &str) -> Self {
        let versions = text.split(':').filter_map(|key| match key {
            "version=1" => Some(Self::V1),
            "version=2" => Some(Self::V2),
            _ => None,
        });
        versions.fold(Self::V0, |best, one| if one as u8 > best as u8 { one } else { best })
    }
}

/// Which part of a conversation is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// All of it, on one connection.
    #[default]
    Whole,
    /// Only the list of refs or capabilities, as the first request over HTTP gets it.
    Advertisement,
    /// One request and its answer, without a list before it, as in the later requests over HTTP.
    Request,
}

/// What one client may do to refs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefRules {
    /// Branches that sandboxes work on: they may be moved forward, and neither rewound nor deleted.
    pub busy: BTreeSet<BranchName>,
    /// If present, the only refs the client may write.
    pub only: Option<BTreeSet<RefName>>,
}

impl RefRules {
    /// Says why a client may not make this change, if it may not. Whether it rewinds a busy branch shows only when its objects
    /// are there.
    pub fn refusal(&self, change: &RefChange) -> Option<&'static str> {
        let elsewhere = self.only.as_ref().is_some_and(|only| !only.contains(&change.name));
        if !change.name.is_public() {
            Some("only branches and tags can be pushed")
        } else if elsewhere {
            Some("this sandbox may push its own branch alone")
        } else if change.new.is_none() && self.is_busy(&change.name) {
            Some("a sandbox works on this branch")
        } else {
            None
        }
    }

    /// Tells whether a sandbox works on it.
    pub fn is_busy(&self, name: &RefName) -> bool {
        name.branch().is_some_and(|branch| self.busy.contains(&branch))
    }
}

/// How a client is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    pub service: Service,
    pub protocol: Protocol,
    pub phase: Phase,
    pub rules: RefRules,
}

impl Serving {
    /// Serves one service on one connection, whatever branches are busy.
    pub fn whole(service: Service) -> Self {
        Self { service, protocol: Protocol::V0, phase: Phase::Whole, rules: RefRules::default() }
    }
}

/// What became of one ref of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    pub change: RefChange,
    pub end: RefEnd,
}

/// How a change of a ref that a client asked for ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefEnd {
    Done,
    /// With the words the client got.
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delete(name: &str) -> RefChange {
        RefChange { name: name.parse().expect("a ref"), old: None, new: None }
    }

    #[test]
    fn clients_write_branches_and_tags_and_delete_none_that_is_busy() {
        let busy = BTreeSet::from(["busy".parse().expect("a branch")]);
        let rules = RefRules { busy, only: None };

        assert_eq!(rules.refusal(&delete("refs/heads/free")), None);
        assert_eq!(rules.refusal(&delete("refs/tags/busy")), None, "a tag is no branch");
        assert!(rules.refusal(&delete("refs/heads/busy")).is_some());
        assert!(rules.refusal(&delete("refs/coracle/pins/a")).is_some());
    }

    #[test]
    fn a_sandbox_writes_only_what_it_may() {
        let own = "refs/heads/own".parse().expect("a ref");
        let rules = RefRules { only: Some(BTreeSet::from([own])), ..RefRules::default() };

        assert_eq!(rules.refusal(&delete("refs/heads/own")), None);
        assert!(rules.refusal(&delete("refs/heads/main")).is_some());
    }

    #[test]
    fn an_unknown_protocol_is_the_oldest() {
        assert_eq!(Protocol::asked_for("version=2"), Protocol::V2);
        assert_eq!(Protocol::asked_for("a=b:version=1"), Protocol::V1);
        assert_eq!(Protocol::asked_for("version=3"), Protocol::V0);
        assert_eq!(Protocol::asked_for(""), Protocol::V0);
    }
}
