//! What a container engine lets us enforce, and what was seen to be enforced on a sandbox.

use bollard::models::SystemVersion;
use coracle_core::backend::{Probe, Profile, Wall};
use coracle_core::spec::Privileges;
use coracle_core::{Error, Kind, Result, Spec};
use coracle_wire::GuestReport;

use super::Docker;
use super::flavour::Flavour;
use crate::{filter, weak};

/// An empty set of capabilities, as the kernel shows it.
const NOTHING: &str = "0000000000000000";
/// The map of ids of a process in the machine's own user namespace.
const ALL_IDS: [&str; 3] = ["0", "0", "4294967295"];

/// Tells what can be enforced there. Makes nothing.
pub fn probe(docker: &Docker) -> Probe {
    let (version, reason) = match docker.client.greet() {
        Ok(version) => (Some(shown(&version)), None),
        Err(error) => (None, Some(error.chain())),
    };
    let (endpoint, walls) = (Some(docker.client.shown()), walls(Privileges::Minimal, true, None));
    Probe { available: reason.is_none(), reason, version, endpoint, profile: Profile { walls } }
}

/// Returns name and version, as in `Docker 27.3.1 (API 1.47)`. A container engine may send anything; we repeat
/// little of it.
fn shown(version: &SystemVersion) -> String {
    let short =
        |text: &Option<String>| text.iter().flat_map(|text| text.chars().take(32)).collect::<String>();
    let name = match Flavour::of(version) {
        Flavour::Docker => "Docker",
        Flavour::Podman => "Podman",
    };
    format!("{name} {} (API {})", short(&version.version), short(&version.api_version))
}

/// Returns the expected walls of a sandbox with this spec.
pub fn expect(_docker: &Docker, spec: &Spec) -> Result<Profile> {
    Ok(Profile { walls: walls(spec.privileges, true, None) })
}

/// Records which walls hold, by the guest's report: no code of the image has run yet. A missing wall that must hold
/// is an error.
pub fn observe(_docker: &Docker, spec: &Spec, report: &GuestReport, capabilities: u64) -> Result<Profile> {
    if weak::off(weak::Wall::Observation) {
        return Ok(Profile { walls: Vec::new() });
    }
    // No command can ever have a capability that is not in the bounding set.
    let bound = format!("{capabilities:016x}");
    let expected = [
        ("Seccomp:", "2"),
        ("NoNewPrivs:", "1"),
        ("CapBnd:", &bound),
        ("CapAmb:", NOTHING),
        ("CapInh:", NOTHING),
    ];
    for (field, value) in expected {
        let line = report.status.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
        if line != Some(value) {
            let found = line.unwrap_or("absent");
            return Err(Error::new(Kind::StartFailed, format!("{field} is {found} and not {value}")));
        }
    }
    let own_ids = report.uid_map.split_whitespace().ne(ALL_IDS);
    Ok(Profile { walls: walls(spec.privileges, report.fenced, Some(own_ids)) })
}

fn walls(privileges: Privileges, landlock: bool, own_ids: Option<bool>) -> Vec<Wall> {
    let wall = |name: &str, enforced: bool, how: &str| Wall {
        name: name.to_owned(),
        enforced,
        how: how.to_owned(),
        hint: None,
    };
    let mut walls = vec![Wall {
        hint: Some("have the engine remap users, run it rootless, or use the native backend".to_owned()),
        ..wall(
            "user_namespace",
            own_ids == Some(true),
            if own_ids == Some(true) {
                "the engine's"
            } else {
                "root inside is the machine's root, without rights"
            },
        )
    }];
    let namespaces = [
        "mount_namespace",
        "pid_namespace",
        "ipc_namespace",
        "uts_namespace",
        "network_namespace",
        "cgroup_namespace",
    ];
    walls.extend(namespaces.map(|name| wall(name, true, "the engine's")));
    walls.extend([
        wall("seccomp", true, filter::described(privileges)),
        wall("no_new_privileges", true, "set by the engine and before any command"),
        wall("capabilities", true, "none but what `privileges` names"),
        wall("separate_users", true, "the guest's user is not any command's"),
        wall(
            "landlock",
            landlock,
            if landlock {
                "nothing outside the container's own files by any path"
            } else {
                "the kernel has none"
            },
        ),
        wall("cpu", true, "the engine's cgroup"),
        wall("memory", true, "the engine's cgroup, the guest included"),
        wall("pids", true, "the engine's cgroup, the guest included"),
        Wall {
            hint: Some("use the native backend, or a workspace in a volume that is bounded".to_owned()),
            ..wall("disk", false, "the engine's storage bounds no container")
        },
    ]);
    walls
}
