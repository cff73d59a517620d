//! What this machine lets us enforce, and what was seen to be enforced on a sandbox.

use std::fs;
use std::io;
use std::path::Path;

use coracle_core::backend::{Probe, Profile, Wall};
use coracle_core::spec::Privileges;
use coracle_core::{Error, Kind, Result, Spec, fit};
use coracle_sys::cgroup::{Controller, Layout};
use coracle_sys::{landlock, launch};

use super::Native;
use super::privilege::Privilege;
use super::storage::{self, Storage};
use crate::{filter, weak};

/// Namespaces by their names in `/proc/self/ns`.
const NAMESPACES: [(&str, &str); 7] = [
    ("user_namespace", "user"),
    ("mount_namespace", "mnt"),
    ("pid_namespace", "pid"),
    ("ipc_namespace", "ipc"),
    ("uts_namespace", "uts"),
    ("network_namespace", "net"),
    ("cgroup_namespace", "cgroup"),
];

/// An empty set of capabilities, as the kernel shows it.
const NOTHING: &str = "0000000000000000";

/// Tells what can be enforced here, without making anything that stays.
pub fn probe(native: &Native) -> Probe {
    let supported = |name: &str| Path::new("/proc/self/ns").join(name).exists();
    let reason = match NAMESPACES.iter().find(|(_, name)| !supported(name)) {
        Some((wall, _)) => Some(format!("the kernel has no {}", wall.replace('_', " "))),
        None => unavailable(native),
    };
    let mut walls: Vec<_> = NAMESPACES.iter().map(|wall| namespace(*wall, supported(wall.1))).collect();
    walls.extend(process_walls(native.privilege, Privileges::Minimal));
    walls.push(landlock_wall(landlock::version() > 0));
    walls.extend(limits(native));
    walls.push(storage::probe(native.privilege));
    Probe { available: reason.is_none(), reason, version: None, endpoint: None, profile: Profile { walls } }
}

/// Returns the expected walls of a sandbox with this spec, from what is already known.
pub fn expect(native: &Native, spec: &Spec) -> Result<Profile> {
    if native.privilege.is_root() {
        native.layout()?;
    }
    let mut walls: Vec<_> = NAMESPACES.iter().map(|wall| namespace(*wall, true)).collect();
    walls.extend(process_walls(native.privilege, spec.privileges));
    walls.push(landlock_wall(landlock::version() > 0));
    walls.extend(limits(native));
    walls.push(Storage::choose(spec, native.privilege).wall(spec, native.privilege));
    Ok(Profile { walls })
}

/// Refuses a spec that `create` would refuse, with the checks that `create` makes anyway.
pub fn fit(native: &Native, spec: &Spec) -> Result<()> {
    match unavailable(native) {
        Some(reason) => {
            Err(Error::new(Kind::NotAvailable, format!("backend `native` cannot be used here: {reason}"))
                .hint("run `coracle doctor` to see what is missing"))
        }
        None => fit::check("native", &expect(native, spec)?, spec),
    }
}

/// What we know of a sandbox that has just come up.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Its first process.
    pub guest: i32,
    /// The capabilities commands may have.
    pub capabilities: u64,
    /// The forker reported that Landlock is in force, before any code of the image ran.
    pub landlock: bool,
}

/// Looks at a guest's forker, from which every command is forked, and records which walls hold. A missing wall that
/// must hold is an error: nothing must run there.
pub fn observe(native: &Native, spec: &Spec, seen: Seen) -> io::Result<Profile> {
    if weak::off(weak::Wall::Observation) {
        return Ok(Profile { walls: Vec::new() });
    }
    let guest = seen.guest;
    let children = fs::read_to_string(format!("/proc/{guest}/task/{guest}/children"))?;
    let forker =
        children.split_whitespace().next().ok_or_else(|| io::Error::other("the guest has no forker"))?;
    let status = fs::read_to_string(format!("/proc/{forker}/status"))?;
    // No command can ever have a capability that is not in the bounding set.
    let bound = format!("{:016x}", seen.capabilities);
    let expected = [
        ("Seccomp:", "2"),
        ("NoNewPrivs:", "1"),
        ("CapBnd:", &bound),
        ("CapAmb:", NOTHING),
        ("CapInh:", NOTHING),
    ];
    for (field, value) in expected {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
        if line != Some(value) {
            return Err(io::Error::other(format!("{field} is {} and not {value}", line.unwrap_or("absent"))));
        }
    }
    if status
        .lines()
        .any(|line| line.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().any(|id| id == "0")))
    {
        return Err(io::Error::other("it runs as the machine's root"));
    }
    let mut walls = Vec::with_capacity(16);
    for (wall, name) in NAMESPACES {
        let link = |process: &str| fs::read_link(format!("/proc/{process}/ns/{name}"));
        if link(forker)? == link("self")? {
            return Err(io::Error::other(format!("it shares the machine's {name} namespace")));
        }
        walls.push(namespace((wall, name), true));
    }
    if landlock::version() > 0 && !seen.landlock {
        return Err(io::Error::other("the kernel has Landlock, but it is not in force"));
    }
    walls.extend(process_walls(native.privilege, spec.privileges));
    walls.push(landlock_wall(seen.landlock));
    walls.extend(limits(native));
    walls.push(Storage::choose(spec, native.privilege).wall(spec, native.privilege));
    Ok(Profile { walls })
}

/// Returns why no sandbox can be made here.
fn unavailable(native: &Native) -> Option<String> {
    match native.privilege {
        Privilege::Root => native.layout().err().map(|error| error.chain()),
        Privilege::Rootless { .. } => launch::try_namespaces().err().map(|error| {
            format!(
                "an ordinary user may not make user namespaces here ({error}); run as root, or see the settings \
                 kernel.unprivileged_userns_clone, user.max_user_namespaces and \
                 kernel.apparmor_restrict_unprivileged_userns"
            )
        }),
    }
}

fn namespace((wall, _): (&str, &str), enforced: bool) -> Wall {
    let how = if enforced { "its own" } else { "the kernel has none" };
    Wall { name: wall.to_owned(), enforced, how: how.to_owned(), hint: None }
}

fn process_walls(privilege: Privilege, privileges: Privileges) -> [Wall; 4] {
    let wall = |name: &str, enforced: bool, how: &str| Wall {
        name: name.to_owned(),
        enforced,
        how: how.to_owned(),
        hint: None,
    };
    let users = match privilege {
        Privilege::Root => wall("separate_users", true, "ids of its own, the guest's apart from commands'"),
        Privilege::Rootless { .. } => Wall {
            hint: Some("run as root".to_owned()),
            ..wall("separate_users", false, "without root a sandbox has one user, who is the caller outside")
        },
    };
    [
        wall("seccomp", true, filter::described(privileges)),
        wall("no_new_privileges", true, "set before any command"),
        wall("capabilities", true, "none but what `privileges` names"),
        users,
    ]
}

fn landlock_wall(enforced: bool) -> Wall {
    let how = match enforced {
        true => "nothing outside the sandbox's own files by any path",
        false => "the kernel has none",
    };
    Wall {
        name: "landlock".to_owned(),
        enforced,
        how: how.to_owned(),
        hint: (!enforced)
            .then(|| "a kernel since 5.13 with `landlock` in its list of security modules".to_owned()),
    }
}

fn limits(native: &Native) -> Vec<Wall> {
    match native.privilege {
        Privilege::Root => native.layout().ok().into_iter().flat_map(by_cgroups).collect(),
        Privilege::Rootless { .. } => Controller::ALL.into_iter().map(without_cgroups).collect(),
    }
}

fn by_cgroups(layout: &Layout) -> Vec<Wall> {
    let limit = |controller: Controller| {
        let by = layout.enforced_by(controller);
        Wall {
            name: controller.name().to_owned(),
            enforced: by.is_some(),
            how: by.unwrap_or("no cgroup tree has this controller").to_owned(),
            hint: by
                .is_none()
                .then(|| format!("mount or enable the `{}` cgroup controller", controller.name())),
        }
    };
    Controller::ALL.into_iter().map(limit).collect()
}

fn without_cgroups(controller: Controller) -> Wall {
    let bounded = controller == Controller::Pids;
    let how =
        if bounded { "a limit on the user's processes in the sandbox" } else { "no cgroup without root" };
    Wall {
        name: controller.name().to_owned(),
        enforced: bounded,
        how: how.to_owned(),
        hint: (!bounded).then(|| "run as root".to_owned()),
    }
}
