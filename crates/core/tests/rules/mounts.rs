//! Mounts: where they may go and come from; and files kept in memory.

use coracle_core::error::{Kind, Result};
use coracle_core::mount::{Access, Mount, MountInput, MountPolicy, Source, resolve};
use coracle_core::policy::Policy;
use coracle_core::spec::{Spec, SpecInput, Storage};
use proptest::prelude::*;
use serde_json::{Value, json};

fn mount(source: &str, target: &str) -> MountInput {
    MountInput { source: source.to_owned(), target: target.to_owned(), access: Access::default() }
}

fn one(source: &str, target: &str) -> Result<Mount> {
    Ok(resolve(vec![mount(source, target)], &MountPolicy::default())?.remove(0))
}

#[track_caller]
fn assert_invalid<T: std::fmt::Debug>(result: Result<T>, what: &str) {
    let error = result.expect_err(what);
    assert_eq!(error.kind, Kind::Invalid, "{what}: {error}");
    assert!(error.details.contains_key("field"), "{what}: {error} does not name its field");
}

fn spec(input: Value) -> Result<Spec> {
    Spec::resolve(serde_json::from_value(input).expect("well formed"), &Policy::default())
}

#[test]
fn what_every_sandbox_has_to_itself_is_not_mounted_over() {
    for target in [
        "/",
        "//",
        "/.",
        "/proc",
        "/proc/self",
        "/sys",
        "/sys/fs/cgroup",
        "/dev",
        "/dev/shm",
        "/./dev/",
        "/etc",
        "/etc/",
        "/.coracle/run",
    ] {
        assert_invalid(one("cache", target), target);
    }
    for target in ["/devices", "/process", "/workspace", "/workspace/cache", "/etc/app", "/etcetera"] {
        assert!(one("cache", target).is_ok(), "{target}");
    }
}

#[test]
fn targets_are_absolute_and_do_not_go_up() {
    for target in
        ["", "relative", "./x", "..", "/a/..", "/a/../b", "/..", "/a\0b", &format!("/{}", "x".repeat(4095))]
    {
        assert_invalid(one("cache", target), target);
    }
    assert_eq!(one("cache", "//a/./b//").expect("plain").target, "/a/b");
}

#[test]
fn a_source_is_a_directory_or_a_volume() {
    let volume = Source::Volume("npm-cache".parse().expect("a name"));

    assert_eq!(
        one("/srv//x/./y/", "/x").expect("a directory").source,
        Source::Directory("/srv/x/y".to_owned())
    );
    assert_eq!(one("npm-cache", "/x").expect("a volume").source, volume);
    for source in
        ["", ".", "..", "a/b", "./a", "../a", "-rf", "a b", "größe", "/a/../b", "/a\0", &"x".repeat(129)]
    {
        assert_invalid(one(source, "/x"), source);
    }
}

#[test]
fn a_target_is_used_once_however_it_is_written() {
    let twice = vec![mount("a", "/x"), mount("b", "/x/"), mount("c", "/y")];

    assert_invalid(resolve(twice, &MountPolicy::default()), "twice");
}

#[test]
fn outer_mounts_are_made_before_inner_ones() {
    let inputs = vec![mount("a", "/x/y/z"), mount("b", "/x-y"), mount("c", "/x/y"), mount("d", "/x")];

    let mounts = resolve(inputs, &MountPolicy::default()).expect("valid");

    let place = |target: &str| mounts.iter().position(|mount| mount.target == target);
    assert!(place("/x") < place("/x/y") && place("/x/y") < place("/x/y/z"));
}

#[test]
fn mounts_are_few() {
    let many = (0..33).map(|number| mount("cache", &format!("/m{number}"))).collect();

    assert_invalid(resolve(many, &MountPolicy::default()), "33");
}

#[test]
fn only_what_is_on_the_list_is_mounted_and_volumes_always() {
    let policy = MountPolicy { allow: Some(vec!["/srv/".to_owned(), "/data/x".to_owned()]) };
    let from = |source: &str| resolve(vec![mount(source, "/m")], &policy);

    for source in ["/srv", "/srv/", "/srv/a/b", "/data/x", "cache"] {
        assert!(from(source).is_ok(), "{source}");
    }
    for source in ["/", "/srvx", "/data", "/data/xy", "/etc", "//srv/../etc"] {
        assert_invalid(from(source), source);
    }
    let none = MountPolicy { allow: Some(Vec::new()) };
    assert_invalid(resolve(vec![mount("/srv", "/m")], &none), "an empty list");
}

#[test]
fn a_mount_can_be_written_again_as_it_was() {
    let input = MountInput { access: Access::Overlay, ..mount("/srv/x", "/x") };

    let mounts = resolve(vec![input.clone()], &MountPolicy::default()).expect("valid");

    assert_eq!(mounts.into_iter().map(MountInput::from).collect::<Vec<_>>(), [input]);
}

#[test]
fn sandboxes_are_kept_on_disk_and_one_shots_in_memory() {
    let one_shot = SpecInput::default().for_one_command();

    assert_eq!(spec(json!({})).expect("valid").storage, None);
    assert_eq!(one_shot.storage, Some(Storage::Memory));
    assert_eq!(one_shot.ttl.as_deref(), Some("60s"));
}

#[test]
fn a_one_shot_that_says_how_much_it_writes_is_kept_on_disk() {
    let inputs = [
        json!({"limits": {"workspace_mb": 100}}),
        json!({"limits": "unlimited"}),
        json!({"storage": "disk"}),
    ];

    for input in inputs {
        let one_shot =
            serde_json::from_value::<SpecInput>(input.clone()).expect("well formed").for_one_command();
        assert_ne!(one_shot.storage, Some(Storage::Memory), "{input}");
    }
}

#[test]
fn a_one_shot_keeps_what_its_caller_wrote() {
    let written = json!({"storage": "memory", "ttl": "5m", "limits": {"workspace_mb": 10}});
    let timed = json!({"limits": {"timeout_seconds": 30}});

    let kept = serde_json::from_value::<SpecInput>(written).expect("well formed").for_one_command();
    let timed = serde_json::from_value::<SpecInput>(timed).expect("well formed").for_one_command();

    assert_eq!((kept.storage, kept.ttl.as_deref()), (Some(Storage::Memory), Some("5m")));
    assert_eq!(timed.ttl, None);
}

#[test]
fn files_in_memory_get_half_of_it_unless_the_caller_says_how_much() {
    let files = |input: Value| spec(input).map(|spec| spec.limits.workspace_mb);

    let memory = |limits: Value| json!({"storage": "memory", "limits": limits});
    assert_eq!(files(memory(json!({"memory_mb": 512}))).expect("valid"), Some(256));
    assert_eq!(files(memory(json!({"memory_mb": 5}))).expect("valid"), Some(3));
    assert_eq!(files(memory(json!({}))).expect("valid"), Some(2048));
    assert_eq!(files(memory(json!({"memory_mb": 512, "workspace_mb": 512}))).expect("valid"), Some(512));
    // A bound on their number says nothing about their size.
    assert_eq!(files(memory(json!({"memory_mb": 512, "inodes": 100}))).expect("valid"), Some(256));
    assert_eq!(files(json!({"storage": "memory", "limits": "unlimited"})).expect("valid"), None);
    assert_eq!(files(json!({"limits": {"memory_mb": 512}})).expect("valid"), Some(20 << 10));
    assert_invalid(files(memory(json!({"memory_mb": 512, "workspace_mb": 513}))), "more than all");
}

#[test]
fn walls_are_named_as_doctor_names_them() {
    let require = |walls: Value| spec(json!({ "require": walls }));

    assert_eq!(require(json!(["seccomp", "no_network"])).expect("valid").require, ["seccomp", "no_network"]);
    for wall in ["", "Seccomp", "a b", "../x", &"x".repeat(65)] {
        assert_invalid(require(json!([wall])), wall);
    }
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn a_target_that_is_accepted_is_plain_and_stays_so(target in "[a-z./]{0,20}|.{0,20}") {
        if let Ok(mount) = one("cache", &target) {
            prop_assert!(mount.target.starts_with('/') && mount.target.len() > 1);
            prop_assert!(!mount.target.contains("//") && !mount.target.ends_with('/'));
            prop_assert!(mount.target.split('/').all(|word| word != "." && word != ".."));
            prop_assert_eq!(one("cache", &mount.target).expect("still valid").target, mount.target);
        }
    }

    #[test]
    fn what_is_accepted_is_below_what_is_allowed(source in "/[a-z./]{0,20}") {
        let policy = MountPolicy { allow: Some(vec!["/s".to_owned()]) };
        if let Ok(mounts) = resolve(vec![mount(&source, "/m")], &policy) {
            let Source::Directory(path) = &mounts[0].source else { panic!("a path is a directory") };
            prop_assert!(path == "/s" || path.starts_with("/s/"), "{}", path);
        }
    }
}
