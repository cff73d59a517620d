//! Compiles the system call filters of commands, once, at build time.
//!
//! What is not listed is refused with EPERM. `clone3` is listed, because the forker needs it, and refused by a second
//! filter that each command adds last: its flags are behind a pointer no filter can follow, and with ENOSYS libraries
//! fall back to `clone`, whose flags can be checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use libc::c_long;

use crate::program::{Action, Alternative, Compare, Condition, Rules, compile};

pub fn build() {
    println!("cargo::rerun-if-changed=build");
    let refused = Action::Errno(libc::EPERM as u16);
    write("filter", &rules(), Action::Allow, refused);
    let marking = vec![equal(0, libc::CLONE_NEWUTS as u32)];
    let forkers = numbered([(libc::SYS_clone3, Vec::new()), (libc::SYS_unshare, vec![marking])]);
    write("last-filter", &forkers, Action::Errno(libc::ENOSYS as u16), Action::Allow);
    build_for_shared();
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
        ALLOWED.iter().chain(ARCHITECTURE).map(|number| (*number, Vec::new())).collect();
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
const ALLOWED: &[c_long] = &[
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_brk, libc::SYS_capget, libc::SYS_capset, libc::SYS_chdir,
    libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_clone3, libc::SYS_close,
    libc::SYS_close_range, libc::SYS_connect, libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2,
    libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_faccessat, libc::SYS_faccessat2,
    libc::SYS_fadvise64, libc::SYS_fallocate, libc::SYS_fchdir, libc::SYS_fchmod, libc::SYS_fchmodat, SYS_FCHMODAT2,
    libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_fcntl, libc::SYS_fdatasync, libc::SYS_fgetxattr, libc::SYS_flistxattr,
    libc::SYS_flock, libc::SYS_fremovexattr, libc::SYS_fsetxattr, libc::SYS_fstat, libc::SYS_fstatfs, libc::SYS_fsync,
    libc::SYS_ftruncate, libc::SYS_futex, libc::SYS_futex_waitv, libc::SYS_get_robust_list, libc::SYS_getcpu,
    libc::SYS_get_mempolicy, libc::SYS_getcwd, libc::SYS_getdents64, libc::SYS_getegid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getgroups,
    libc::SYS_getitimer, libc::SYS_getpeername, libc::SYS_getpgid, libc::SYS_getpid, libc::SYS_getppid,
    libc::SYS_getpriority, libc::SYS_getrandom, libc::SYS_getresgid, libc::SYS_getresuid, libc::SYS_getrlimit,
    libc::SYS_getrusage, libc::SYS_getsid, libc::SYS_getsockname, libc::SYS_getsockopt, libc::SYS_gettid,
    libc::SYS_gettimeofday, libc::SYS_getuid, libc::SYS_getxattr, libc::SYS_inotify_add_watch, libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch, 
    libc::SYS_ioprio_get, libc::SYS_ioprio_set, libc::SYS_kill, libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self, libc::SYS_lgetxattr, libc::SYS_linkat,
    libc::SYS_listen, libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_lremovexattr, libc::SYS_lseek,
    libc::SYS_lsetxattr, libc::SYS_madvise, libc::SYS_membarrier, libc::SYS_memfd_create, libc::SYS_mincore,
    libc::SYS_mkdirat, libc::SYS_mknodat, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_mlockall, libc::SYS_mmap,
    libc::SYS_mprotect, libc::SYS_mq_getsetattr, libc::SYS_mq_notify, libc::SYS_mq_open, libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend, libc::SYS_mq_unlink, libc::SYS_mremap, libc::SYS_msgctl, libc::SYS_msgget, libc::SYS_msgrcv,
    libc::SYS_msgsnd, libc::SYS_msync, libc::SYS_munlock, libc::SYS_munlockall, libc::SYS_munmap, libc::SYS_nanosleep,
    libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_openat2, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal,
    libc::SYS_pipe2, libc::SYS_pkey_alloc, libc::SYS_pkey_free, libc::SYS_pkey_mprotect, libc::SYS_ppoll, libc::SYS_prctl,
    libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_pselect6, libc::SYS_pwrite64,
    libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_read, libc::SYS_readahead, libc::SYS_readlinkat, libc::SYS_readv,
    libc::SYS_recvfrom, libc::SYS_recvmmsg, libc::SYS_recvmsg, libc::SYS_remap_file_pages, libc::SYS_removexattr,
    libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_restart_syscall, libc::SYS_rseq, libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait, libc::SYS_rt_tgsigqueueinfo, libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min, libc::SYS_sched_getaffinity, libc::SYS_sched_getattr, libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler, libc::SYS_sched_rr_get_interval, libc::SYS_sched_setaffinity, libc::SYS_sched_setattr,
    libc::SYS_sched_setparam, libc::SYS_sched_setscheduler, libc::SYS_sched_yield, libc::SYS_seccomp, libc::SYS_semctl,
    libc::SYS_semget, libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_sendfile, libc::SYS_sendmmsg, libc::SYS_sendmsg,
    libc::SYS_sendto, libc::SYS_set_robust_list, libc::SYS_set_tid_address, libc::SYS_setfsgid, libc::SYS_setfsuid,
    libc::SYS_setgid, libc::SYS_setgroups, libc::SYS_setitimer, libc::SYS_setpgid, libc::SYS_setpriority,
    libc::SYS_setregid, libc::SYS_setresgid, libc::SYS_setresuid, libc::SYS_setreuid, libc::SYS_setrlimit,
    libc::SYS_setsid, libc::SYS_setsockopt, libc::SYS_setuid, libc::SYS_setxattr, libc::SYS_shmat, libc::SYS_shmctl,
    libc::SYS_shmdt, libc::SYS_shmget, libc::SYS_shutdown, libc::SYS_sigaltstack, libc::SYS_signalfd4, libc::SYS_splice,
    libc::SYS_statfs, libc::SYS_statx, libc::SYS_symlinkat, libc::SYS_syncfs, libc::SYS_sync_file_range, libc::SYS_sysinfo,
    libc::SYS_tee, libc::SYS_tgkill, libc::SYS_timer_create, libc::SYS_timer_delete, libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime, libc::SYS_timer_settime, libc::SYS_timerfd_create, libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime, libc::SYS_times, libc::SYS_tkill, libc::SYS_truncate, libc::SYS_umask, libc::SYS_uname,
    libc::SYS_unlinkat, libc::SYS_utimensat, libc::SYS_vmsplice, libc::SYS_wait4, libc::SYS_waitid, libc::SYS_write,
    libc::SYS_writev,
];

/// libc does not have it yet everywhere.
const SYS_FCHMODAT2: c_long = 452;

/// Older spellings that only this architecture has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ARCHITECTURE: &[c_long] = &[
    libc::SYS_access, libc::SYS_alarm, libc::SYS_arch_prctl, libc::SYS_chmod, libc::SYS_chown, libc::SYS_creat,
    libc::SYS_dup2, libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_eventfd, libc::SYS_fork, libc::SYS_futimesat,
    libc::SYS_getdents, libc::SYS_getpgrp, libc::SYS_inotify_init, libc::SYS_lchown, libc::SYS_link, libc::SYS_lstat,
    libc::SYS_mkdir, libc::SYS_mknod, libc::SYS_open, libc::SYS_pause, libc::SYS_pipe, libc::SYS_poll,
    libc::SYS_readlink, libc::SYS_rename, libc::SYS_rmdir, libc::SYS_select, libc::SYS_signalfd, libc::SYS_stat,
    libc::SYS_symlink, libc::SYS_time, libc::SYS_unlink, libc::SYS_utime, libc::SYS_utimes, libc::SYS_vfork,
];

#[cfg(not(target_arch = "x86_64"))]
const ARCHITECTURE: &[c_long] = &[];
