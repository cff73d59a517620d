//! CP: capabilities and who a command is.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use coracle_tests::attack::{Ground, machine};
use coracle_tests::{Arena, Attack, Breaches, Route};
use serde_json::json;

use crate::GROUND;

/// Returns a field of `/proc/<pid>/status`.
fn field(pid: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or("absent").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn cp_01_commands_have_no_capability() {
    let title = "look at the capability sets and `no_new_privs` of a command, from outside";
    Attack::starred(GROUND, "CP-01", title)
        .without(&["Capabilities", "NoNewPrivileges", "Seccomp", "Landlock"])
        .every(&["CapEff", "CapPrm", "CapBnd", "NoNewPrivs"])
        .run(|arena| {
            let expected = [
                ("CapInh:", NONE),
                ("CapPrm:", NONE),
                ("CapEff:", NONE),
                ("CapBnd:", NONE),
                ("CapAmb:", NONE),
            ];
            let expected = expected.into_iter().chain([("NoNewPrivs:", "1")]);
            arena.sleeper(|process| {
                let wrong = expected.filter(|(name, value)| field(process.pid, name) != *value);
                wrong.map(|(name, _)| format!("{name} {}", field(process.pid, name))).collect()
            })
        });
}

const NONE: &str = "0000000000000000";

#[test]
fn cp_02_a_set_user_id_program_gives_nothing() {
    let title = "run a set-user-id program of root's as another user of the sandbox";
    Attack::row(GROUND, "CP-02", title)
        .by(&[Route::Exec, Route::Transfer, Route::Terminal])
        .without(&["NoNewPrivileges", "Seccomp", "Landlock", "Attributes"])
        .run(|arena| {
            arena.call(&["sh", "-c", "cp /usr/bin/sleep lent; chmod 4755 lent"]).succeed();
            arena.watch_with(&["--user", "agent"], &["/workspace/lent"], |process| {
                let uids = field(process.pid, "Uid:");
                let mut ids = uids.split(' ');
                let (real, effective) = (ids.next(), ids.next());
                (real != effective).then(|| format!("became another user: {uids}")).into_iter().collect()
            })
        });
}

#[test]
fn cp_03_nothing_that_takes_a_capability_is_allowed() {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let _machine = machine();
    let title = "raw and packet sockets, devices, the kernel's log, the clock, I/O ports, reboot";
    let walls = &["UserNamespace", "Capabilities", "Seccomp", "NoNewPrivileges", "Landlock", "Attributes"];
    // An engine's own group of devices holds without any wall of ours.
    let shown: &[&str] = match GROUND {
        Ground::Native => &["raw socket", "packet socket", "device", "log", "clock", "name", "gave"],
        Ground::Docker => &["raw socket", "packet socket", "log", "clock", "name", "gave"],
    };
    Attack::starred(GROUND, "CP-03", title).without(walls).every(shown).run(|arena| {
        let marker =
            format!("coracle-canary-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        fs::write("/dev/kmsg", format!("{marker}\n")).expect("root may write to the kernel's log");
        arena.confess(include_str!("payloads/use_capabilities.py"), &[&marker])
    });
}

#[test]
fn cp_05_the_callers_groups_stay_outside() {
    let title = "find the groups of the user who started coracle among one's own";
    let foreign = |pid: u32| -> Breaches {
        let groups = field(pid, "Groups:");
        let inherited = groups.split(' ').filter(|group| *group == "4242");
        inherited.map(|group| format!("is in the caller's group {group}")).collect()
    };
    let with_group = ["setpriv", "--groups", "4242"];
    let attempt = |arena: &Arena<'_>| arena.sleeper(|process| foreign(process.pid));
    let naive = || {
        let mut child = Command::new(with_group[0])
            .args(&with_group[1..])
            .args(["sleep", "60"])
            .spawn()
            .expect("setpriv");
        let seen =
            coracle_tests::eventually(std::time::Duration::from_secs(5), || !foreign(child.id()).is_empty());
        let _ = child.kill();
        let _ = child.wait();
        seen.map(|_| "an ordinary child has the caller's groups".to_owned()).into_iter().collect()
    };
    Attack::row(GROUND, "CP-05", title)
        .pointless_on_docker("an engine starts containers itself and they inherit nothing of coracle")
        .through(&with_group)
        .run_beside(attempt, naive);
}

#[test]
fn cp_06_more_rights_cannot_be_asked_for() {
    let title = "ask for `privileged`, `cap_add`, devices, the machine's namespaces or network";
    let wishes = [
        json!({"privileged": true}),
        json!({"cap_add": ["SYS_ADMIN"]}),
        json!({"capabilities": ["SYS_ADMIN"]}),
        json!({"privileges": "all"}),
        json!({"devices": ["/dev/kvm"]}),
        json!({"pid": "host"}),
        json!({"network": "host"}),
        json!({"userns": "host"}),
        json!({"security_opt": ["seccomp=unconfined"]}),
    ];
    let attempt = |arena: &Arena<'_>| -> Breaches {
        let granted =
            wishes.iter().filter(|wish| arena.home.operation("sandbox_open", wish).run().code() == Some(0));
        granted.map(|wish| format!("was granted {wish}")).collect()
    };
    // The same way of asking, for something that is there to be asked for.
    let granted = || {
        let home = GROUND.home();
        let opened = home.operation("sandbox_open", &json!({"privileges": "install"})).run();
        (opened.code() == Some(0)).then(|| "was granted what there is".to_owned()).into_iter().collect()
    };
    Attack::row(GROUND, "CP-06", title).by(&[Route::Create]).run_beside(attempt, granted);
}
