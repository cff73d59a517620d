//! PS: what `/proc`, `/sys` and the cgroup files give away or let through.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use coracle_tests::attack::{Sysctl, machine, not_applicable};
use coracle_tests::{Arena, Attack, Canary, Route, eventually};

use crate::GROUND;

/// Settings that are numbers, harmless one off for a moment.
const NUMBERS: [&str; 3] =
    ["/proc/sys/vm/swappiness", "/proc/sys/kernel/panic", "/proc/sys/kernel/printk_ratelimit_burst"];
/// How long the kernel may take to run a program of the machine.
const UPCALL: Duration = Duration::from_secs(2);
const CAP_SYS_RESOURCE: u64 = 1 << 24;

#[test]
fn ps_01_nothing_of_the_machine_can_be_read() {
    let title = "read every masked path of `/proc` and `/sys`";
    Attack::starred(GROUND, "PS-01", title)
        .without(&["Masks", "UserNamespace"])
        .every(&["/proc/interrupts", "/proc/cmdline", "/proc/timer_list", "/proc/partitions"])
        .run(|arena| arena.confess(include_str!("payloads/read_kernel.py"), &[]));
}

#[test]
fn ps_02_no_setting_of_the_machine_can_be_written() {
    let _machine = machine();
    let title = "write `core_pattern`, `sysrq-trigger`, `binfmt_misc`, `vm`, `irq` and helpers of the kernel";
    Attack::starred(GROUND, "PS-02", title)
        .without(&["Masks", "UserNamespace"])
        .every(&["core_pattern", "swappiness"])
        .run(|arena| {
            let paths = NUMBERS.iter().copied().chain(["/proc/sys/kernel/core_pattern"]);
            let settings: Vec<_> = paths.filter_map(Sysctl::new).collect();
            let arguments: Vec<_> = ["kernel-canary"].into_iter().chain(NUMBERS).collect();
            arena.python(include_str!("payloads/write_kernel.py"), &arguments);
            settings.iter().flat_map(Sysctl::damage).collect()
        });
}

#[test]
fn ps_03_covers_cannot_be_taken_off() {
    let ours = fs::read_to_string("/proc/cmdline").expect("/proc is mounted");
    let title = "take off a cover, or mount a `/proc` of one's own in nested namespaces";
    let walls = &["Seccomp", "Capabilities", "NoNewPrivileges", "Landlock", "Nesting"];
    Attack::row(GROUND, "PS-03", title).without(walls).run(|arena| {
        let ran = arena.python(include_str!("payloads/uncover.py"), &[]);
        let seen = ran.text().contains(ours.trim());
        seen.then(|| "read what was covered".to_owned()).into_iter().collect()
    });
}

#[test]
fn ps_04_no_release_agent_runs() {
    let _machine = machine();
    let canary = Canary::new();
    let directory = tempfile::tempdir().expect("a directory");
    let agent = directory.path().join("agent");
    fs::write(&agent, format!("#!/bin/sh\n: > {}/made\n", canary.directory().display())).expect("it is ours");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let (agent, name) = (agent.to_string_lossy().into_owned(), canary.secret().to_owned());

    let title = "mount a cgroup tree, set its `release_agent`, and let a group become empty";
    let walls =
        &["UserNamespace", "CgroupNamespace", "Capabilities", "Seccomp", "NoNewPrivileges", "Landlock"];
    Attack::starred(GROUND, "PS-04", title)
        .pointless_on_docker("the engine of the tests has a cgroup namespace of its own, where no command can make a tree; that none can be mounted is SC-01").without(walls).run(|arena| {
        arena.python(include_str!("payloads/release_agent.py"), &[&agent, &name]);
        let made = canary.directory().join("made");
        eventually(UPCALL, || made.exists());
        forget_tree(&name);
        canary.damage()
    });
}

/// Waits until the kernel has let go of a tree of cgroups. It does so if none of its groups was just dying when it was
/// taken off; so, if it has not, the tree is taken off once more.
fn forget_tree(name: &str) {
    let is_gone = || !fs::read_to_string("/proc/self/cgroup").expect("/proc is mounted").contains(name);
    if eventually(Duration::from_secs(1), is_gone).is_some() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let options = format!("none,name={name}");
    let _ = Command::new("mount").args(["-t", "cgroup", "-o", &options, "none"]).arg(place.path()).status();
    let _ = Command::new("umount").arg(place.path()).status();
    let gone = eventually(Duration::from_secs(10), is_gone);
    assert!(gone.is_some(), "the attack has left a tree of cgroups on the machine");
}

#[test]
fn ps_05_limits_cannot_be_raised_from_inside() {
    let title = "raise one's own limits by any cgroup file that can be found or mounted";
    let walls = &["UserNamespace", "Capabilities", "Seccomp", "NoNewPrivileges", "Landlock"];
    Attack::row(GROUND, "PS-05", title)
        .by(&[Route::Exec, Route::Transfer, Route::Terminal])
        .with(&["--memory", "64m", "--pids", "64"])
        .without(walls)
        .run(|arena| {
            let before = limits(arena);
            arena.python(include_str!("payloads/raise_limits.py"), &[]);
            let after = limits(arena);
            let changed = before.iter().filter(|(path, value)| after.get(*path) != Some(*value));
            changed
                .map(|(path, _)| format!("changed {}", path.file_name().unwrap_or_default().display()))
                .collect()
        });
}

/// Returns what the kernel says the limits of all sandboxes are.
fn limits(arena: &Arena<'_>) -> BTreeMap<PathBuf, String> {
    let names = ["memory.limit_in_bytes", "memory.max", "pids.max", "cpu.cfs_quota_us", "cpu.max"];
    let groups = arena.home.census().cgroups;
    let paths = groups.iter().flat_map(|group| [group.clone(), group.join("commands")]);
    let files = paths.flat_map(|group| names.map(|name| group.join(name)));
    files.filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?))).collect()
}

#[test]
fn ps_06_no_command_escapes_the_oom_killer() {
    let title = "lower one's own `oom_score_adj`";
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let ours = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or("0").trim().to_owned();
    if u64::from_str_radix(&ours, 16).unwrap_or(0) & CAP_SYS_RESOURCE == 0 {
        return not_applicable(
            GROUND,
            "PS-06",
            false,
            title,
            "root of this machine lacks CAP_SYS_RESOURCE itself",
        );
    }
    let walls = &["UserNamespace", "Capabilities"];
    Attack::row(GROUND, "PS-06", title).without(walls).run(|arena| {
        let script = "echo -1000 > /proc/self/oom_score_adj; exec sleep \"$1\"";
        arena.watch(&["sh", "-c", script, "sh"], |process| {
            let path = format!("/proc/{}/oom_score_adj", process.pid);
            let lowered = eventually(Duration::from_secs(2), || {
                fs::read_to_string(&path).is_ok_and(|score| score.trim().starts_with('-'))
            });
            lowered.map(|_| "lowered its score".to_owned()).into_iter().collect()
        })
    });
}

#[test]
fn ps_08_mounts_tell_nothing_of_the_machine() {
    let title = "find paths and sandboxes of the machine in `/proc/self/mountinfo`";
    Attack::row(GROUND, "PS-08", title)
        .pointless_on_docker(
            "a container shows where the engine and the home are: the paths of both are in its mounts",
        )
        .without(&["Disk"])
        .run(|arena| {
            let home = arena.home.path().to_string_lossy().into_owned();
            let ran = arena.call(&["cat", "/proc/self/mountinfo"]).succeed();
            let told = [home.as_str(), "sbx_", "ins_"].into_iter().filter(|word| ran.text().contains(word));
            told.map(|word| format!("`{word}` is told")).collect()
        });
}

#[test]
fn ps_09_the_guest_cannot_be_looked_into() {
    let title = "follow, read, trace and write the guest and its forker through `/proc`";
    Attack::row(GROUND, "PS-09", title)
        .without(&["Capabilities", "Seccomp", "NoNewPrivileges", "Landlock"])
        .every(&["followed root", "followed exe", "listed fd", "traced", "read maps"])
        .run(|arena| arena.confess(include_str!("payloads/touch_guest.py"), &[]));
}
