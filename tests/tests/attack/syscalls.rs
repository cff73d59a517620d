//! SC: the system call filter.

use std::cell::RefCell;
use std::fs;

use coracle_tests::attack::Ground;
use coracle_tests::{Arena, Attack, Breaches, Canary, Route};

use crate::GROUND;

/// What every kernel has that we know of.
const ALWAYS_THERE: &[&str] = &[
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "fsopen",
    "move_mount",
    "open_tree",
    "mount_setattr",
    "setns",
    "unshare",
    "name_to_handle_at",
    "open_by_handle_at",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "reboot",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "sethostname",
    "syslog",
    "pidfd_getfd",
    "kcmp",
    "move_pages",
    "io_setup",
    "swapon",
    "int80 getpid",
];

#[test]
fn sc_01_system_calls_that_administer_are_refused() {
    let title = "call more than seventy system calls that administer, and those of other ABIs";
    Attack::starred(GROUND, "SC-01", title)
        .without(&["Seccomp", "Capabilities", "NoNewPrivileges", "UserNamespace", "Landlock"])
        .every(ALWAYS_THERE)
        .run(|arena| match cfg!(target_arch = "x86_64") {
            true => arena.confess(include_str!("payloads/call_kernel.py"), &[]),
            false => Breaches::new(),
        });
}

#[test]
fn sc_02_only_ordinary_sockets_open() {
    let title = "open a socket of every family, type and protocol";
    Attack::starred(GROUND, "SC-02", title)
        .without(&["Seccomp", "Capabilities", "NoNewPrivileges"])
        // A family the kernel has not cannot be shown; that the filter refuses each is a test of its own.
        .every(&["family 17 opened", "family 40", "netlink 4", "internet protocol 132"])
        .run(|arena| arena.confess(include_str!("payloads/open_sockets.py"), &[]));
}

#[test]
fn sc_04_the_filter_is_the_same_on_every_route() {
    let first = RefCell::new(None);
    let title = "look for a route on which the filter is missing or another";
    Attack::starred(GROUND, "SC-04", title).without(&["Seccomp"]).run(|arena| {
        let seen = arena.sleeper(|process| {
            let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("it sleeps");
            let lines = status.lines().filter(|line| line.starts_with("Seccomp"));
            lines
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
                .join(", ")
        });
        let expected = first.borrow_mut().get_or_insert_with(|| seen.clone()).clone();
        let wrong = seen != expected || !seen.starts_with("Seccomp: 2");
        wrong.then(|| format!("`{seen}` and not `{expected}`")).into_iter().collect()
    });
}

#[test]
fn sc_05_a_missing_wall_is_never_silent() {
    let title = "make a sandbox where a wall cannot be built";
    let lacking: [&[&str]; 7] = [
        &["Seccomp"],
        &["NoNewPrivileges", "Seccomp"],
        &["UserNamespace"],
        &["UserNamespace", "PidNamespace"],
        &["IpcNamespace"],
        &["CgroupNamespace"],
        &["Landlock"],
    ];
    // The engine makes the namespaces, and the record does not name them; it does say whether Landlock stands.
    let lacking = if GROUND == Ground::Docker { &lacking[..2] } else { &lacking[..] };
    let ran_without = |more: &[&str]| -> Breaches {
        let ran = |walls: &&&[&str]| {
            let home = GROUND.weakened(&[walls, more].concat());
            home.call(["run", "--", "echo", "ran"]).run().text().contains("ran")
        };
        lacking.iter().filter(ran).map(|walls| format!("ran without {}", walls.join(" and "))).collect()
    };
    let attempt = |_: &Arena<'_>| ran_without(&[]);
    Attack::starred(GROUND, "SC-05", title)
        .by(&[Route::Create])
        .run_beside(attempt, || ran_without(&["Observation"]));
}

#[test]
fn sc_06_landlock_holds_where_another_wall_fell() {
    let canary = Canary::new();
    let reached = |walls: &[&str]| -> Breaches {
        let leak = ["sh", "-c", "exec 9</; exec \"$@\"", "sh"].map(str::to_owned);
        let home = GROUND.weakened(walls).through(&leak);
        let script = format!(
            "cat /proc/self/fd/9{0}; echo x > /proc/self/fd/9{0}; cd /proc/self/fd/9 && cat .{0}",
            canary.text()
        );
        let ran = home.call(["run", "--", "sh", "-c", &script]).run();
        canary.leaked(&ran).into_iter().chain(canary.damage()).collect()
    };
    let title = "reach the machine's files through a descriptor that should not have been there";
    Attack::row(GROUND, "SC-06", title)
        .pointless_on_docker("an engine starts containers itself and they inherit nothing of coracle")
        .by(&[Route::Create])
        .every(&["read", "wrote"])
        .run_beside(
            |_| reached(&["Descriptors", "Observation"]),
            || reached(&["Descriptors", "Landlock", "Observation"]),
        );
}

#[test]
fn sc_08_no_descriptor_of_a_filter_is_inherited() {
    let title = "find an inherited ruleset of Landlock among what is open";
    let with_ruleset = "import ctypes, os, struct, sys; libc = ctypes.CDLL(None); \
                        made = libc.syscall(444, struct.pack('Q', 1), 8, 0); os.dup2(made, 12); \
                        os.execvp(sys.argv[1], sys.argv[1:])";
    Attack::row(GROUND, "SC-08", title)
        .pointless_on_docker("an engine starts containers itself and they inherit nothing of coracle")
        .through(&["/usr/bin/python3", "-c", with_ruleset])
        .without(&["Descriptors"])
        .run(|arena| {
            arena.sleeper(|process| {
                let open = fs::read_dir(format!("/proc/{}/fd", process.pid)).expect("it sleeps").flatten();
                let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
                let rulesets = links.filter(|link| link.to_string_lossy().contains("anon_inode"));
                rulesets.map(|link| format!("inherited {}", link.display())).collect()
            })
        });
}
