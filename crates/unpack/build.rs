//! Compiles the seccomp filter the unpacker puts itself under: it allows the calls that write a tree, and no
//! others.

#![allow(clippy::print_stdout, reason = "that is how a build script speaks to cargo")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule, TargetArch,
};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the architecture");
    let arch: TargetArch = arch.as_str().try_into().expect("a known architecture");
    // An unpacker that makes any other call is under an attacker's control.
    let filter = SeccompFilter::new(rules(), SeccompAction::KillProcess, SeccompAction::Allow, arch)
        .expect("the rules are well formed");
    let program: BpfProgram = filter.try_into().expect("the filter compiles");
    let bytes: Vec<u8> = program
        .iter()
        .flat_map(|line| {
            let [code0, code1] = line.code.to_ne_bytes();
            let [k0, k1, k2, k3] = line.k.to_ne_bytes();
            [code0, code1, line.jt, line.jf, k0, k1, k2, k3]
        })
        .collect();
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(out.join("filter"), bytes).expect("the output directory is writable");
}

fn rules() -> BTreeMap<i64, Vec<SeccompRule>> {
    let mut rules: BTreeMap<_, _> = ALLOWED.iter().map(|number| (*number, Vec::new())).collect();
    let kind = |kind: u32| condition(2, Compare::MaskedEq(u64::from(libc::S_IFMT)), kind.into());
    let fifo = vec![kind(libc::S_IFIFO)];
    // Device 0/0: how an overlay marks a hidden name.
    let whiteout = vec![kind(libc::S_IFCHR), condition(3, Compare::Eq, 0)];
    rules.insert(libc::SYS_mknodat, vec![rule(fifo), rule(whiteout)]);
    for number in [libc::SYS_mmap, libc::SYS_mprotect] {
        let no_code = condition(2, Compare::MaskedEq(libc::PROT_EXEC as u64), 0);
        rules.insert(number, vec![rule(vec![no_code])]);
    }
    rules
}

fn rule(conditions: Vec<Condition>) -> SeccompRule {
    SeccompRule::new(conditions).expect("the conditions are well formed")
}

fn condition(argument: u8, compare: Compare, value: u64) -> Condition {
    Condition::new(argument, Length::Dword, compare, value).expect("the argument exists")
}

#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    libc::SYS_brk, libc::SYS_clock_gettime, libc::SYS_close, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_fchmod,
    libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_fcntl, libc::SYS_fsetxattr, libc::SYS_fstat, libc::SYS_futex,
    libc::SYS_getdents64, libc::SYS_getrandom, libc::SYS_linkat, libc::SYS_lseek, libc::SYS_madvise, libc::SYS_mkdirat,
    libc::SYS_mremap, libc::SYS_munmap, libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_openat2, libc::SYS_pread64,
    libc::SYS_read, libc::SYS_renameat2, libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn,
    libc::SYS_sendto, libc::SYS_sigaltstack, libc::SYS_statx, libc::SYS_symlinkat, libc::SYS_unlinkat,
    libc::SYS_utimensat, libc::SYS_write, libc::SYS_writev,
];
