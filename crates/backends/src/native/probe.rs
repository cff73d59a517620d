//! What this machine lets us enforce, and what was seen to be enforced on a sandbox.

use std::fs;
use std::io;
use std::path::Path;

use coracle_core::backend::{Probe, Profile, Wall};
use coracle_core::{Error, Kind, Result};
use coracle_sys::cgroup::{Controller, Layout};

const NEEDS_ROOT: &str = "it needs root: running without comes with a later version";

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

/// Tells what can be enforced here, without making anything.
pub fn probe(layout: Result<&Layout>) -> Probe {
    let root = is_root();
    let supported: Vec<_> =
        NAMESPACES.iter().filter(|(_, name)| Path::new("/proc/self/ns").join(name).exists()).collect();
    let reason = match (&layout, root) {
        (_, false) => Some(NEEDS_ROOT.to_owned()),
        (Err(error), _) => Some(error.chain()),
        (Ok(_), true) if supported.len() < NAMESPACES.len() => Some("the kernel lacks namespaces".to_owned()),
        (Ok(_), true) => None,
    };
    let mut walls: Vec<_> =
        NAMESPACES.iter().map(|wall| namespace(*wall, supported.contains(&wall))).collect();
    walls.extend(process_walls());
    walls.extend(layout.ok().into_iter().flat_map(limits));
    walls.extend(unenforced());
    Probe { available: reason.is_none(), reason, profile: Profile { walls } }
}

/// Refuses to begin without what making a sandbox takes.
pub fn check_privileges() -> Result<()> {
    match is_root() {
        true => Ok(()),
        false => {
            Err(Error::new(Kind::NotAvailable, format!("the native backend is not available: {NEEDS_ROOT}"))
                .hint("run coracle as root"))
        }
    }
}

/// Looks at a guest's forker, which every command is forked from, and records what holds. A wall that ought to stand
/// and does not is an error: nothing must run there.
pub fn observe(layout: &Layout, guest: i32) -> io::Result<Profile> {
    let children = fs::read_to_string(format!("/proc/{guest}/task/{guest}/children"))?;
    let forker =
        children.split_whitespace().next().ok_or_else(|| io::Error::other("the guest has no forker"))?;
    let status = fs::read_to_string(format!("/proc/{forker}/status"))?;
    let expected = [("Seccomp:", "2"), ("NoNewPrivs:", "1")];
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
    walls.extend(process_walls());
    walls.extend(limits(layout));
    walls.extend(unenforced());
    Ok(Profile { walls })
}

fn namespace((wall, _): (&str, &str), enforced: bool) -> Wall {
    let how = if enforced { "its own" } else { "the kernel has none" };
    Wall { name: wall.to_owned(), enforced, how: how.to_owned(), hint: None }
}

fn process_walls() -> [Wall; 3] {
    let wall = |name: &str, how: &str| Wall {
        name: name.to_owned(),
        enforced: true,
        how: how.to_owned(),
        hint: None,
    };
    [
        wall("seccomp", "allow-list, socket families, no foreign ABI"),
        wall("no_new_privileges", "set before any command"),
        wall("capabilities", "none but what `privileges` names"),
    ]
}

fn limits(layout: &Layout) -> Vec<Wall> {
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

/// What later versions enforce.
fn unenforced() -> [Wall; 2] {
    let wall = |name: &str, how: &str| Wall {
        name: name.to_owned(),
        enforced: false,
        how: how.to_owned(),
        hint: None,
    };
    [wall("disk", "not limited yet"), wall("landlock", "not used yet")]
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}
