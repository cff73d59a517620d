//! Raw input: anything out of range or malformed is `invalid`, and nothing panics.

use std::collections::BTreeMap;
use std::time::Duration;

use coracle_core::bytes::Bytes;
use coracle_core::clock::Timestamp;
use coracle_core::duration;
use coracle_core::error::{Kind, Result};
use coracle_core::ids::{ExecId, RunId, SandboxId, SessionKey};
use coracle_core::limits::{Limit, Limits, LimitsInput, Ranges};
use coracle_core::policy::Policy;
use coracle_core::spec::{Spec, SpecInput, check_absolute, check_path};
use proptest::prelude::*;
use serde_json::json;

#[track_caller]
fn assert_invalid<T: std::fmt::Debug>(result: Result<T>) {
    let error = result.expect_err("it is refused");
    assert_eq!(error.kind, Kind::Invalid, "{error}");
    assert!(error.details.contains_key("field"), "{error} does not name its field");
}

fn resolve(input: SpecInput) -> Result<Spec> {
    Spec::resolve(input, &Policy::default())
}

fn one_variable(name: &str, value: &str) -> SpecInput {
    SpecInput { env: BTreeMap::from([(name.to_owned(), value.to_owned())]), ..SpecInput::default() }
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn whatever_is_written_is_read_or_refused(text in any::<String>()) {
        let kinds = [
            text.parse::<SandboxId>().err(),
            text.parse::<SessionKey>().err(),
            text.parse::<Bytes>().err(),
            duration::parse(&text).err(),
            check_path("path", &text).err(),
            resolve(SpecInput { ttl: Some(text.clone()), ..SpecInput::default() }).err(),
        ];

        prop_assert!(kinds.iter().flatten().all(|error| error.kind == Kind::Invalid));
    }

    #[test]
    fn an_id_that_is_accepted_is_one_harmless_file_name(text in "[a-zA-Z0-9_.:@/\\- \\x00]{0,140}") {
        if let Ok(id) = text.parse::<SandboxId>() {
            prop_assert!(!id.as_str().contains(['/', '\0', ' ']) && !id.as_str().starts_with(['.', '-']));
            prop_assert!((1..=128).contains(&id.as_str().len()));
        }
    }

    #[test]
    fn ids_sort_by_time(a in 0..1u64 << 48, b in 0..1u64 << 48, random in any::<[u8; 10]>()) {
        let id = |millis| SandboxId::generate(Timestamp::from_millis(millis), random);

        prop_assert_eq!(a.cmp(&b), id(a).cmp(&id(b)));
        prop_assert_eq!(id(a).as_str().parse::<SandboxId>().ok(), Some(id(a)));
    }

    #[test]
    fn a_limit_is_in_its_range_or_refused(memory_mb in any::<u64>()) {
        let ranges = Ranges::default();
        let limits = Limits::resolve(&LimitsInput { memory_mb: Some(memory_mb), ..LimitsInput::default() }, &ranges);

        match limits {
            Ok(limits) => prop_assert_eq!(limits.memory_mb, Some(memory_mb)),
            Err(error) => {
                prop_assert_eq!(error.kind, Kind::Invalid);
                prop_assert!(!(4..=ranges.memory_mb.max).contains(&memory_mb));
            }
        }
    }
}

#[test]
fn ids_that_could_be_something_else_are_refused() {
    for text in ["", ".", "..", "-rf", "a/b", "a b", "a\0", "ä", &"x".repeat(129)] {
        assert_invalid(text.parse::<SandboxId>());
        assert_invalid(text.parse::<ExecId>());
        assert_invalid(text.parse::<RunId>());
    }
    assert!("x".repeat(128).parse::<RunId>().is_ok());
}

#[test]
fn a_stored_id_is_checked_as_well() {
    assert!(serde_json::from_value::<SandboxId>(json!("../etc")).is_err());
}

#[test]
fn a_session_key_is_printable_and_short() {
    for text in ["", "line\nbreak", "\u{7f}", &"x".repeat(257)] {
        assert_invalid(text.parse::<SessionKey>());
    }
    assert!("issue #12 / größe".parse::<SessionKey>().is_ok());
}

#[test]
fn sizes_are_read_as_people_write_them() {
    let sizes = [
        ("0", 0),
        ("1048576", 1 << 20),
        ("512k", 512 << 10),
        ("4g", 4 << 30),
        ("1.5g", 3 << 29),
        ("0.5k", 512),
        ("1TiB", 1 << 40),
    ];

    for (text, bytes) in sizes {
        assert_eq!(text.parse::<Bytes>().expect("a size"), Bytes(bytes), "{text}");
    }
}

#[test]
fn sizes_that_are_none_are_refused() {
    for text in [
        "",
        "m",
        "-1",
        "1.5",
        "1.5b",
        "1..5g",
        "1.g",
        ".5g",
        "1x",
        " 1",
        "18446744073709551616",
        "18446744073709551615k",
        "99999999t",
    ] {
        assert_invalid(text.parse::<Bytes>());
    }
}

#[test]
fn durations_are_read_as_people_write_them() {
    let spans = [
        ("0", 0),
        ("1500ms", 1500),
        ("30", 30_000),
        ("30s", 30_000),
        ("5m", 300_000),
        ("2d", 172_800_000),
        ("1m30s", 90_000),
        ("1h1ms", 3_600_001),
        ("1.5s", 1500),
        ("1.5", 1500),
        ("0.5h30s", 1_830_000),
        ("0.0001s", 1),
    ];

    for (text, millis) in spans {
        let span = duration::parse(text).expect("a duration");
        assert_eq!(span, Duration::from_millis(millis), "{text}");
        assert_eq!(duration::parse(&duration::shown(span)).expect("a duration"), span, "{text}");
    }
}

#[test]
fn durations_that_are_none_are_refused() {
    for text in [
        "",
        "s",
        "-1s",
        "1w",
        "1 s",
        "1m30",
        "30s1m",
        "1s1s",
        "1.s",
        ".5s",
        "1.2.3s",
        "1e3s",
        "٣s",
        "18446744073709551615d",
        "99999999999999999999",
    ] {
        assert_invalid(duration::parse(text));
    }
}

#[test]
fn a_limit_of_zero_or_beyond_the_ceiling_is_refused() {
    let inputs = [
        LimitsInput { cpu_millicores: Some(0), ..LimitsInput::default() },
        LimitsInput { memory_mb: Some(u64::MAX), ..LimitsInput::default() },
        LimitsInput { pids: Some(0), ..LimitsInput::default() },
        LimitsInput { timeout_seconds: Some(u64::MAX), ..LimitsInput::default() },
        LimitsInput { workspace_mb: Some(0), ..LimitsInput::default() },
        LimitsInput { output_bytes: Some(1), ..LimitsInput::default() },
    ];

    for input in inputs {
        assert_invalid(Limits::resolve(&input, &Ranges::default()));
    }
}

#[test]
fn only_limits_that_were_written_are_required() {
    let input = LimitsInput { memory_mb: Some(64), output_bytes: Some(2048), ..LimitsInput::default() };

    let limits = Limits::resolve(&input, &Ranges::default()).expect("in range");

    assert_eq!(limits.required, [Limit::Memory]);
}

#[test]
fn limits_that_are_negative_fractions_or_unknown_are_not_read() {
    for limits in [json!({"memory_mb": -1}), json!({"pids": 1.5}), json!({"memory": 1}), json!("none")] {
        assert!(serde_json::from_value::<SpecInput>(json!({ "limits": limits })).is_err(), "{limits}");
    }
}

#[test]
fn an_unknown_field_is_not_read() {
    assert!(serde_json::from_value::<SpecInput>(json!({"imagee": "host"})).is_err());
    assert!(
        serde_json::from_value::<SpecInput>(json!({"mounts": [{"source": "/", "target": "/", "rw": 1}]}))
            .is_err()
    );
}

#[test]
fn an_empty_spec_gets_the_defaults() {
    let spec = resolve(SpecInput::default()).expect("nothing has to be written");

    assert_eq!((spec.image.as_str(), spec.workdir), ("host", None));
    assert_eq!(spec.limits.timeout_seconds, 15 * 60);
    assert_eq!(spec.limits.required, []);
}

#[test]
fn variables_no_program_could_receive_are_refused() {
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0"), ("A", &"x".repeat(128 << 10))] {
        assert_invalid(resolve(one_variable(name, value)));
    }
}

#[test]
fn variables_that_are_too_many_are_refused() {
    let env = (0..600).map(|number| (format!("V{number}"), "x".repeat(1000))).collect();

    assert_invalid(resolve(SpecInput { env, ..SpecInput::default() }));
}

#[test]
fn paths_no_kernel_takes_are_refused() {
    for path in ["", "/a\0b", &format!("/{}", "x".repeat(4095))] {
        assert_invalid(check_path("path", path));
    }
    assert_invalid(check_absolute("workdir", "relative"));
    assert!(check_absolute("workdir", &format!("/{}", "x".repeat(4094))).is_ok());
}

#[test]
fn labels_are_few_and_short() {
    let many = (0..65).map(|number| (format!("l{number}"), String::new())).collect();
    let long = BTreeMap::from([("l".to_owned(), "x".repeat(256))]);
    let empty = BTreeMap::from([(String::new(), "x".to_owned())]);

    for labels in [many, long, empty] {
        assert_invalid(resolve(SpecInput { labels, ..SpecInput::default() }));
    }
}

#[test]
fn a_time_to_live_is_bounded_and_written_once() {
    let ttl = |text: &str| SpecInput { ttl: Some(text.to_owned()), ..SpecInput::default() };

    assert_eq!(resolve(ttl("1h")).expect("in range").limits.timeout_seconds, 3600);
    assert_eq!(resolve(ttl("1ms")).expect("in range").limits.timeout_seconds, 1);
    assert_invalid(resolve(ttl("0")));
    assert_invalid(resolve(ttl("25h")));
    let twice = json!({"ttl": "1h", "limits": {"timeout_seconds": 60}});
    assert_invalid(resolve(serde_json::from_value(twice).expect("well formed")));
}
