//! Reconciliation on a small simulated machine: it converges, and it leaves healthy sandboxes alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coracle_core::backend::{Found, GuestEnd};
use coracle_core::clock::Timestamp;
use coracle_core::ids::SandboxId;
use coracle_core::lifecycle::{Event, State};
use coracle_core::observed::Moment;
use coracle_core::policy::Policy;
use coracle_core::reconcile::{ANNOUNCED, Action, Facts, QUARANTINE, Reason, plan};
use coracle_core::record::{Kept, KeptAt, Record};
use coracle_core::spec::{OnIdle, Spec, SpecInput};
use proptest::prelude::*;

const BOOT: &str = "this boot";
/// How long sleepers are kept.
const KEEP: Duration = Duration::from_secs(3600);
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
    let spec = Spec::resolve(SpecInput::default(), &Policy::default()).expect("an empty spec is valid");
    let now = Moment { wall: NOW, observed: NOW };
    Record { backend: "simulated".to_owned(), boot: BOOT.to_owned(), ..Record::new(id, state, spec, now) }
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
                elsewhere: false,
                end: None,
                files: true,
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
            Action::Rest { .. } => {
                // Its processes end; its files stay.
                self.objects.insert(id.clone(), false);
                match self.records[&id].state {
                    State::Resuming => self.step(&id, Event::NotStarted),
                    State::Hibernated => {}
                    _ => self.step(&id, Event::Slept),
                }
            }
            Action::Announce { ends, .. } => {
                let kept = self.records.get_mut(&id).and_then(|record| record.kept.as_mut());
                kept.expect("it sleeps").ends_soon = Some(*ends);
            }
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
        keep: Some(KEEP),
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
    fn afterwards_what_is_there_is_well_asleep_or_set_aside(cases in prop::collection::vec(cases(), 0..12)) {
        let mut world = World::of(&cases);
        world.busy.clear();
        for action in world.plan() {
            world.carry_out(&action, true);
        }

        for id in world.objects.keys() {
            let state = world.records[id].state;
            let asleep = state == State::Hibernated && !world.objects[id];
            prop_assert!(world.is_well(id) || asleep || state == State::Quarantined, "{} is left over", id);
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
        let found = Found {
            sandbox: id(0),
            alive,
            elsewhere: false,
            end: Some(end),
            files: true,
            objects: Vec::new(),
        };
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
        let found = Found { sandbox: id(0), alive, elsewhere: false, end, files: true, objects: Vec::new() };

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
    for state in [State::Destroyed, State::Failed, State::Expired, State::Lost] {
        assert_eq!(decide(case(Some(state), Some(false))), Some(Action::Sweep { id: id(0) }), "{state}");
        assert_eq!(decide(case(Some(state), None)), None, "{state}");
    }
}

/// A sandbox that hibernates, in a state, and its actions for what a survey found of it.
fn sleeper(state: State, found: Option<(bool, bool, Option<GuestEnd>)>) -> Vec<Action> {
    let mut record = record(id(0), state);
    record.spec.on_idle = Some(OnIdle::Hibernate);
    let moment = Moment { wall: NOW, observed: NOW };
    record.kept = (state == State::Hibernated).then_some(Kept {
        at: KeptAt::Place,
        bytes: None,
        since: moment,
        orderly: true,
        ends_soon: Some(NOW),
    });
    let found = found.map(|(alive, files, end)| Found {
        sandbox: id(0),
        alive,
        elsewhere: false,
        end,
        files,
        objects: Vec::new(),
    });
    plan(&[record], &Vec::from_iter(found), &facts(&BTreeSet::new()))
}

#[test]
fn a_sandbox_that_hibernates_sleeps_when_its_guest_ends_and_its_files_are_there() {
    let idle = Some(GuestEnd::Idle { ended: NOW });
    let rest = [Action::Rest { id: id(0) }];
    for state in [State::Ready, State::Paused] {
        assert_eq!(sleeper(state, Some((false, true, idle))), rest, "{state}, idle");
        assert_eq!(sleeper(state, Some((false, true, None))), rest, "{state}, killed");
    }
    assert_eq!(sleeper(State::Ready, Some((true, true, None))), []);
    // Its client is gone, and with it the reason to keep it.
    let untied = sleeper(State::Ready, Some((false, true, Some(GuestEnd::Untied))));
    assert_eq!(untied, [Action::Finish { id: id(0) }]);
    let without_files = sleeper(State::Ready, Some((false, false, None)));
    assert_eq!(without_files, [Action::Lose { id: id(0), reason: Reason::GuestGone }]);
}

#[test]
fn the_files_of_a_sleeper_are_never_swept() {
    assert_eq!(sleeper(State::Hibernated, Some((false, true, None))), []);
    let rest = [Action::Rest { id: id(0) }];
    assert_eq!(sleeper(State::Hibernated, Some((true, true, None))), rest, "a guest has no business there");
    // The process that woke it is dead, before or after it started a guest.
    assert_eq!(sleeper(State::Resuming, Some((false, true, None))), rest);
    assert_eq!(sleeper(State::Resuming, Some((true, true, None))), rest);
    for state in [State::Hibernated, State::Resuming] {
        assert_eq!(sleeper(state, None), [Action::Lose { id: id(0), reason: Reason::FilesGone }], "{state}");
    }
}

#[test]
fn what_cannot_be_looked_at_from_here_is_left_alone() {
    let found = |alive| Found {
        sandbox: id(0),
        alive,
        elsewhere: true,
        end: None,
        files: false,
        objects: Vec::new(),
    };
    for state in [State::Ready, State::Paused, State::Hibernating, State::Hibernated, State::Resuming] {
        for alive in [false, true] {
            let plan = plan(&[record(id(0), state)], &[found(alive)], &facts(&BTreeSet::new()));
            assert_eq!(plan, [], "{state} {alive}");
        }
    }
}

#[test]
fn a_sleeper_ends_when_it_was_kept_for_as_long_as_sleepers_are() {
    let slept = Timestamp::from_millis(NOW.as_millis() - KEEP.as_millis() as u64 - 1);
    let since = Moment { wall: slept, observed: slept };
    let kept = Some(Kept { at: KeptAt::Place, bytes: None, since, orderly: true, ends_soon: None });
    let record = Record { kept, ..record(id(0), State::Hibernated) };
    let found =
        Found { sandbox: id(0), alive: false, elsewhere: false, end: None, files: true, objects: Vec::new() };
    let busy = BTreeSet::new();
    let (records, found) = ([record], [found]);
    let plan = |keep| plan(&records, &found, &Facts { keep, ..facts(&busy) });

    assert_eq!(plan(Some(KEEP)), [Action::Expire { id: id(0), ended: slept }]);
    assert_eq!(plan(Some(KEEP + ANNOUNCED + Duration::from_secs(1))), []);
    assert_eq!(plan(None), []);
}

#[test]
fn the_end_of_a_sleeper_is_told_a_day_before_and_once() {
    let since = Moment { wall: NOW, observed: NOW };
    let found = [Found {
        sandbox: id(0),
        alive: false,
        elsewhere: false,
        end: None,
        files: true,
        objects: Vec::new(),
    }];
    let (busy, keep) = (BTreeSet::new(), 30 * ANNOUNCED);
    let ends = NOW.after(keep);
    let plan = |slept: Duration, ends_soon| {
        let kept = Some(Kept { at: KeptAt::Place, bytes: None, since, orderly: true, ends_soon });
        let record = Record { kept, ..record(id(0), State::Hibernated) };
        let facts = Facts { keep: Some(keep), observed: NOW.after(slept), ..facts(&busy) };
        plan(&[record], &found, &facts)
    };

    assert_eq!(plan(28 * ANNOUNCED, None), []);
    let told = plan(29 * ANNOUNCED, None);
    assert_eq!(told, [Action::Announce { id: id(0), ends }]);
    assert!(!told[0].is_repair(), "nothing was left behind");
    assert_eq!(plan(29 * ANNOUNCED, Some(ends)), []);
    assert_eq!(plan(keep + Duration::from_millis(1), Some(ends)), [Action::Expire { id: id(0), ended: NOW }]);
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
