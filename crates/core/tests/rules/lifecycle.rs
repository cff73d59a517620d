//! The life of a sandbox: no way back from its end, and always a way to it.

use coracle_core::error::Kind;
use coracle_core::ids::SandboxId;
use coracle_core::lifecycle::{Event, State};
use proptest::prelude::*;

const TEARDOWN: [State; 3] = [State::Destroying, State::Destroyed, State::DestroyFailed];

fn sandbox() -> SandboxId {
    "sbx_1".parse().expect("a valid id")
}

/// Every state and event that go together, and what follows.
fn edges() -> Vec<(State, Event, State)> {
    let pairs =
        State::ALL.into_iter().flat_map(|state| Event::ALL.into_iter().map(move |event| (state, event)));
    pairs.filter_map(|(state, event)| state.step(event).ok().map(|next| (state, event, next))).collect()
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn once_teardown_has_begun_no_work_is_ever_accepted(
        events in prop::collection::vec(prop::sample::select(Event::ALL.to_vec()), 1..100)
    ) {
        let (mut state, mut torn) = (State::Creating, false);
        for event in events {
            state = state.step(event).unwrap_or(state);
            torn |= state == State::Destroying;
            prop_assert!(!torn || TEARDOWN.contains(&state), "{} after teardown began", state);
            prop_assert!(!torn || !state.accepts_work());
        }
    }
}

#[test]
fn the_life_of_the_design_can_be_lived() {
    use Event::*;
    let life = [
        (Started, "ready"),
        (Pause, "paused"),
        (Unpause, "ready"),
        (Hibernate, "hibernating"),
        (Saved, "hibernated"),
        (Wake, "resuming"),
        (Started, "ready"),
        (Destroy, "destroying"),
        (NotRemoved, "destroy_failed"),
        (Destroy, "destroying"),
        (Removed, "destroyed"),
    ];

    life.into_iter().fold(State::Creating, |state, (event, name)| {
        let next = state.step(event).expect("the design allows it");
        assert_eq!(next.to_string(), name);
        next
    });
}

#[test]
fn nothing_follows_the_end() {
    for state in State::ALL.into_iter().filter(|state| state.is_ended()) {
        assert!(edges().iter().all(|(from, ..)| *from != state), "{state}");
    }
}

#[test]
fn whatever_has_not_ended_can_be_destroyed() {
    for state in State::ALL.into_iter().filter(|state| state.is_live()) {
        assert_eq!(state.step(Event::Destroy), Ok(State::Destroying), "{state}");
    }
}

#[test]
fn only_a_sandbox_whose_files_are_kept_is_hibernated() {
    let into: Vec<_> = edges().into_iter().filter(|(.., to)| *to == State::Hibernated).collect();

    assert_eq!(
        into,
        [
            (State::Ready, Event::Slept, State::Hibernated),
            (State::Paused, Event::Slept, State::Hibernated),
            (State::Hibernating, Event::Saved, State::Hibernated),
            (State::Hibernating, Event::Slept, State::Hibernated),
            (State::Resuming, Event::NotStarted, State::Hibernated),
        ]
    );
}

#[test]
fn destroyed_comes_only_from_destroying() {
    let into: Vec<_> = edges().into_iter().filter(|(.., to)| *to == State::Destroyed).collect();

    assert_eq!(into, [(State::Destroying, Event::Removed, State::Destroyed)]);
}

#[test]
fn the_names_shown_are_the_names_stored() {
    for state in State::ALL {
        assert_eq!(serde_json::to_value(state).expect("a name"), state.to_string());
    }
}

#[test]
fn a_refusal_names_the_state_and_what_to_do() {
    for state in State::ALL {
        for event in Event::ALL {
            let Err(refused) = state.step(event) else { continue };
            let error = refused.into_error(&sandbox());

            // A spare has no owner: callers that ask for it learn that it does not exist.
            let absent = state.is_ended() || state == State::Spare;
            let kind = if absent { Kind::NotFound } else { Kind::Conflict };
            assert_eq!(error.kind, kind);
            assert_eq!(error.details["state"], state.to_string());
            assert!(error.hint.is_some());
        }
    }
}
