//! Compiles the system call filters of commands, once, at build time.
//!
//! What is not listed is refused with EPERM. `clone3` is listed, because the forker needs it, and refused by a second
//! filter that each command adds last: its flags are behind a pointer no filter can follow, and with ENOSYS libraries
//! fall back to `clone`, whose flags can be checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use libc::c_long;

use crate::program::{Action, Alternative, Compare, Condition, Rules, compile};

/// A system call: its number, and its name as libc has it.
type Call = (c_long, &'static str);

macro_rules! calls {
    ($($name:ident),* $(,)?) => { &[$((libc::$name, stringify!($name))),*] };
}

pub fn build() {
    println!("cargo::rerun-if-changed=build");
    let refused = Action::Errno(libc::EPERM as u16);
    write("filter", &rules(), Action::Allow, refused);
    let marking = vec![equal(0, libc::CLONE_NEWUTS as u32)];
    let forkers = numbered([(libc::SYS_clone3, Vec::new()), (libc::SYS_unshare, vec![marking])]);
    write("last-filter", &forkers, Action::Errno(libc::ENOSYS as u16), Action::Allow);
    build_for_shared();
    // As where the limit is used up, which every program that watches files knows.
    let mut watches = numbered([(libc::SYS_inotify_init1, Vec::new())]);
    #[cfg(target_arch = "x86_64")]
    watches.extend(numbered([(libc::SYS_inotify_init, Vec::new())]));
    write("watches-filter", &watches, Action::Errno(libc::EMFILE as u16), Action::Allow);
    write_bytes("profile.json", profile().as_bytes());
}

/// Returns what an engine lets a whole container do, guest included, in the engine's own notation. Commands stand under the
/// filters above as well, which are narrower.
fn profile() -> String {
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
        .map(|(_, name)| name.trim_start_matches("SYS_"))
        .chain(["fchmodat2"])
        .collect();
    let names: Vec<_> = names.into_iter().map(|name| format!("\"{name}\"")).collect();
    let architecture = match architecture() {
        0xc000_00b7 => "SCMP_ARCH_AARCH64",
        0xc000_00f3 => "SCMP_ARCH_RISCV64",
        _ => "SCMP_ARCH_X86_64",
    };
    format!(
        r#"{{"defaultAction":"SCMP_ACT_ERRNO","architectures":["{architecture}"],"syscalls":[{{"names":[{}],"action":"SCMP_ACT_ALLOW"}}]}}"#,
        names.join(",")
    )
}

/// Compiles what is added where commands work in a directory of the caller's: a set-user-id file there would lend the
/// caller's rights to anybody on the machine.
fn build_for_shared() {
    write("modes-filter", &lending_modes(), Action::Errno(libc::EPERM as u16), Action::Allow);
    // Its mode is behind a pointer no filter can follow; with ENOSYS programs fall back to `openat`.
    let openat2 = numbered([(libc::SYS_openat2, Vec::new())]);
    write("openat2-filter", &openat2, Action::Errno(libc::ENOSYS as u16), Action::Allow);
}

/// Every call that gives a file the bits by which it lends its owner's or its group's rights.
fn lending_modes() -> Rules {
    let masked =
        |argument: u8, bits: u32| Condition { argument, compare: Compare::Masked(bits), value: bits };
    let lends = |argument: u8| [0o4000, 0o2000].map(|bit| vec![masked(argument, bit)]).to_vec();
    // A mode counts only where a file is made.
    let makes = |flags: u8, mode: u8| {
        let making = [libc::O_CREAT as u32, 0o20_000_000];
        let pairs = making.into_iter().flat_map(|flag| [0o4000, 0o2000].map(|bit| (flag, bit)));
        pairs.map(|(flag, bit)| vec![masked(flags, flag), masked(mode, bit)]).collect::<Vec<_>>()
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

fn write(name: &str, rules: &Rules, matched: Action, otherwise: Action) {
    let program = compile(rules, architecture(), matched, otherwise);
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

fn numbered(rules: impl IntoIterator<Item = (c_long, Vec<Alternative>)>) -> Rules {
    let number = |call: c_long| u32::try_from(call).expect("calls have small numbers");
    rules.into_iter().map(|(call, alternatives)| (number(call), alternatives)).collect()
}

fn rules() -> Rules {
    let mut rules: BTreeMap<c_long, Vec<Alternative>> =
        ALLOWED.iter().chain(ARCHITECTURE).map(|(number, _)| (*number, Vec::new())).collect();
    rules.insert(SYS_FCHMODAT2, Vec::new());
    rules.insert(libc::SYS_socket, sockets());
    rules.insert(libc::SYS_socketpair, vec![vec![equal(0, libc::AF_UNIX as u32)]]);
    for (number, arguments) in
        [(libc::SYS_setuid, 1), (libc::SYS_setfsuid, 1), (libc::SYS_setreuid, 2), (libc::SYS_setresuid, 3)]
    {
        rules.insert(number, vec![(0..arguments).map(|argument| differs(argument, GUEST_ID)).collect()]);
    }
    // Another's limits: without root the guest has the same user, and would lose its descriptors to it.
    rules.insert(libc::SYS_prlimit64, vec![vec![equal(0, 0)]]);
    // The forker marks commands by it where there are no cgroups; a command has neither the right nor, by the last
    // filter, the call.
    rules.insert(libc::SYS_unshare, vec![vec![equal(0, libc::CLONE_NEWUTS as u32)]]);
    rules.insert(libc::SYS_clone, vec![vec![no_namespaces()]]);
    rules.insert(libc::SYS_ioctl, vec![vec![differs(1, libc::TIOCSTI as u32), differs(1, TIOCLINUX)]]);
    rules.insert(
        libc::SYS_personality,
        [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff].map(|flags| vec![equal(0, flags)]).into(),
    );
    numbered(rules)
}

/// The guest's own user, which no command may become.
const GUEST_ID: u32 = 65_535;

/// Types text at another's terminal, and controls the console: both reach outside.
const TIOCLINUX: u32 = 0x541C;

/// Unix and internet sockets, and of netlink only what lists interfaces.
fn sockets() -> Vec<Alternative> {
    // Other protocols of the internet families are modules a kernel would load because a command asked for them.
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

/// What ordinary programs use: files, memory, processes, signals, time, sockets, and nothing that administers.
#[rustfmt::skip]
const ALLOWED: &[Call] = calls![
    SYS_accept, SYS_accept4, SYS_bind, SYS_brk, SYS_capget, SYS_capset, SYS_chdir,
    SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep, SYS_clone3, SYS_close,
    SYS_close_range, SYS_connect, SYS_copy_file_range, SYS_dup, SYS_dup3,
    SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd2,
    SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_faccessat, SYS_faccessat2,
    SYS_fadvise64, SYS_fallocate, SYS_fchdir, SYS_fchmod, SYS_fchmodat,
    SYS_fchown, SYS_fchownat, SYS_fcntl, SYS_fdatasync, SYS_fgetxattr, SYS_flistxattr,
    SYS_flock, SYS_fremovexattr, SYS_fsetxattr, SYS_fstat, SYS_fstatfs, SYS_fsync,
    SYS_ftruncate, SYS_futex, SYS_futex_waitv, SYS_get_robust_list, SYS_getcpu,
    SYS_get_mempolicy, SYS_getcwd, SYS_getdents64, SYS_getegid, SYS_geteuid, SYS_getgid, SYS_getgroups,
    SYS_getitimer, SYS_getpeername, SYS_getpgid, SYS_getpid, SYS_getppid,
    SYS_getpriority, SYS_getrandom, SYS_getresgid, SYS_getresuid, SYS_getrlimit,
    SYS_getrusage, SYS_getsid, SYS_getsockname, SYS_getsockopt, SYS_gettid,
    SYS_gettimeofday, SYS_getuid, SYS_getxattr, SYS_inotify_add_watch, SYS_inotify_init1,
    SYS_inotify_rm_watch, 
    SYS_ioprio_get, SYS_ioprio_set, SYS_kill, SYS_landlock_add_rule,
    SYS_landlock_create_ruleset, SYS_landlock_restrict_self, SYS_lgetxattr, SYS_linkat,
    SYS_listen, SYS_listxattr, SYS_llistxattr, SYS_lremovexattr, SYS_lseek,
    SYS_lsetxattr, SYS_madvise, SYS_membarrier, SYS_memfd_create, SYS_mincore,
    SYS_mkdirat, SYS_mknodat, SYS_mlock, SYS_mlock2, SYS_mlockall, SYS_mmap,
    SYS_mprotect, SYS_mq_getsetattr, SYS_mq_notify, SYS_mq_open, SYS_mq_timedreceive,
    SYS_mq_timedsend, SYS_mq_unlink, SYS_mremap, SYS_msgctl, SYS_msgget, SYS_msgrcv,
    SYS_msgsnd, SYS_msync, SYS_munlock, SYS_munlockall, SYS_munmap, SYS_nanosleep,
    SYS_newfstatat, SYS_openat, SYS_openat2, SYS_pidfd_open, SYS_pidfd_send_signal,
    SYS_pipe2, SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect, SYS_ppoll, SYS_prctl,
    SYS_pread64, SYS_preadv, SYS_preadv2, SYS_pselect6, SYS_pwrite64,
    SYS_pwritev, SYS_pwritev2, SYS_read, SYS_readahead, SYS_readlinkat, SYS_readv,
    SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg, SYS_remap_file_pages, SYS_removexattr,
    SYS_renameat, SYS_renameat2, SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction,
    SYS_rt_sigpending, SYS_rt_sigprocmask, SYS_rt_sigqueueinfo, SYS_rt_sigreturn,
    SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_tgsigqueueinfo, SYS_sched_get_priority_max,
    SYS_sched_get_priority_min, SYS_sched_getaffinity, SYS_sched_getattr, SYS_sched_getparam,
    SYS_sched_getscheduler, SYS_sched_rr_get_interval, SYS_sched_setaffinity, SYS_sched_setattr,
    SYS_sched_setparam, SYS_sched_setscheduler, SYS_sched_yield, SYS_seccomp, SYS_semctl,
    SYS_semget, SYS_semop, SYS_semtimedop, SYS_sendfile, SYS_sendmmsg, SYS_sendmsg,
    SYS_sendto, SYS_set_robust_list, SYS_set_tid_address, SYS_setfsgid, SYS_setfsuid,
    SYS_setgid, SYS_setgroups, SYS_setitimer, SYS_setpgid, SYS_setpriority,
    SYS_setregid, SYS_setresgid, SYS_setresuid, SYS_setreuid, SYS_setrlimit,
    SYS_setsid, SYS_setsockopt, SYS_setuid, SYS_setxattr, SYS_shmat, SYS_shmctl,
    SYS_shmdt, SYS_shmget, SYS_shutdown, SYS_sigaltstack, SYS_signalfd4, SYS_splice,
    SYS_statfs, SYS_statx, SYS_symlinkat, SYS_syncfs, SYS_sync_file_range, SYS_sysinfo,
    SYS_tee, SYS_tgkill, SYS_timer_create, SYS_timer_delete, SYS_timer_getoverrun,
    SYS_timer_gettime, SYS_timer_settime, SYS_timerfd_create, SYS_timerfd_gettime,
    SYS_timerfd_settime, SYS_times, SYS_tkill, SYS_truncate, SYS_umask, SYS_uname,
    SYS_unlinkat, SYS_utimensat, SYS_vmsplice, SYS_wait4, SYS_waitid, SYS_write,
    SYS_writev,
];

/// libc does not have it yet everywhere.
const SYS_FCHMODAT2: c_long = 452;

/// Older spellings that only this architecture has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ARCHITECTURE: &[Call] = calls![
    SYS_access, SYS_alarm, SYS_arch_prctl, SYS_chmod, SYS_chown, SYS_creat,
    SYS_dup2, SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_fork, SYS_futimesat,
    SYS_getdents, SYS_getpgrp, SYS_inotify_init, SYS_lchown, SYS_link, SYS_lstat,
    SYS_mkdir, SYS_mknod, SYS_open, SYS_pause, SYS_pipe, SYS_poll,
    SYS_readlink, SYS_rename, SYS_rmdir, SYS_select, SYS_signalfd, SYS_stat,
    SYS_symlink, SYS_time, SYS_unlink, SYS_utime, SYS_utimes, SYS_vfork,
];

#[cfg(not(target_arch = "x86_64"))]
const ARCHITECTURE: &[Call] = &[];
