//! Compiles the system call filters of commands, once, at build time.
//!
//! A call that is not listed gets ENOSYS, like on an older kernel, and programs fall back to another way. A call
//! refused on purpose gets EPERM, and a forbidden socket family the error of an unknown one. `clone3` is listed,
//! because the forker needs it; a second filter, which each command adds last, removes it: its flags are behind a
//! pointer no filter can follow, and with ENOSYS libraries fall back to `clone`, whose flags can be checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use libc::c_long;

use crate::calls::{ALLOWED, ARCHITECTURE, DEBUGGING, REFUSED, REFUSED_HERE, SYS_FCHMODAT2, calls};
use crate::program::{Action, Alternative, Compare, Condition, Rule, Rules, compile};

/// A program takes this for an older kernel.
const ABSENT: Action = Action::Errno(libc::ENOSYS as u16);
const REFUSE: Action = Action::Errno(libc::EPERM as u16);
/// A program takes this for a kernel without audit, Bluetooth and the like, and goes on; EPERM would end `useradd`.
const NO_FAMILY: Action = Action::Errno(libc::EAFNOSUPPORT as u16);

/// Whether commands may trace each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracing {
    Refused,
    Allowed,
}

pub fn build() {
    println!("cargo::rerun-if-changed=build");
    for (tracing, filter, profile) in [
        (Tracing::Refused, "filter", "profile.json"),
        (Tracing::Allowed, "debug-filter", "debug-profile.json"),
    ] {
        write(filter, &rules(tracing), ABSENT);
        write_bytes(profile, self::profile(tracing).as_bytes());
    }
    let forkers = numbered([
        (libc::SYS_clone3, always(ABSENT)),
        (libc::SYS_unshare, refused_if(vec![vec![equal(0, libc::CLONE_NEWUTS as u32)]])),
    ]);
    write("last-filter", &forkers, Action::Allow);
    build_for_shared();
    // The error of a used-up limit, which every program that watches files knows.
    let exhausted = || always(Action::Errno(libc::EMFILE as u16));
    let mut watches = numbered([(libc::SYS_inotify_init1, exhausted())]);
    #[cfg(target_arch = "x86_64")]
    watches.extend(numbered([(libc::SYS_inotify_init, exhausted())]));
    write("watches-filter", &watches, Action::Allow);
}

/// Returns what a container engine lets a whole container do, guest included, in the container engine's notation.
/// Commands are also under the filters above, which are narrower.
fn profile(tracing: Tracing) -> String {
    let restricted = calls![
        SYS_clone,
        SYS_ioctl,
        SYS_personality,
        SYS_prlimit64,
        SYS_setfsuid,
        SYS_setresuid,
        SYS_setreuid,
        SYS_setuid,
        SYS_socket,
        SYS_socketpair,
    ];
    let names: BTreeSet<&str> = ALLOWED
        .iter()
        .chain(ARCHITECTURE)
        .chain(restricted)
        .chain(if tracing == Tracing::Allowed { DEBUGGING } else { &[] })
        .map(|(_, name)| name.trim_start_matches("SYS_"))
        .chain(["fchmodat2"])
        .collect();
    let names: Vec<_> = names.into_iter().map(|name| format!("\"{name}\"")).collect();
    let architectures = match architecture() {
        0xc000_00b7 => r#""SCMP_ARCH_AARCH64""#,
        0xc000_00f3 => r#""SCMP_ARCH_RISCV64""#,
        // The kernel would kill a caller with x32 numbers if this did not name x32. In our filters its numbers are
        // unlisted.
        _ => r#""SCMP_ARCH_X86_64","SCMP_ARCH_X32""#,
    };
    format!(
        r#"{{"defaultAction":"SCMP_ACT_ERRNO","architectures":[{architectures}],"syscalls":[{{"names":[{}],"action":"SCMP_ACT_ALLOW"}}]}}"#,
        names.join(",")
    )
}

/// Compiles the filters added where commands work in a directory of the caller's: a set-user-id file there would
/// lend the caller's rights to every user of the machine.
fn build_for_shared() {
    write("modes-filter", &lending_modes(), Action::Allow);
    // Its mode is behind a pointer no filter can follow; with ENOSYS programs fall back to `openat`.
    write("openat2-filter", &numbered([(libc::SYS_openat2, always(ABSENT))]), Action::Allow);
}

/// Every call that can set the set-user-id or set-group-id bit of a file.
fn lending_modes() -> Rules {
    let masked =
        |argument: u8, bits: u32| Condition { argument, compare: Compare::Masked(bits), value: bits };
    let lends = |argument: u8| refused_if([0o4000, 0o2000].map(|bit| vec![masked(argument, bit)]).to_vec());
    // A mode counts only where a file is created.
    let makes = |flags: u8, mode: u8| {
        let making = [libc::O_CREAT as u32, 0o20_000_000];
        let pairs = making.into_iter().flat_map(|flag| [0o4000, 0o2000].map(|bit| (flag, bit)));
        refused_if(pairs.map(|(flag, bit)| vec![masked(flags, flag), masked(mode, bit)]).collect())
    };
    let mut rules = numbered([
        (libc::SYS_fchmod, lends(1)),
        (libc::SYS_fchmodat, lends(2)),
        (SYS_FCHMODAT2, lends(2)),
        (libc::SYS_mknodat, lends(2)),
        (libc::SYS_openat, makes(2, 3)),
    ]);
    #[cfg(target_arch = "x86_64")]
    rules.extend(numbered([
        (libc::SYS_chmod, lends(1)),
        (libc::SYS_creat, lends(1)),
        (libc::SYS_mknod, lends(1)),
        (libc::SYS_open, makes(1, 2)),
    ]));
    rules
}

fn write(name: &str, rules: &Rules, unlisted: Action) {
    let program = compile(rules, architecture(), unlisted);
    let bytes: Vec<u8> = program
        .iter()
        .flat_map(|instruction| {
            let mut bytes = instruction.code.to_ne_bytes().to_vec();
            bytes.extend([instruction.matched, instruction.otherwise]);
            bytes.extend(instruction.value.to_ne_bytes());
            bytes
        })
        .collect();
    write_bytes(name, &bytes);
}

fn write_bytes(name: &str, bytes: &[u8]) {
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(out.join(name), bytes).expect("the output directory is writable");
}

/// Returns the kernel's number of the architecture the sandboxes are for.
fn architecture() -> u32 {
    match std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the architecture").as_str() {
        "x86_64" => 0xc000_003e,
        "aarch64" => 0xc000_00b7,
        "riscv64" => 0xc000_00f3,
        other => panic!("there are no filters for {other} yet"),
    }
}

fn numbered(rules: impl IntoIterator<Item = (c_long, Rule)>) -> Rules {
    let number = |call: c_long| u32::try_from(call).expect("calls have small numbers");
    rules.into_iter().map(|(call, rule)| (number(call), rule)).collect()
}

fn always(action: Action) -> Rule {
    Rule { alternatives: Vec::new(), matched: action, otherwise: action }
}

fn refused_if(alternatives: Vec<Alternative>) -> Rule {
    Rule { alternatives, matched: REFUSE, otherwise: Action::Allow }
}

fn allowed_if(alternatives: Vec<Alternative>) -> Rule {
    Rule { alternatives, matched: Action::Allow, otherwise: REFUSE }
}

fn rules(tracing: Tracing) -> Rules {
    let allowed = ALLOWED.iter().chain(ARCHITECTURE).map(|(number, _)| (*number, always(Action::Allow)));
    let refused = REFUSED.iter().copied().flatten().chain(REFUSED_HERE);
    let refused = refused.map(|(number, _)| (*number, always(REFUSE)));
    let debugging = if tracing == Tracing::Allowed { Action::Allow } else { REFUSE };
    let debugging = DEBUGGING.iter().map(|(number, _)| (*number, always(debugging)));
    let mut rules: BTreeMap<c_long, Rule> = allowed.chain(refused).chain(debugging).collect();
    rules.insert(SYS_FCHMODAT2, always(Action::Allow));
    let unix = vec![vec![equal(0, libc::AF_UNIX as u32)]];
    rules.insert(libc::SYS_socket, Rule { otherwise: NO_FAMILY, ..allowed_if(sockets()) });
    rules.insert(libc::SYS_socketpair, Rule { otherwise: NO_FAMILY, ..allowed_if(unix) });
    for (number, arguments) in
        [(libc::SYS_setuid, 1), (libc::SYS_setfsuid, 1), (libc::SYS_setreuid, 2), (libc::SYS_setresuid, 3)]
    {
        let others = (0..arguments).map(|argument| differs(argument, GUEST_ID)).collect();
        rules.insert(number, allowed_if(vec![others]));
    }
    // Only its own limits: without root the guest has the same user, and a command could take away its descriptors.
    rules.insert(libc::SYS_prlimit64, allowed_if(vec![vec![equal(0, 0)]]));
    // Where there are no cgroups, the forker marks commands by it. A command has neither the capability nor, by the
    // last filter, the call.
    rules.insert(libc::SYS_unshare, allowed_if(vec![vec![equal(0, libc::CLONE_NEWUTS as u32)]]));
    rules.insert(libc::SYS_clone, allowed_if(vec![vec![no_namespaces()]]));
    rules.insert(
        libc::SYS_ioctl,
        allowed_if(vec![vec![differs(1, libc::TIOCSTI as u32), differs(1, TIOCLINUX)]]),
    );
    let personalities = personalities(tracing).into_iter().map(|flags| vec![equal(0, flags)]);
    rules.insert(libc::SYS_personality, allowed_if(personalities.collect()));
    numbered(rules)
}

/// The personalities a process may choose: its own, another release or another table of names, or only a query. A
/// debugger may also turn address randomisation off for what it debugs.
fn personalities(tracing: Tracing) -> Vec<u32> {
    const UNAME26: u32 = 0x2_0000;
    const LINUX32: u32 = 0x8;
    const ASK: u32 = 0xffff_ffff;
    let fixed_addresses = (tracing == Tracing::Allowed).then_some(libc::ADDR_NO_RANDOMIZE as u32);
    [0, LINUX32, UNAME26, UNAME26 | LINUX32, ASK].into_iter().chain(fixed_addresses).collect()
}

/// The guest's own user, which no command may become.
const GUEST_ID: u32 = 65_535;

/// Types text into another process's terminal, and controls the console: both reach outside.
const TIOCLINUX: u32 = 0x541C;

/// Unix and internet sockets, and of netlink only what lists interfaces.
fn sockets() -> Vec<Alternative> {
    // For other protocols of the internet families a kernel would load modules because a command asked for them.
    let protocols = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6];
    let mut rules = vec![vec![equal(0, libc::AF_UNIX as u32)]];
    for family in [libc::AF_INET, libc::AF_INET6] {
        let internet = |protocol: i32| vec![equal(0, family as u32), equal(2, protocol as u32)];
        rules.extend(protocols.map(internet));
    }
    rules.push(vec![equal(0, libc::AF_NETLINK as u32), equal(2, libc::NETLINK_ROUTE as u32)]);
    rules
}

fn no_namespaces() -> Condition {
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    Condition { argument: 0, compare: Compare::Masked(namespaces as u32), value: 0 }
}

fn equal(argument: u8, value: u32) -> Condition {
    Condition { argument, compare: Compare::Equal, value }
}

fn differs(argument: u8, value: u32) -> Condition {
    Condition { argument, compare: Compare::Differs, value }
}
