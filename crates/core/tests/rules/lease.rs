//! Ownership: holds for any sequence of attempts, by any run, with any credential that was ever issued.

use std::collections::BTreeMap;

use coracle_core::error::Kind;
use coracle_core::ids::{RunId, SandboxId};
use coracle_core::lease::{Claim, Denied, Epoch, Event, Lease};
use proptest::prelude::*;

/// The credential a caller shows.
#[derive(Debug, Clone)]
enum Credential {
    /// A claim that was valid at some time; the number picks one of all issued.
    Issued(usize),
    /// A run without an epoch.
    Run(u8),
    /// Anything at all.
    Forged(u8, u64),
}

#[derive(Debug, Clone)]
enum Deed {
    Claim,
    Transfer(u8),
    Release,
    Use,
}

fn run(number: u8) -> RunId {
    format!("run_{number}").parse().expect("a valid id")
}

fn sandbox() -> SandboxId {
    "sbx_1".parse().expect("a valid id")
}

fn claim(run: &RunId, epoch: u64) -> Claim {
    Claim { run: run.clone(), epoch: Some(Epoch(epoch)) }
}

fn by(number: u8) -> Claim {
    Claim { run: run(number), epoch: None }
}

fn credentials() -> impl Strategy<Value = Credential> {
    prop_oneof![
        5 => any::<usize>().prop_map(Credential::Issued),
        3 => (0..4u8).prop_map(Credential::Run),
        1 => (0..4u8, 0..12u64).prop_map(|(run, epoch)| Credential::Forged(run, epoch)),
    ]
}

fn deeds() -> impl Strategy<Value = Deed> {
    prop_oneof![
        2 => Just(Deed::Claim),
        4 => (0..4u8).prop_map(Deed::Transfer),
        3 => Just(Deed::Release),
        2 => Just(Deed::Use),
    ]
}

/// Everything that was ever true, kept besides the lease under test.
struct History {
    lease: Lease,
    issued: Vec<Claim>,
    owners: BTreeMap<Epoch, Option<RunId>>,
}

impl History {
    fn begin() -> Self {
        let lease = Lease::new(run(0));
        let owners = BTreeMap::from([(lease.epoch(), Some(run(0)))]);
        Self { issued: vec![claim(&run(0), 1)], lease, owners }
    }

    fn show(&self, credential: &Credential) -> Claim {
        match credential {
            Credential::Issued(index) => self.issued[index % self.issued.len()].clone(),
            Credential::Run(number) => by(*number),
            Credential::Forged(number, epoch) => claim(&run(*number), *epoch),
        }
    }

    fn try_deed(&mut self, claim: &Claim, deed: &Deed) {
        let event = match deed {
            Deed::Use => return self.check_use(claim),
            Deed::Claim => Event::Claim,
            Deed::Transfer(to) => Event::Transfer { to: run(*to) },
            Deed::Release => Event::Release,
        };
        let before = self.lease.clone();
        let Ok(after) = before.step(claim, &event) else { return };
        self.check_change(&before, &after, claim, &event);
        self.lease = after;
    }

    fn check_use(&self, claim: &Claim) {
        let good = self.lease.owner() == Some(&claim.run)
            && claim.epoch.is_none_or(|epoch| epoch == self.lease.epoch());
        assert_eq!(self.lease.admit(claim).is_ok(), good, "{claim:?} on {:?}", self.lease);
    }

    fn check_change(&mut self, before: &Lease, after: &Lease, claim: &Claim, event: &Event) {
        assert!(claim.epoch.is_none_or(|epoch| epoch == before.epoch()), "a stale claim changed the lease");
        let owned = before.owner() == Some(&claim.run);
        assert!(
            owned || (before.owner().is_none() && *event == Event::Claim),
            "{claim:?} did not own {before:?}"
        );
        if after == before {
            return assert_eq!(*event, Event::Claim);
        }
        assert!(after.epoch() > before.epoch());
        let known = self.owners.insert(after.epoch(), after.owner().cloned());
        assert_eq!(known, None, "an epoch was used twice");
        if let Some(owner) = after.owner() {
            self.issued.push(Claim { run: owner.clone(), epoch: Some(after.epoch()) });
        }
    }

    fn check_standing(&self) {
        let good = self.issued.iter().filter(|claim| self.lease.admit(claim).is_ok()).count();
        assert_eq!(
            good,
            usize::from(self.lease.owner().is_some()),
            "of all claims ever issued only the owner's stands"
        );
        let mut holders = self.lease.holders().to_vec();
        holders.sort();
        holders.dedup();
        assert_eq!(holders.len(), self.lease.holders().len(), "a run is twice in the stack");
    }
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn of_all_claims_ever_issued_only_the_newest_stands(
        steps in prop::collection::vec((credentials(), deeds()), 1..60)
    ) {
        let mut history = History::begin();
        for (credential, deed) in steps {
            let claim = history.show(&credential);
            history.try_deed(&claim, &deed);
            history.check_standing();
        }
    }

    #[test]
    fn lending_and_giving_back_ends_where_it_began(depth in 1..20u8) {
        let mut lease = Lease::new(run(0));
        for number in 0..depth {
            lease = lease.step(&by(number), &Event::Transfer { to: run(number + 1) }).expect("the owner lends");
        }
        for number in (1..=depth).rev() {
            lease = lease.step(&by(number), &Event::Release).expect("the owner gives back");
        }

        prop_assert_eq!(lease.holders(), [run(0)]);
        prop_assert_eq!(lease.epoch(), Epoch(1 + 2 * u64::from(depth)));
    }
}

#[test]
fn a_claim_from_before_a_hand_over_is_refused_after_the_return() {
    let parent = claim(&run(0), 1);
    let lent = Lease::new(run(0)).step(&parent, &Event::Transfer { to: run(1) }).expect("the owner lends");
    let back = lent.step(&by(1), &Event::Release).expect("the owner gives back");

    assert_eq!(back.owner(), Some(&run(0)));
    assert_eq!(back.admit(&parent), Err(Denied::Stale { claimed: Epoch(1), current: Epoch(3) }));
    assert_eq!(back.admit(&by(0)), Ok(Epoch(3)));
}

#[test]
fn an_epoch_from_the_future_is_stale_too() {
    let denied = Lease::new(run(0)).admit(&claim(&run(0), 2));

    assert_eq!(denied, Err(Denied::Stale { claimed: Epoch(2), current: Epoch(1) }));
}

#[test]
fn a_lender_learns_that_it_is_lent_out_and_a_stranger_that_it_is_not_the_owner() {
    let lent = Lease::new(run(0)).step(&by(0), &Event::Transfer { to: run(1) }).expect("the owner lends");
    let (owner, current) = (run(1), Epoch(2));

    // Also with an old epoch: a caller that is not the owner learns that first.
    assert_eq!(lent.admit(&claim(&run(0), 1)), Err(Denied::LentOut { owner: owner.clone(), current }));
    assert_eq!(lent.admit(&by(2)), Err(Denied::NotOwner { owner, current }));
}

#[test]
fn a_released_sandbox_has_no_owner_until_a_run_claims_it() {
    let free = Lease::new(run(0)).step(&by(0), &Event::Release).expect("the owner releases");

    assert_eq!(free.admit(&by(0)), Err(Denied::Unowned { current: Epoch(2) }));
    assert_eq!(free.step(&by(0), &Event::Release), Err(Denied::Unowned { current: Epoch(2) }));
    let taken = free.step(&by(5), &Event::Claim).expect("it is free");
    assert_eq!((taken.owner(), taken.epoch()), (Some(&run(5)), Epoch(3)));
}

#[test]
fn a_delayed_claim_does_not_take_a_sandbox_again() {
    let free = Lease::new(run(0)).step(&by(0), &Event::Release).expect("the owner releases");

    let denied = free.step(&claim(&run(0), 1), &Event::Claim);

    assert_eq!(denied, Err(Denied::Stale { claimed: Epoch(1), current: Epoch(2) }));
}

#[test]
fn claiming_what_one_owns_changes_nothing() {
    let lease = Lease::new(run(0));

    assert_eq!(lease.step(&by(0), &Event::Claim), Ok(lease.clone()));
    assert!(matches!(lease.step(&by(1), &Event::Claim), Err(Denied::NotOwner { .. })));
}

#[test]
fn a_sandbox_is_not_lent_to_a_run_that_holds_it() {
    let lent = Lease::new(run(0)).step(&by(0), &Event::Transfer { to: run(1) }).expect("the owner lends");

    for to in [run(0), run(1)] {
        assert_eq!(lent.step(&by(1), &Event::Transfer { to: to.clone() }), Err(Denied::HoldsAlready { to }));
    }
}

#[test]
fn a_sandbox_is_lent_on_so_often_and_comes_back_all_the_way() {
    let lend = |lease: &Lease, from, to| lease.step(&by(from), &Event::Transfer { to: run(to) });
    let mut lease = Lease::new(run(0));
    for borrower in 1..64 {
        lease = lend(&lease, borrower - 1, borrower).expect("there is room for one more");
    }

    assert_eq!(lend(&lease, 63, 64), Err(Denied::TooDeep));

    let back = lease.step(&by(63), &Event::Release).expect("it can be given back");
    lend(&back, 62, 64).expect("there is room again");
}

#[test]
fn the_last_epoch_is_not_followed_by_the_first() {
    let json = serde_json::json!({"holders": ["run_0"], "epoch": u64::MAX});
    let lease: Lease = serde_json::from_value(json).expect("a stored lease");

    assert_eq!(lease.step(&by(0), &Event::Release), Err(Denied::Exhausted));
    assert_eq!(lease.step(&by(0), &Event::Transfer { to: run(1) }), Err(Denied::Exhausted));
}

#[test]
fn a_denial_names_the_sandbox_the_owner_and_what_to_do() {
    let (owner, current, sandbox) = (run(7), Epoch(4), sandbox());
    let expected = [
        (Denied::NotOwner { owner: owner.clone(), current }, Kind::NotOwner),
        (Denied::Unowned { current }, Kind::NotOwner),
        (Denied::LentOut { owner, current }, Kind::LentOut),
        (Denied::Stale { claimed: Epoch(2), current }, Kind::StaleEpoch),
        (Denied::HoldsAlready { to: run(7) }, Kind::Conflict),
        (Denied::TooDeep, Kind::LimitExceeded),
        (Denied::Exhausted, Kind::Conflict),
    ];

    for (denied, kind) in expected {
        let named =
            matches!(denied, Denied::NotOwner { .. } | Denied::LentOut { .. } | Denied::HoldsAlready { .. });
        let error = denied.into_error(&sandbox);
        assert_eq!(error.kind, kind);
        assert!(error.message.contains("`sbx_1`"), "{}", error.message);
        assert!(!named || error.message.contains("`run_7`"), "{}", error.message);
        assert!(error.hint.is_some());
    }
}
