//! Reconciliation on a small simulated machine: it converges, and it leaves healthy sandboxes alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coracle_core::backend::{Found, GuestEnd};
use coracle_core::clock::Timestamp;
use coracle_core::ids::SandboxId;
use coracle_core::lease::Lease;
use coracle_core::lifecycle::{Event, State};
use coracle_core::policy::Policy;
use coracle_core::reconcile::{Action, Facts, QUARANTINE, Reason, plan};
use coracle_core::record::{Record, Secret};
use coracle_core::spec::{Spec, SpecInput};
use proptest::prelude::*;

const BOOT: &str = "this boot";
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Records and objects, as a crash or a restored database may have left them.
#[derive(Debug, Clone, Default)]
struct World {
    records: BTreeMap<SandboxId, Record>,
    /// The value tells whether the guest lives.
    objects: BTreeMap<SandboxId, bool>,
    busy: BTreeSet<SandboxId>,
}

/// The record and the object of one sandbox.
#[derive(Debug, Clone)]
struct Case {
    state: Option<State>,
    object: Option<bool>,
    other_boot: bool,
    busy: bool,
    old: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let state = prop::option::weighted(0.85, prop::sample::select(State::ALL.to_vec()));
    let object = prop::option::of(any::<bool>());
    let facts = (prop::bool::weighted(0.2), prop::bool::weighted(0.2), any::<bool>());
    (state, object, facts).prop_map(|(state, object, (other_boot, busy, old))| Case {
        state,
        object,
        other_boot,
        busy,
        old,
    })
}

fn id(number: usize) -> SandboxId {
    format!("sbx_{number}").parse().expect("a valid id")
}

fn record(id: SandboxId, state: State) -> Record {
    Record {
        id,
        state,
        tenant: None,
        key: None,
        lease: Lease::unowned(),
        spec: Spec::resolve(SpecInput::default(), &Policy::default()).expect("an empty spec is valid"),
        backend: "simulated".to_owned(),
        refused: Vec::new(),
        placement: None,
        profile: None,
        image: None,
        narrowed: None,
        pending_kill: None,
        forked_from: None,
        replaces: None,
        secret: Secret([0; 32]),
        boot: BOOT.to_owned(),
        created_at: NOW,
        updated_at: NOW,
        observed_at: NOW,
        idle_since: None,
        reason: None,
    }
}

impl World {
    fn of(cases: &[Case]) -> Self {
        let mut world = Self::default();
        for (number, case) in cases.iter().enumerate() {
            world.add(id(number), case);
        }
        world
    }

    fn add(&mut self, id: SandboxId, case: &Case) {
        if let Some(state) = case.state {
            let age = if case.old { 2 * QUARANTINE.as_millis() as u64 } else { 1000 };
            let observed_at = Timestamp::from_millis(NOW.as_millis() - age);
            let boot = if case.other_boot { "another boot" } else { BOOT }.to_owned();
            self.records.insert(id.clone(), Record { observed_at, boot, ..record(id.clone(), state) });
        }
        if let Some(alive) = case.object {
            self.objects.insert(id.clone(), alive);
        }
        if case.busy {
            self.busy.insert(id);
        }
    }

    fn plan(&self) -> Vec<Action> {
        let records: Vec<_> = self.records.values().cloned().collect();
        let found: Vec<_> = self
            .objects
            .iter()
            .map(|(sandbox, alive)| Found {
                sandbox: sandbox.clone(),
                alive: *alive,
                end: None,
                objects: Vec::new(),
            })
            .collect();
        plan(&records, &found, &facts(&self.busy))
    }

    /// Carries an action out. With `removes` false, every removal of an object fails.
    fn carry_out(&mut self, action: &Action, removes: bool) {
        let id = action.sandbox().clone();
        match action {
            Action::Fail { .. } => {
                if self.remove(&id, removes) {
                    self.step(&id, Event::NotStarted);
                }
            }
            Action::Lose { .. } => {
                self.step(&id, Event::Vanished);
                self.remove(&id, removes);
            }
            Action::Revive { .. } => self.step(&id, Event::NotSaved),
            Action::Expire { .. } => {
                self.step(&id, Event::Idled);
                self.remove(&id, removes);
            }
            Action::Finish { .. } | Action::Discard { .. } => {
                self.step(&id, Event::Destroy);
                let removed = self.remove(&id, removes);
                self.step(&id, if removed { Event::Removed } else { Event::NotRemoved });
            }
            Action::Sweep { .. } => drop(self.remove(&id, removes)),
            Action::Quarantine { .. } => {
                drop(self.records.insert(id.clone(), record(id, State::Quarantined)))
            }
        }
    }

    fn remove(&mut self, id: &SandboxId, removes: bool) -> bool {
        assert!(self.records.contains_key(id), "an object without a record was removed");
        if removes {
            self.objects.remove(id);
        }
        removes
    }

    fn step(&mut self, id: &SandboxId, event: Event) {
        let record = self.records.get_mut(id).expect("the action is about a record");
        record.state = record.state.step(event).expect("the lifecycle allows what the plan says");
        record.observed_at = NOW;
    }

    fn is_well(&self, id: &SandboxId) -> bool {
        let alive = self.objects.get(id) == Some(&true);
        self.records.get(id).is_some_and(|record| {
            alive && record.boot == BOOT && matches!(record.state, State::Ready | State::Paused)
        })
    }
}

fn facts(busy: &BTreeSet<SandboxId>) -> Facts<'_> {
    Facts {
        observed: NOW,
        boot: Some(BOOT),
        busy,
        quarantine: QUARANTINE,
        retention: Duration::from_secs(7 * 24 * 3600),
    }
}

/// Returns the action for one sandbox.
fn decide(case: Case) -> Option<Action> {
    let plan = World::of(&[case]).plan();
    assert!(plan.len() <= 1);
    plan.into_iter().next()
}

fn case(state: Option<State>, object: Option<bool>) -> Case {
    Case { state, object, other_boot: false, busy: false, old: false }
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn a_plan_that_was_carried_out_leaves_nothing_to_do(cases in prop::collection::vec(cases(), 0..12)) {
        let mut world = World::of(&cases);
        for action in world.plan() {
            world.carry_out(&action, true);
        }

        prop_assert_eq!(world.plan(), []);
    }

    #[test]
    fn busy_and_healthy_sandboxes_are_left_alone(cases in prop::collection::vec(cases(), 0..12)) {
        let world = World::of(&cases);
        let actions = world.plan();

        for action in &actions {
            prop_assert!(!world.busy.contains(action.sandbox()), "{:?} is busy", action);
            prop_assert!(!world.is_well(action.sandbox()), "{:?} is well", action);
        }
        let touched: BTreeSet<_> = actions.iter().map(Action::sandbox).collect();
        prop_assert_eq!(touched.len(), actions.len(), "one action for each sandbox");
    }

    /// A crash may cut off any action, or its removal may fail; the next run must converge from there.
    #[test]
    fn it_converges_from_wherever_it_was_interrupted(
        cases in prop::collection::vec(cases(), 0..12),
        done in prop::collection::vec((any::<bool>(), any::<bool>()), 0..12),
    ) {
        let mut world = World::of(&cases);
        for (action, (carried_out, removes)) in world.plan().iter().zip(done) {
            if carried_out {
                world.carry_out(action, removes);
            }
        }
        for action in world.plan() {
            world.carry_out(&action, true);
        }

        prop_assert_eq!(world.plan(), []);
    }

    #[test]
    fn afterwards_what_is_there_is_well_or_set_aside(cases in prop::collection::vec(cases(), 0..12)) {
        let mut world = World::of(&cases);
        world.busy.clear();
        for action in world.plan() {
            world.carry_out(&action, true);
        }

        for id in world.objects.keys() {
            prop_assert!(world.is_well(id) || world.records[id].state == State::Quarantined, "{} is left over", id);
        }
    }
}

#[test]
fn an_abandoned_creation_fails() {
    for object in [None, Some(false), Some(true)] {
        let action = decide(case(Some(State::Creating), object));

        assert_eq!(action, Some(Action::Fail { id: id(0), reason: Reason::Abandoned }));
    }
}

#[test]
fn a_sandbox_without_its_guest_is_lost() {
    for object in [None, Some(false)] {
        let action = decide(case(Some(State::Ready), object));

        assert_eq!(action, Some(Action::Lose { id: id(0), reason: Reason::GuestGone }));
    }
}

#[test]
fn a_guest_that_left_word_makes_no_lost_sandbox() {
    let ended = Timestamp::from_millis(7);
    let decide = |state: State, alive: bool, end: GuestEnd| {
        let found = Found { sandbox: id(0), alive, end: Some(end), objects: Vec::new() };
        // A second object of the same sandbox, without a recorded end.
        let silent = Found { alive: false, end: None, ..found.clone() };
        plan(&[record(id(0), state)], &[found, silent], &facts(&BTreeSet::new()))
    };
    let idle = GuestEnd::Idle { ended };

    assert_eq!(decide(State::Ready, false, idle), [Action::Expire { id: id(0), ended }]);
    assert_eq!(decide(State::Ready, false, GuestEnd::Untied), [Action::Finish { id: id(0) }]);
    assert_eq!(decide(State::Ready, true, idle), [], "who is alive has not ended");
    assert_eq!(decide(State::Expired, false, idle), [Action::Sweep { id: id(0) }]);
}

#[test]
fn a_sandbox_from_before_a_restart_is_lost_whatever_seems_to_live() {
    let action = decide(Case { other_boot: true, ..case(Some(State::Paused), Some(true)) });

    assert_eq!(action, Some(Action::Lose { id: id(0), reason: Reason::Restarted }));
}

#[test]
fn a_guest_that_left_word_before_a_restart_makes_no_lost_sandbox() {
    let ended = Timestamp::from_millis(7);
    let record = Record { boot: "another boot".to_owned(), ..record(id(0), State::Ready) };
    for (alive, end, expected) in [
        (false, Some(GuestEnd::Idle { ended }), Action::Expire { id: id(0), ended }),
        (false, Some(GuestEnd::Untied), Action::Finish { id: id(0) }),
        (false, None, Action::Lose { id: id(0), reason: Reason::Restarted }),
        (true, Some(GuestEnd::Untied), Action::Lose { id: id(0), reason: Reason::Restarted }),
    ] {
        let found = Found { sandbox: id(0), alive, end, objects: Vec::new() };

        let actions = plan(std::slice::from_ref(&record), &[found], &facts(&BTreeSet::new()));

        assert_eq!(actions, [expected], "{alive} {end:?}");
    }
}

#[test]
fn an_object_without_a_record_is_set_aside() {
    assert_eq!(decide(case(None, Some(true))), Some(Action::Quarantine { id: id(0) }));
    assert_eq!(decide(case(None, Some(false))), Some(Action::Quarantine { id: id(0) }));
}

#[test]
fn what_was_set_aside_is_discarded_after_a_day_and_not_before() {
    let young = case(Some(State::Quarantined), Some(true));

    assert_eq!(decide(young.clone()), None);
    assert_eq!(decide(Case { old: true, ..young }), Some(Action::Discard { id: id(0) }));
}

#[test]
fn no_time_of_the_machines_clock_discards_anything() {
    for state in [State::Quarantined, State::Lost] {
        for wall in [0, 2 * NOW.as_millis()] {
            let wall = Timestamp::from_millis(wall);
            let record = Record { created_at: wall, updated_at: wall, ..record(id(0), state) };
            assert_eq!(plan(&[record], &[], &facts(&BTreeSet::new())), [], "{state} {wall:?}");
        }
    }
}

#[test]
fn the_leftovers_of_the_ended_and_the_lost_are_swept() {
    for state in [State::Destroyed, State::Failed, State::Expired, State::Lost, State::Hibernated] {
        assert_eq!(decide(case(Some(state), Some(false))), Some(Action::Sweep { id: id(0) }), "{state}");
        assert_eq!(decide(case(Some(state), None)), None, "{state}");
    }
}

#[test]
fn a_removal_that_stopped_half_way_is_finished() {
    for state in [State::Destroying, State::DestroyFailed] {
        assert_eq!(decide(case(Some(state), None)), Some(Action::Finish { id: id(0) }), "{state}");
    }
}

#[test]
fn retention_longer_than_time_itself_forgets_nothing() {
    let busy = BTreeSet::new();
    let forever = Facts { retention: Duration::MAX, ..facts(&busy) };

    assert_eq!(forever.forget_before(), Timestamp::from_millis(0));
}
