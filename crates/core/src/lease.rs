//! Who owns a sandbox. Every change of owner raises the epoch, also a return to an earlier holder, so that a claim
//! from before a change of owner always differs from one after it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind};
use crate::ids::{RunId, SandboxId};

/// Counts changes of ownership of one sandbox. Never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of a sandbox that has never changed hands.
    pub const FIRST: Self = Self(1);

    fn next(self) -> Result<Self, Denied> {
        self.0.checked_add(1).map(Self).ok_or(Denied::Exhausted)
    }
}

/// How often a sandbox may be lent on. More than any workflow needs; bounded because every record and answer lists
/// all holders.
const HOLDERS_MAX: usize = 64;

/// What a caller shows: its run and, if it wants to be sure, the epoch it expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub run: RunId,
    pub epoch: Option<Epoch>,
}

/// The holders of a sandbox, lender before borrower; the last one owns it.
///
/// This is the stored value. Callers get a handle that cannot be copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    holders: Vec<RunId>,
    epoch: Epoch,
}

impl Lease {
    /// Makes the lease of a new sandbox.
    pub fn new(owner: RunId) -> Self {
        Self { holders: vec![owner], epoch: Epoch::FIRST }
    }

    /// Makes the lease of a sandbox that was found and has no owner.
    pub fn unowned() -> Self {
        Self { holders: Vec::new(), epoch: Epoch::FIRST }
    }

    /// Returns the run that may use the sandbox now.
    pub fn owner(&self) -> Option<&RunId> {
        self.holders.last()
    }

    /// Returns all holders, the owner last; each gets the sandbox back from the one after it.
    pub fn holders(&self) -> &[RunId] {
        &self.holders
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the epoch to act under, if the claim is valid.
    ///
    /// Checks ownership before the epoch: a caller that is not the owner learns that first, whatever epoch it shows.
    pub fn admit(&self, claim: &Claim) -> Result<Epoch, Denied> {
        let Some(owner) = self.owner() else { return Err(Denied::Unowned { current: self.epoch }) };
        if *owner == claim.run {
            return self.check_epoch(claim);
        }
        let (owner, current) = (owner.clone(), self.epoch);
        match self.holders.contains(&claim.run) {
            true => Err(Denied::LentOut { owner, current }),
            false => Err(Denied::NotOwner { owner, current }),
        }
    }

    /// Returns the lease after the event, or why the claim does not allow it.
    pub fn step(&self, claim: &Claim, event: &Event) -> Result<Self, Denied> {
        match event {
            Event::Claim => self.claimed(claim),
            Event::Transfer { to } => self.transferred(claim, to),
            Event::Release => self.released(claim),
        }
    }

    fn claimed(&self, claim: &Claim) -> Result<Self, Denied> {
        if self.owner().is_some() {
            return self.admit(claim).map(|_| self.clone());
        }
        // A delayed request from an earlier tenure carries its old epoch; it must not take the sandbox again.
        self.check_epoch(claim)?;
        Ok(Self { holders: vec![claim.run.clone()], epoch: self.epoch.next()? })
    }

    fn transferred(&self, claim: &Claim, to: &RunId) -> Result<Self, Denied> {
        self.admit(claim)?;
        // A run that is in the stack twice could not tell its two tenures apart when the sandbox returns.
        if self.holders.contains(to) {
            return Err(Denied::HoldsAlready { to: to.clone() });
        }
        if self.holders.len() >= HOLDERS_MAX {
            return Err(Denied::TooDeep);
        }
        let holders = self.holders.iter().chain([to]).cloned().collect();
        Ok(Self { holders, epoch: self.epoch.next()? })
    }

    fn released(&self, claim: &Claim) -> Result<Self, Denied> {
        self.admit(claim)?;
        let mut holders = self.holders.clone();
        holders.pop();
        Ok(Self { holders, epoch: self.epoch.next()? })
    }

    fn check_epoch(&self, claim: &Claim) -> Result<Epoch, Denied> {
        match claim.epoch {
            // An epoch from the future comes from before a restore of the store; it is as untrustworthy as an old
            // one.
            Some(claimed) if claimed != self.epoch => Err(Denied::Stale { claimed, current: self.epoch }),
            _ => Ok(self.epoch),
        }
    }
}

/// A change of ownership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Takes an unowned sandbox; for the owner nothing changes.
    Claim,
    /// Lends it to another run.
    Transfer { to: RunId },
    /// Gives it back to the previous holder, or to no owner.
    Release,
}

/// Why a claim is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("owned by run `{owner}`")]
    NotOwner { owner: RunId, current: Epoch },
    #[error("it has no owner")]
    Unowned { current: Epoch },
    #[error("lent out to run `{owner}`")]
    LentOut { owner: RunId, current: Epoch },
    #[error("the claim is from epoch {}, now it is {}", .claimed.0, .current.0)]
    Stale { claimed: Epoch, current: Epoch },
    #[error("run `{to}` holds it already")]
    HoldsAlready { to: RunId },
    #[error("{HOLDERS_MAX} runs hold it already, each lent it by the one before")]
    TooDeep,
    #[error("ownership has changed too often to be counted")]
    Exhausted,
}

impl Denied {
    /// Returns the error every door shows.
    pub fn into_error(self, sandbox: &SandboxId) -> Error {
        let error = Error::new(self.kind(), format!("sandbox `{sandbox}` is not yours to use: {self}"))
            .detail("sandbox_id", sandbox.as_str());
        match self {
            Self::NotOwner { owner, current } => error
                .hint(format!("act as run `{owner}`, or have it run `coracle transfer {sandbox} --to RUN` or `coracle release {sandbox}`"))
                .detail("owner", owner.as_str())
                .detail("current_epoch", current.0),
            Self::Unowned { current } => error
                .hint(format!("run `coracle claim {sandbox}` to take it"))
                .detail("owner", serde_json::Value::Null)
                .detail("current_epoch", current.0),
            Self::LentOut { owner, current } => error
                .hint(format!("wait until run `{owner}` gives it back (`coracle release {sandbox} --run {owner}`)"))
                .detail("owner", owner.as_str())
                .detail("current_epoch", current.0),
            Self::Stale { claimed, current } => error
                .hint(format!("run `coracle claim {sandbox}` to learn the epoch of your lease, then decide anew"))
                .detail("epoch", claimed.0)
                .detail("current_epoch", current.0),
            Self::HoldsAlready { to } => error
                .hint("give it back with `coracle release` instead of lending it to a run that waits for it")
                .detail("to", to.as_str()),
            Self::TooDeep => error
                .hint(format!("give it back with `coracle release {sandbox}`; the run that gets it may lend it"))
                .detail("limit", HOLDERS_MAX),
            Self::Exhausted => error.hint("open a new sandbox"),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::NotOwner { .. } | Self::Unowned { .. } => Kind::NotOwner,
            Self::LentOut { .. } => Kind::LentOut,
            Self::Stale { .. } => Kind::StaleEpoch,
            Self::TooDeep => Kind::LimitExceeded,
            Self::HoldsAlready { .. } | Self::Exhausted => Kind::Conflict,
        }
    }
}
