//! Ceilings: whatever a caller writes is refused or gets no more than a person allowed.

use std::collections::BTreeMap;

use coracle_core::ceiling::{Bounds, Choice, Choices};
use coracle_core::limits::{Limit, LimitsInput};
use coracle_core::mount::{Access, MountInput};
use coracle_core::spec::{LimitsChoice, Privileges, Purpose, Runtime, SpecInput, Storage, Unlimited};
use coracle_core::{Ceiling, Error, Kind, Network, Policy, Record, Spec, State};
use coracle_testing::sample;
use proptest::prelude::*;

use crate::cases;

fn mount(source: &str, access: Access) -> MountInput {
    MountInput { source: source.to_owned(), target: "/workspace".to_owned(), access }
}

/// The spec a person gives a door: a directory, a host, less memory.
fn given() -> SpecInput {
    SpecInput {
        image: Some("docker.io/library/python:3.12".to_owned()),
        network: Some("allow=a.test,*.b.test".to_owned()),
        limits: Some(LimitsChoice::Limits(LimitsInput { memory_mb: Some(1024), ..LimitsInput::default() })),
        mounts: vec![mount("/srv/project", Access::ReadWrite)],
        ..SpecInput::default()
    }
}

fn model(spec: SpecInput, choices: &[Choice]) -> Ceiling {
    Ceiling::of_model(spec, choices.iter().copied().collect(), &Policy::default()).expect("it is allowed")
}

/// Resolves a spec as the engine does.
fn resolve(ceiling: &Ceiling, written: SpecInput, purpose: Purpose) -> Result<Spec, Error> {
    let policy = Policy::default();
    let spec = Spec::resolve(ceiling.complete(written, purpose, &policy)?, &policy)?;
    ceiling.check(&spec).map(|()| spec)
}

fn limits(limits: LimitsInput) -> SpecInput {
    SpecInput { limits: Some(LimitsChoice::Limits(limits)), ..SpecInput::default() }
}

fn memory(megabytes: u64) -> SpecInput {
    limits(LimitsInput { memory_mb: Some(megabytes), ..LimitsInput::default() })
}

/// Returns specs with one field each that a model might write, by its name.
fn fields() -> Vec<(&'static str, SpecInput)> {
    let none = SpecInput::default;
    vec![
        ("image", SpecInput { image: Some("alpine".into()), ..none() }),
        ("runtime", SpecInput { runtime: Some(Runtime::Node), ..none() }),
        ("env", SpecInput { env: BTreeMap::from([("A".into(), "b".into())]), ..none() }),
        ("workdir", SpecInput { workdir: Some("/".into()), ..none() }),
        ("limits", memory(8)),
        ("limits", SpecInput { limits: Some(LimitsChoice::Word(Unlimited::Unlimited)), ..none() }),
        ("storage", SpecInput { storage: Some(Storage::Disk), ..none() }),
        ("network", SpecInput { network: Some("none".into()), ..none() }),
        ("network", SpecInput { network: Some("open".into()), ..none() }),
        ("mounts", SpecInput { mounts: vec![mount("/etc", Access::ReadOnly)], ..none() }),
        ("mounts", SpecInput { mounts: vec![mount("volume", Access::ReadWrite)], ..none() }),
        ("privileges", SpecInput { privileges: Some(Privileges::Minimal), ..none() }),
        ("privileges", SpecInput { privileges: Some(Privileges::Install), ..none() }),
        ("privileges", SpecInput { privileges: Some(Privileges::Debug), ..none() }),
        ("backend", SpecInput { backend: Some("native".into()), ..none() }),
        ("fallback", SpecInput { fallback: vec!["docker".into()], ..none() }),
        ("ttl", SpecInput { ttl: Some("1s".into()), ..none() }),
        ("labels", SpecInput { labels: BTreeMap::from([("a".into(), "b".into())]), ..none() }),
        ("require", SpecInput { require: vec!["seccomp".into()], ..none() }),
        ("allow_missing", SpecInput { allow_missing: vec![Limit::Memory], ..none() }),
        ("allow_sockets", SpecInput { allow_sockets: true, ..none() }),
        ("user", SpecInput { user: Some("1000".to_owned()), ..none() }),
    ]
}

#[test]
fn a_model_that_writes_nothing_gets_what_the_person_gave() {
    let ceiling = model(given(), &[]);

    let got = resolve(&ceiling, SpecInput::default(), Purpose::Session).expect("nothing is refused");

    assert_eq!(got, Spec::resolve(given(), &Policy::default()).expect("it is allowed"));
}

#[test]
fn without_a_word_sandboxes_are_scratch_silent_and_bounded() {
    let got =
        resolve(&model(SpecInput::default(), &[]), SpecInput::default(), Purpose::Session).expect("allowed");

    assert_eq!(
        (got.mounts.len(), got.network.clone(), got.privileges),
        (0, Network::None, Privileges::Minimal)
    );
    assert_eq!(got.limits.memory_mb, Some(Policy::default().limits.memory_mb.default));
}

#[test]
fn every_field_a_model_may_not_choose_is_invalid_even_where_it_is_less() {
    for spec in [SpecInput::default(), given()] {
        let ceiling = model(spec, &[]);
        for (field, written) in fields() {
            let refused = resolve(&ceiling, written, Purpose::Session).expect_err(field);
            assert_eq!(
                (refused.kind, &refused.details["field"]),
                (Kind::Invalid, &field.into()),
                "{refused}"
            );
        }
    }
}

#[test]
fn a_program_brings_its_language_and_variables_and_nothing_else() {
    let ceiling = model(SpecInput::default(), &[]);

    for (field, written) in fields() {
        let got = resolve(&ceiling, written, Purpose::OneCommand);
        assert_eq!(got.is_ok(), ["runtime", "env"].contains(&field), "{field}: {got:?}");
    }
}

#[test]
fn what_is_opened_can_be_less_and_never_more() {
    let ceiling = model(given(), &Choice::ALL);
    let kind = |written: SpecInput| resolve(&ceiling, written, Purpose::Session).map_err(|error| error.kind);
    let network = |text: &str| SpecInput { network: Some(text.to_owned()), ..SpecInput::default() };
    let image = |text: &str| SpecInput { image: Some(text.to_owned()), ..SpecInput::default() };

    assert_eq!(kind(memory(512)).expect("less").limits.memory_mb, Some(512));
    assert_eq!(kind(memory(1025)), Err(Kind::Denied));
    // A field that was not written counts with its default.
    let pids = |pids| limits(LimitsInput { pids: Some(pids), ..LimitsInput::default() });
    assert_eq!(kind(pids(1024)).expect("the default").limits.memory_mb, Some(1024));
    assert_eq!(kind(pids(1025)), Err(Kind::Denied));
    let unlimited =
        SpecInput { limits: Some(LimitsChoice::Word(Unlimited::Unlimited)), ..SpecInput::default() };
    assert_eq!(kind(unlimited), Err(Kind::Denied));
    for less in ["none", "allow=a.test", "allow=x.b.test"] {
        assert!(kind(network(less)).is_ok(), "{less}");
    }
    for more in ["open", "allow=c.test", "allow=a.test:22", "allow=b.test", "allow=10.0.0.1"] {
        assert!(kind(network(more)).is_err(), "{more}");
    }
    assert_eq!(kind(network("open")), Err(Kind::Denied));
    assert!(kind(image("alpine")).is_ok());
    // The machine would connect there.
    for local in ["localhost:5000/x", "127.0.0.1/x"] {
        assert!(kind(image(local)).is_err(), "{local}");
    }
}

#[test]
fn a_one_shot_is_gone_soon_whatever_the_ceiling_allows_sessions() {
    let idle = |ttl: &str, purpose| {
        let spec = SpecInput { ttl: Some(ttl.to_owned()), ..SpecInput::default() };
        resolve(&model(spec, &[]), SpecInput::default(), purpose).expect("allowed").limits.timeout_seconds
    };

    assert_eq!((idle("1h", Purpose::Session), idle("1h", Purpose::OneCommand)), (3600, 60));
    assert_eq!((idle("5s", Purpose::Session), idle("5s", Purpose::OneCommand)), (5, 5));
}

fn token() -> Bounds {
    Bounds {
        network: Some("allow=a.test".parse().expect("a network")),
        limits: LimitsInput {
            memory_mb: Some(256),
            workspace_mb: Some(64),
            timeout_seconds: Some(30),
            ..LimitsInput::default()
        },
        privileges: Some(Privileges::Minimal),
        images: Some(vec!["host".into(), "docker.io/library/*".into()]),
        let_choose: Choices::default(),
    }
}

#[test]
fn a_token_bounds_what_a_program_writes_and_what_it_leaves_out() {
    let ceiling = Ceiling::of_token(token());
    let kind = |written, purpose| resolve(&ceiling, written, purpose).map_err(|error| error.kind);
    let none = SpecInput::default;

    for purpose in [Purpose::Session, Purpose::OneCommand] {
        let got = kind(none(), purpose).expect("nothing was asked for");
        assert_eq!((got.limits.memory_mb, got.limits.workspace_mb), (Some(256), Some(64)));
        assert_eq!((got.limits.timeout_seconds, got.network), (30, Network::None));
        // What a person bounded is enforced, or there is no sandbox.
        assert!(got.limits.required.contains(&Limit::Memory) && got.limits.required.contains(&Limit::Disk));
    }
    assert_eq!(kind(memory(257), Purpose::Session), Err(Kind::Denied));
    assert!(kind(limits(LimitsInput { pids: Some(9), ..LimitsInput::default() }), Purpose::Session).is_ok());
    for (written, refused) in [
        (SpecInput { network: Some("open".into()), ..none() }, Kind::Denied),
        (SpecInput { privileges: Some(Privileges::Install), ..none() }, Kind::Denied),
        (SpecInput { privileges: Some(Privileges::Debug), ..none() }, Kind::Denied),
        (SpecInput { allow_missing: vec![Limit::Memory], ..none() }, Kind::Denied),
        (SpecInput { image: Some("ghcr.io/a/b".into()), ..none() }, Kind::ImageNotAllowed),
        (SpecInput { ttl: Some("1h".into()), ..none() }, Kind::Denied),
        (SpecInput { limits: Some(LimitsChoice::Word(Unlimited::Unlimited)), ..none() }, Kind::Denied),
    ] {
        assert_eq!(kind(written.clone(), Purpose::Session), Err(refused), "{written:?}");
    }
    assert!(kind(SpecInput { allow_missing: vec![Limit::Cpu], ..none() }, Purpose::Session).is_ok());
}

#[test]
fn a_list_of_images_counts_for_the_default_too() {
    let bounds = Bounds { images: Some(vec!["docker.io/library/*".into()]), ..Bounds::default() };

    let refused = resolve(&Ceiling::of_token(bounds), SpecInput::default(), Purpose::Session);

    assert_eq!(refused.expect_err("`host` is not on it").kind, Kind::ImageNotAllowed);
}

#[test]
fn a_door_opens_where_the_default_image_is_not_allowed() {
    let policy = Policy {
        images: coracle_core::image::Allowed::only(vec!["docker.io/library/*".into()]).expect("a list"),
        ..Policy::default()
    };
    let of_model = |spec, choices: &[Choice]| {
        Ceiling::of_model(spec, choices.iter().copied().collect(), &policy).map_err(|error| error.kind)
    };

    let chosen = of_model(SpecInput::default(), &[Choice::Image]).expect("the model chooses one");
    let image = |image: &str| SpecInput { image: Some(image.to_owned()), ..SpecInput::default() };
    let complete = |written| chosen.complete(written, Purpose::Session, &policy);

    assert!(Spec::resolve(complete(image("alpine")).expect("listed"), &policy).is_ok());
    assert!(Spec::resolve(complete(SpecInput::default()).expect("nothing written"), &policy).is_err());
    assert_eq!(of_model(image("ghcr.io/a/b"), &[]), Err(Kind::ImageNotAllowed));
}

#[test]
fn a_model_with_a_token_gets_the_tokens_sandbox_and_the_default_where_it_says_nothing() {
    let policy = Policy::default();
    let open = |bounds: Option<&Bounds>| {
        let ceiling = Ceiling::of_model_with_token(bounds, &policy).expect("it is allowed");
        resolve(&ceiling, SpecInput::default(), Purpose::Session).expect("nothing is refused")
    };

    assert_eq!(open(None).network, Network::None);
    let got = open(Some(&token()));
    assert_eq!((got.limits.memory_mb, got.network.to_string().as_str()), (Some(256), "allow=a.test"));
    // The operator may have lowered the rules since.
    let high = LimitsInput { memory_mb: Some(1 << 40), ..LimitsInput::default() };
    let high = open(Some(&Bounds { limits: high, ..Bounds::default() }));
    assert_eq!(high.limits.memory_mb, Some(policy.limits.memory_mb.max));
}

#[test]
fn a_sandbox_that_is_there_is_reached_only_if_it_has_no_more() {
    let ceiling = model(given(), &[]);
    let spec = Spec::resolve(given(), &Policy::default()).expect("it is allowed");
    let record = |spec: Spec| Record { spec, ..sample::record() };
    let reached = |spec: Spec| ceiling.check_record(&record(spec)).is_ok();

    assert!(reached(spec.clone()) && reached(Spec { mounts: Vec::new(), ..spec.clone() }));
    let wider =
        Record { narrowed: Some(Network::None), ..record(Spec { network: Network::Open, ..spec.clone() }) };
    assert!(ceiling.check_record(&wider).is_ok(), "it was narrowed");
    let mut other = spec.clone();
    other.mounts[0].target = "/elsewhere".to_owned();
    let mut longer = spec.clone();
    longer.limits.memory_mb = None;
    for more in [
        other,
        longer,
        Spec { network: Network::Open, ..spec.clone() },
        Spec { privileges: Privileges::Install, ..spec.clone() },
        Spec { privileges: Privileges::Debug, ..spec },
    ] {
        let refused = ceiling.check_record(&record(more.clone())).expect_err("more");
        assert_eq!(refused.kind, Kind::Denied, "{more:?}");
    }
}

#[test]
fn sandboxes_without_a_record_and_snapshots_of_others_are_refused() {
    let snapshot = "img_01m7h5k607aaaaaaaaaaaaaaaa";
    let of = |image: Option<&str>| SpecInput { image: image.map(str::to_owned), ..SpecInput::default() };
    let resolved = |image| Spec::resolve(of(image), &Policy::default()).expect("it is allowed");
    let record = |image, state| Record { state, spec: resolved(image), ..sample::record() };
    let (plain, given) = (model(of(None), &[Choice::Image]), model(of(Some(snapshot)), &[]));

    for refused in [
        plain.check_record(&record(None, State::Quarantined)),
        plain.check_record(&record(Some(snapshot), State::Ready)),
        plain.check_image(snapshot, &Policy::default()),
    ] {
        assert_eq!(refused.expect_err("more").kind, Kind::Denied);
    }
    assert!(plain.check_record(&record(None, State::Ready)).is_ok());
    assert!(given.check_record(&record(Some(snapshot), State::Ready)).is_ok());
    assert!(given.check_image(snapshot, &Policy::default()).is_ok());
}

fn any_spec() -> impl Strategy<Value = SpecInput> {
    let network = prop::option::of(prop::sample::select(vec![
        "none",
        "open",
        "allow=a.test",
        "allow=b.test",
        "allow=x.b.test",
        "allow=*.test",
        "allow=1.1.1.1:53",
    ]));
    let number =
        || prop::option::of(prop::sample::select(vec![1_u64, 8, 64, 512, 1024, 1 << 12, 1 << 14, 1 << 20]));
    let limits = prop_oneof![
        Just(None),
        Just(Some(LimitsChoice::Word(Unlimited::Unlimited))),
        (number(), number(), number(), number(), number()).prop_map(|(memory, cpu, pids, disk, idle)| {
            Some(LimitsChoice::Limits(LimitsInput {
                memory_mb: memory,
                cpu_millicores: cpu,
                pids,
                workspace_mb: disk,
                timeout_seconds: idle,
                ..LimitsInput::default()
            }))
        }),
    ];
    let privileges = prop::option::of(prop::sample::select(vec![
        Privileges::Minimal,
        Privileges::Install,
        Privileges::Debug,
    ]));
    let mounts = prop::collection::vec(
        (
            prop::sample::select(vec!["/", "/etc", "v"]),
            prop::sample::select(vec![Access::ReadOnly, Access::ReadWrite]),
        )
            .prop_map(|(source, access)| mount(source, access)),
        0..2,
    );
    let missing = prop::collection::vec(prop::sample::select(vec![Limit::Memory, Limit::Cpu]), 0..2);
    (network, limits, privileges, mounts, missing).prop_map(
        |(network, limits, privileges, mounts, missing)| SpecInput {
            network: network.map(str::to_owned),
            limits,
            privileges,
            mounts,
            allow_missing: missing,
            ..SpecInput::default()
        },
    )
}

/// Tells whether a sandbox has no more than another in anything that matters to the machine.
fn is_no_more(spec: &Spec, top: &Spec) -> bool {
    let within = |one: Option<u64>, most: Option<u64>| match (one, most) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(one), Some(most)) => one <= most,
    };
    let (own, most) = (&spec.limits, &top.limits);
    within(own.memory_mb, most.memory_mb)
        && within(own.cpu_millicores, most.cpu_millicores)
        && within(own.pids, most.pids)
        && within(own.workspace_mb, most.workspace_mb)
        && own.timeout_seconds <= most.timeout_seconds
        && spec.network.is_within(&top.network)
        && (spec.privileges == Privileges::Minimal || spec.privileges == top.privileges)
        && spec.mounts == top.mounts
        && spec.allow_missing == top.allow_missing
        && spec.backend == top.backend
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_words_of_a_model_get_it_more_than_the_ceiling(
        top in any_spec(), written in any_spec(),
        choices in prop::collection::btree_set(prop::sample::select(Choice::ALL.to_vec()), 0..4),
        once in any::<bool>(),
    ) {
        let policy = Policy::default();
        let choices: Choices = choices.into_iter().collect();
        let Ok(ceiling) = Ceiling::of_model(top.clone(), choices, &policy) else { return Ok(()) };
        let top = Spec::resolve(top, &policy).expect("the ceiling was allowed");
        let purpose = if once { Purpose::OneCommand } else { Purpose::Session };

        if let Ok(spec) = resolve(&ceiling, written, purpose) {
            prop_assert!(is_no_more(&spec, &top), "{spec:?} is more than {top:?}");
        }
        // The ceiling itself is never refused.
        prop_assert!(resolve(&ceiling, SpecInput::default(), purpose).is_ok());
    }

    #[test]
    fn what_a_token_bounds_is_bounded_whatever_is_written(
        most in 4_u64..4096, written in any_spec(), once in any::<bool>(),
    ) {
        let bounds = Bounds {
            limits: LimitsInput { memory_mb: Some(most), workspace_mb: Some(most), ..LimitsInput::default() },
            ..Bounds::default()
        };
        let purpose = if once { Purpose::OneCommand } else { Purpose::Session };
        let ceiling = Ceiling::of_token(bounds);

        if let Ok(spec) = resolve(&ceiling, written, purpose) {
            prop_assert!(spec.limits.memory_mb.is_some_and(|memory| memory <= most), "{spec:?}");
            prop_assert!(spec.limits.workspace_mb.is_some_and(|files| files <= most), "{spec:?}");
            prop_assert!(spec.limits.required.contains(&Limit::Memory), "{spec:?}");
        }
        prop_assert!(resolve(&ceiling, SpecInput::default(), purpose).is_ok());
    }
}
