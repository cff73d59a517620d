//! Which backend makes a sandbox.

use coracle_core::backend::{Profile, Wall};
use coracle_core::selection::{AUTO, Preference, Selection, check_name};
use coracle_core::spec::{LimitsChoice, Privileges, SpecInput};
use coracle_core::{Error, Kind, Policy, Result, Spec, fit};
use proptest::prelude::*;

const ROLL: [&str; 3] = ["native", "docker", "podman"];

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn unavailable() -> Error {
    Error::new(Kind::NotAvailable, "it is not here")
}

/// Returns the chosen backend where only `fitting` fit, and the backends that were asked.
fn choose(mut selection: Selection, fitting: &[&str]) -> (Option<String>, Vec<String>) {
    let mut asked = Vec::new();
    let chosen = selection.next(|name| {
        asked.push(name.to_owned());
        if fitting.contains(&name) { Ok(()) } else { Err(unavailable()) }
    });
    (chosen, asked)
}

#[test]
fn the_caller_comes_before_the_operator_and_they_before_the_roll_call() {
    let operator = Preference {
        backend: Some("docker".to_owned()),
        fallback: names(&["podman"]),
        order: Some(names(&["podman", "docker"])),
    };
    let silent = Preference::default();
    for (preference, backend, fallback, candidates) in [
        (&silent, None, names(&[]), vec!["native"]),
        (&silent, Some("podman"), names(&[]), vec!["podman"]),
        (&silent, None, names(&["docker"]), vec!["native", "docker"]),
        (&silent, Some(AUTO), names(&[]), vec!["native", "docker", "podman"]),
        (&silent, Some("ssh://vm"), names(&[AUTO]), vec!["ssh://vm", "native", "docker", "podman"]),
        (&operator, None, names(&[]), vec!["docker", "podman"]),
        (&operator, None, names(&["native"]), vec!["docker", "native"]),
        (&operator, Some("native"), names(&[]), vec!["native"]),
        (&operator, Some("native"), names(&["native", "podman"]), vec!["native", "podman"]),
        (&operator, Some(AUTO), names(&[]), vec!["podman", "docker"]),
    ] {
        let input = SpecInput { backend: backend.map(str::to_owned), fallback, ..SpecInput::default() };
        let policy = Policy { backends: preference.clone(), ..Policy::default() };

        let spec = Spec::resolve(input.clone(), &policy).expect("valid");
        let selection = Selection::of(spec.backend.as_deref(), &spec.fallback, preference, &ROLL);

        assert_eq!(selection.candidates().collect::<Vec<_>>(), candidates, "{input:?}");
    }
}

#[test]
fn the_only_one_is_chosen_without_a_question() {
    let only = Selection::of(Some("docker"), &[], &Preference::default(), &ROLL);

    assert_eq!(choose(only, &[]), (Some("docker".to_owned()), Vec::new()));
}

#[test]
fn refusals_keep_their_order_their_reason_and_what_did_not_fit() {
    let mut selection = Selection::of(Some(AUTO), &[], &Preference::default(), &ROLL);
    let ask = |name: &str| -> Result<()> {
        match name {
            "native" => {
                Err(Error::new(Kind::Unsupported, "cannot").detail("misfits", vec!["memory", "pids"]))
            }
            "docker" => Err(Error::internal("could not ask", "broken pipe")),
            _ => Ok(()),
        }
    };

    assert_eq!(selection.next(ask).as_deref(), Some("podman"));
    selection.refuse("podman", &Error::new(Kind::StartFailed, "x".repeat(5000)));
    assert_eq!(selection.next(ask), None);

    let [native, docker, podman] = selection.refused() else { panic!("three were refused") };
    assert_eq!(native.misfits, ["memory", "pids"]);
    assert_eq!((docker.reason.as_str(), docker.misfits.len()), ("could not ask: broken pipe", 0));
    assert!(podman.reason.len() <= 1000);
    let error = selection.exhausted();
    assert_eq!(error.kind, Kind::Unsupported);
    assert_eq!(error.details["refused"][0]["misfits"], serde_json::json!(["memory", "pids"]));
}

#[test]
fn where_none_is_there_nothing_is_available() {
    let mut selection = Selection::of(Some(AUTO), &[], &Preference::default(), &ROLL);

    assert_eq!(selection.next(|_| Err(unavailable())), None);

    assert_eq!(selection.exhausted().kind, Kind::NotAvailable);
}

#[test]
fn what_a_spec_demands_and_a_backend_lacks_is_named() {
    let wall = |name: &str, enforced| Wall {
        name: name.to_owned(),
        enforced,
        how: "because".to_owned(),
        hint: None,
    };
    let profile =
        Profile { walls: vec![wall("memory", false), wall("pids", true), wall("separate_users", false)] };
    let limits = |memory, pids| {
        let text = serde_json::json!({"memory_mb": memory, "pids": pids});
        Some(serde_json::from_value::<LimitsChoice>(text).expect("limits"))
    };
    let install = Some(Privileges::Install);
    for (input, misfits) in [
        (SpecInput::default(), vec![]),
        (SpecInput { limits: limits(None, Some(7)), ..SpecInput::default() }, vec![]),
        (SpecInput { limits: limits(Some(64), None), ..SpecInput::default() }, vec!["memory"]),
        (
            SpecInput { require: names(&["landlock"]), privileges: install, ..SpecInput::default() },
            vec!["landlock", "separate_users"],
        ),
    ] {
        let spec = Spec::resolve(input.clone(), &Policy::default()).expect("valid");

        let found: Vec<String> = match fit::check("docker", &profile, &spec) {
            Ok(()) => Vec::new(),
            Err(error) => serde_json::from_value(error.details["misfits"].clone()).expect("names"),
        };

        assert_eq!(found, misfits, "{input:?}");
    }
}

#[test]
fn what_could_be_taken_for_an_option_is_no_name() {
    for name in ["", "-oProxyCommand=x", "a b", "a\n", "ä", &"x".repeat(513)] {
        assert_eq!(check_name("backend", name).expect_err(name).kind, Kind::Invalid);
    }
    for name in ["native", "ssh://me@vm:22/run/user/1000/docker.sock"] {
        check_name("backend", name).expect(name);
    }
}

fn some_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["native", "docker", "podman", "ssh://vm", AUTO]).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(super::cases())]

    /// Whatever was written: the chosen backend was written and fits, none before it fits, and none is asked twice.
    #[test]
    fn the_first_of_those_written_that_fits_is_chosen(
        backend in prop::option::of(some_name()),
        fallback in prop::collection::vec(some_name(), 0..6),
        fitting in prop::collection::vec(some_name(), 0..4),
    ) {
        let preference = Preference::default();
        let selection = Selection::of(backend.as_deref(), &fallback, &preference, &ROLL);
        let candidates: Vec<_> = selection.candidates().map(str::to_owned).collect();
        let fitting: Vec<_> = fitting.iter().map(String::as_str).collect();

        let (chosen, asked) = choose(selection, &fitting);

        prop_assert!(candidates.iter().all(|name| name != AUTO));
        let written = |name: &String| {
            let lists_all = backend.as_deref() == Some(AUTO) || fallback.iter().any(|name| name == AUTO);
            backend.as_ref() == Some(name)
                || fallback.contains(name)
                || (backend.is_none() && name == ROLL[0])
                || (lists_all && ROLL.contains(&name.as_str()))
        };
        prop_assert!(candidates.iter().all(written));
        match candidates.as_slice() {
            [only] => prop_assert_eq!((chosen.as_ref(), asked.len()), (Some(only), 0)),
            several => {
                let first = several.iter().position(|name| fitting.contains(&name.as_str()));
                prop_assert_eq!(chosen.as_ref(), first.map(|index| &several[index]));
                prop_assert_eq!(&asked, &several[..first.map_or(several.len(), |index| index + 1)]);
            }
        }
    }
}
