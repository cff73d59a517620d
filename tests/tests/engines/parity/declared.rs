//! What container engines cannot do: a short list, which `show` and `backends` declare and every call refuses alike.

use std::collections::BTreeSet;
use std::time::Duration;

use coracle_tests::engines::test_backend::TestBackend;
use coracle_tests::{eventually, requires};
use serde_json::Value;

/// Walls that do not stand in containers of an engine, and why.
const OPEN: &[(&str, &str)] = &[
    ("user_namespace", "engines map root to itself unless the operator has told them otherwise"),
    ("disk", "storage drivers bound a container only on filesystems with quotas"),
];
/// Calls that are answered otherwise, by a part of them, where, and why. The script asks on purpose what only an engine shows.
pub const OTHERWISE: &[(&str, &[TestBackend], &str)] = &[
    ("ls /sys/class/net", ENGINES, "engines mount /sys, read-only"),
    (
        "cat /etc/resolv.conf",
        &[TestBackend::Docker, TestBackend::Ssh],
        "Docker gives every container a file of that name",
    ),
    ("ls /dev | sort", ENGINES, "engines mount message queues in /dev"),
    ("ls /proc | grep -c '^1$'", ENGINES, "only who may mount can hide processes; they cannot be reached"),
    ("/.coracle", ENGINES, "the guest's program is in the container's own tree, read-only"),
    ("HOME/absent", &[TestBackend::Ssh], "another machine does not have the directories of this one"),
];
const ENGINES: &[TestBackend] = &[TestBackend::Docker, TestBackend::Podman, TestBackend::Ssh];

/// Operations engines have nothing for: they would need the files of a container as layers of another, or a cgroup of
/// its commands alone.
const REFUSED: &[&str] = &["fork", "snapshot", "pause"];

/// How long others may keep an engine busy.
const BUSY: Duration = Duration::from_secs(60);

fn not_enforced(walls: &Value) -> BTreeSet<String> {
    let walls = walls.as_array().into_iter().flatten();
    let open = walls.filter(|wall| wall["enforced"] == false);
    open.filter_map(|wall| Some(wall["name"].as_str()?.to_owned())).collect()
}

fn expect_declared(backend: TestBackend) {
    let home = backend.settled_home();
    let flags = backend.flags();
    let sandbox = home.open_with(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    let expected: BTreeSet<String> = OPEN.iter().map(|(name, _)| (*name).to_owned()).collect();

    let shown = home.call(["show", &sandbox, "--json"]).succeed().json();
    assert_eq!(not_enforced(&shown["profile"]["walls"]), expected, "{shown}");
    let listed = || -> Vec<Value> {
        let listed = home.call(["backends", "--json"]).succeed().json();
        let listed = listed.as_array().cloned().unwrap_or_default();
        listed.into_iter().filter(|found| found["name"] == backend.name().as_str()).collect()
    };
    // An engine that others keep busy may not answer in the time it is given.
    let mut told = Vec::new();
    eventually(BUSY, || {
        told = listed();
        told.iter().all(|backend| backend["available"] == true)
    });
    for backend in told {
        assert_eq!(backend["available"], true, "{backend}");
        let open = backend["walls"].as_u64().zip(backend["enforced"].as_u64());
        assert_eq!(open.map(|(walls, enforced)| walls - enforced), Some(OPEN.len() as u64), "{backend}");
    }
    home.exec(&sandbox, ["sh", "-c", "echo kept > note"]).succeed();
    for operation in REFUSED {
        let refused = home.call([*operation, &sandbox, "--json"]).run().error();
        assert_eq!(
            (&refused["kind"], &refused["hint"]),
            (&"unsupported".into(), &"the native backend can".into())
        );
    }
    assert_eq!(home.exec(&sandbox, ["cat", "note"]).succeed().text(), "kept\n");
    assert_eq!(home.live().len(), 1, "what was refused has left nothing");
}

#[test]
fn what_docker_cannot_do_is_declared_and_refused() {
    requires!(docker);
    expect_declared(TestBackend::Docker);
}

#[test]
fn what_podman_cannot_do_is_declared_and_refused() {
    requires!(podman);
    expect_declared(TestBackend::Podman);
}

#[test]
fn what_an_engine_behind_ssh_cannot_do_is_declared_and_refused() {
    requires!(ssh);
    expect_declared(TestBackend::Ssh);
}
