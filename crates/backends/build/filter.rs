//! Compiles the system call filters of commands, once, at build time.
//!
//! What is not listed is refused with EPERM. `clone3` is listed, because the forker needs it, and refused by a second
//! filter that each command adds last: its flags are behind a pointer no filter can follow, and with ENOSYS libraries
//! fall back to `clone`, whose flags can be checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

pub fn build() {
    println!("cargo::rerun-if-changed=build");
    let arch: TargetArch = std::env::var("CARGO_CFG_TARGET_ARCH")
        .expect("cargo sets the architecture")
        .as_str()
        .try_into()
        .expect("a known architecture");
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    // A call by another architecture's table would be read with the wrong numbers; the compiled program kills for that.
    let commands =
        SeccompFilter::new(rules(), refused, SeccompAction::Allow, arch).expect("the rules are well formed");
    write("filter", commands);
    let marking = rule(vec![equal(0, libc::CLONE_NEWUTS as u64)]);
    let forkers = BTreeMap::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_unshare, vec![marking])]);
    let last =
        SeccompFilter::new(forkers, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32), arch)
            .expect("the rule is well formed");
    write("last-filter", last);
    build_for_shared(arch);
}

/// Compiles what is added where commands work in a directory of the caller's: a set-user-id file there would lend the
/// caller's rights to anybody on the machine.
fn build_for_shared(arch: TargetArch) {
    let refuse = |rules: Rules, errno: i32| {
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), arch)
            .expect("the rules are well formed")
    };
    write("modes-filter", refuse(lending_modes(), libc::EPERM));
    // Its mode is behind a pointer no filter can follow; with ENOSYS programs fall back to `openat`.
    write("openat2-filter", refuse(BTreeMap::from([(libc::SYS_openat2, Vec::new())]), libc::ENOSYS));
}

/// Every call that gives a file the bits by which it lends its owner's or its group's rights.
fn lending_modes() -> Rules {
    let masked = |argument: u8, bits: u64| condition(argument, Compare::MaskedEq(bits), bits);
    let lends = |argument: u8| [0o4000, 0o2000].map(|bit| rule(vec![masked(argument, bit)])).to_vec();
    // A mode counts only where a file is made.
    let makes = |flags: u8, mode: u8| {
        let making = [libc::O_CREAT as u64, 0o20_000_000];
        let pairs = making.into_iter().flat_map(|flag| [0o4000, 0o2000].map(|bit| (flag, bit)));
        pairs.map(|(flag, bit)| rule(vec![masked(flags, flag), masked(mode, bit)])).collect::<Vec<_>>()
    };
    let mut rules = BTreeMap::from([
        (libc::SYS_fchmod, lends(1)),
        (libc::SYS_fchmodat, lends(2)),
        (SYS_FCHMODAT2, lends(2)),
        (libc::SYS_mknodat, lends(2)),
        (libc::SYS_openat, makes(2, 3)),
    ]);
    #[cfg(target_arch = "x86_64")]
    rules.extend([
        (libc::SYS_chmod, lends(1)),
        (libc::SYS_creat, lends(1)),
        (libc::SYS_mknod, lends(1)),
        (libc::SYS_open, makes(1, 2)),
    ]);
    rules
}

fn write(name: &str, filter: SeccompFilter) {
    let program: BpfProgram = filter.try_into().expect("the filter compiles");
    let bytes: Vec<u8> = program.iter().flat_map(instruction).collect();
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(out.join(name), bytes).expect("the output directory is writable");
}

fn instruction(filter: &sock_filter) -> Vec<u8> {
    let mut bytes = filter.code.to_ne_bytes().to_vec();
    bytes.extend([filter.jt, filter.jf]);
    bytes.extend(filter.k.to_ne_bytes());
    bytes
}

fn rules() -> Rules {
    let mut rules: Rules = ALLOWED.iter().chain(ARCHITECTURE).map(|number| (*number, Vec::new())).collect();
    rules.insert(libc::SYS_socket, sockets());
    rules.insert(libc::SYS_socketpair, vec![rule(vec![equal(0, libc::AF_UNIX as u64)])]);
    for (number, arguments) in
        [(libc::SYS_setuid, 1), (libc::SYS_setfsuid, 1), (libc::SYS_setreuid, 2), (libc::SYS_setresuid, 3)]
    {
        rules
            .insert(number, vec![rule((0..arguments).map(|argument| differs(argument, GUEST_ID)).collect())]);
    }
    // The forker marks commands by it where there are no cgroups; a command has neither the right nor, by the last
    // filter, the call.
    // Another's limits: without root the guest has the same user, and would lose its descriptors to it.
    rules.insert(libc::SYS_prlimit64, vec![rule(vec![equal(0, 0)])]);
    rules.insert(libc::SYS_unshare, vec![rule(vec![equal(0, libc::CLONE_NEWUTS as u64)])]);
    rules.insert(libc::SYS_clone, vec![rule(vec![no_namespaces()])]);
    rules.insert(libc::SYS_ioctl, vec![rule(vec![differs(1, libc::TIOCSTI), differs(1, TIOCLINUX)])]);
    rules.insert(
        libc::SYS_personality,
        [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff].map(|flags| rule(vec![equal(0, flags)])).into(),
    );
    rules
}

/// The guest's own user, which no command may become.
const GUEST_ID: u64 = 65_535;

/// Types text at another's terminal, and controls the console: both reach outside.
const TIOCLINUX: u64 = 0x541C;

/// Unix and internet sockets, and of netlink only what lists interfaces.
fn sockets() -> Vec<SeccompRule> {
    // Other protocols of the internet families are modules a kernel would load because a command asked for them.
    let protocols = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6];
    let mut rules = vec![rule(vec![equal(0, libc::AF_UNIX as u64)])];
    for family in [libc::AF_INET, libc::AF_INET6] {
        let internet = |protocol: i32| rule(vec![equal(0, family as u64), equal(2, protocol as u64)]);
        rules.extend(protocols.map(internet));
    }
    rules.push(rule(vec![equal(0, libc::AF_NETLINK as u64), equal(2, libc::NETLINK_ROUTE as u64)]));
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
    condition(0, Compare::MaskedEq(namespaces as u64), 0)
}

fn rule(conditions: Vec<Condition>) -> SeccompRule {
    SeccompRule::new(conditions).expect("the conditions are well formed")
}

fn equal(argument: u8, value: u64) -> Condition {
    condition(argument, Compare::Eq, value)
}

fn differs(argument: u8, value: u64) -> Condition {
    condition(argument, Compare::Ne, value)
}

fn condition(argument: u8, compare: Compare, value: u64) -> Condition {
    Condition::new(argument, Length::Dword, compare, value).expect("the argument exists")
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
