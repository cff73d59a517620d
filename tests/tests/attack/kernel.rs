//! What a command may ask of the kernel.

use coracle_tests::{Home, requires};

/// Calls a system call by number and prints its name where it was not refused.
const PROBE: &str = r#"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
numbers = {'bpf': 321, 'perf_event_open': 298, 'userfaultfd': 323, 'io_uring_setup': 425, 'keyctl': 250, 'add_key': 248,
           'init_module': 175, 'finit_module': 313, 'kexec_load': 246, 'reboot': 169, 'swapon': 167, 'mount': 165,
           'umount2': 166, 'pivot_root': 155, 'chroot': 161, 'setns': 308, 'open_by_handle_at': 304, 'ptrace_attach': None,
           'fsopen': 430, 'open_tree': 428, 'move_mount': 429, 'mount_setattr': 442, 'quotactl': 179, 'syslog': 103,
           'acct': 163, 'settimeofday': 164, 'clock_settime': 227, 'sethostname': 170, 'iopl': 172, 'ioperm': 173,
           'process_vm_writev': 311, 'pidfd_getfd': 438, 'landlock_restrict_self': None, 'vhangup': 153}
refusals = {errno.EPERM, errno.ENOSYS, errno.EACCES}
for name, number in numbers.items():
    if number is None:
        continue
    ctypes.set_errno(0)
    if name in ('chroot',):
        result = libc.syscall(number, b'/tmp', 0, 0, 0, 0)
    elif name == 'unshare':
        result = libc.syscall(number, 0x10000000)
    elif name == 'process_vm_writev':
        result = libc.syscall(number, 1, 0, 0, 0, 0, 0)
        if result == 0 or ctypes.get_errno() == errno.ESRCH:
            continue
    else:
        result = libc.syscall(number, 0, 0, 0, 0, 0)
    if result != -1 or ctypes.get_errno() not in refusals:
        print(name, result, errno.errorcode.get(ctypes.get_errno()))
"#;

/// Asks for new namespaces in every way and prints those that were given.
const NAMESPACES: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
flags = {'user': 0x10000000, 'mount': 0x20000, 'pid': 0x20000000, 'net': 0x40000000, 'ipc': 0x08000000, 'uts': 0x04000000,
         'cgroup': 0x02000000, 'time': 0x80}
for name, flag in flags.items():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if libc.syscall(272, flag) == 0 else 1)
    if os.waitpid(pid, 0)[1] == 0:
        print('unshare', name)
    # In the oldest clone the time flag is part of the number of a signal.
    child = libc.syscall(56, flag | 17, 0, 0, 0, 0) if name != 'time' else -1
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
        print('clone', name)
"#;

/// Opens sockets of families a sandbox has no business with and prints those that opened.
const SOCKETS: &str = "
import socket
families = {'packet': 17, 'vsock': 40, 'alg': 38, 'bluetooth': 31, 'can': 29, 'tipc': 30, 'xdp': 44, 'smc': 43, 'rds': 21, 'key': 15}
for name, number in families.items():
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM, socket.SOCK_STREAM, 5):
        try:
            socket.socket(number, kind, 0)
            print(name, kind)
        except OSError:
            pass
";

#[test]
fn commands_have_no_capability_and_a_filter() {
    requires!(native);
    let home = Home::new();

    let status = home.call(["run", "--", "cat", "/proc/self/status"]).succeed();

    let field = |name: &str| {
        status.text().lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or("absent")
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1", "2"));
}

#[test]
fn dangerous_system_calls_are_refused() {
    requires!(native);
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let home = Home::new();

    for (what, probe) in [("system calls", PROBE), ("namespaces", NAMESPACES), ("sockets", SOCKETS)] {
        let ran = home.call(["run", "--", "python3", "-c", probe]).succeed();
        assert_eq!(ran.text(), "", "{what} that were not refused");
    }
}

#[test]
fn mounting_and_unsharing_are_refused_to_the_tools_too() {
    requires!(native);
    let home = Home::new();
    let attempts: &[&[&str]] = &[
        &["mount", "-t", "tmpfs", "none", "/mnt"],
        &["mount", "--bind", "/", "/mnt"],
        &["umount", "/proc"],
        &["unshare", "--user", "--map-root-user", "true"],
        &["unshare", "--mount", "true"],
        &["nsenter", "--target", "1", "--all", "true"],
        &["chroot", "/", "true"],
        &["mknod", "/tmp/disk", "b", "8", "0"],
        &["dmesg"],
    ];

    for attempt in attempts {
        let ran = home.call(["run", "--"].iter().chain(*attempt)).run();
        assert!(
            !matches!(ran.code(), Some(0 | 126 | 127) | None) && ran.stderr.contains(attempt[0]),
            "{ran}"
        );
    }
}

#[test]
fn the_kernels_files_are_masked_or_read_only() {
    requires!(native);
    let home = Home::new();
    let script = "
for f in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/vm/drop_caches /sys/kernel/uevent_helper /proc/sys/kernel/hostname; do
  (echo > $f) 2>/dev/null && echo written $f
done
for f in /proc/kcore /proc/kallsyms /proc/keys /proc/timer_list /proc/sched_debug /sys/firmware/acpi /proc/kmsg /proc/latency_stats; do
  test -n \"$(timeout 1 head -c 64 $f 2>/dev/null | tr -d '\\0 ')\" && ! head -c 16 $f | grep -q '^0*$' && echo read $f
done
find /sys/fs/cgroup -maxdepth 3 -writable 2>/dev/null
true";

    let ran = home.call(["run", "--", "sh", "-c", script]).succeed();

    let leaks: Vec<_> = ran.text().lines().filter(|line| *line != "read /proc/kallsyms").collect();
    assert!(leaks.is_empty(), "{leaks:?}");
    let addresses =
        home.call(["run", "--", "sh", "-c", "grep -vc '^0000000000000000' /proc/kallsyms || true"]).succeed();
    assert!(addresses.text().trim() == "0" || addresses.text().is_empty(), "kernel addresses can be read");
}

#[test]
fn set_user_id_programs_give_nothing() {
    requires!(native);
    let home = Home::new();
    let script = "cp /usr/bin/id /workspace/id; chmod 4755 /workspace/id; /workspace/id -u; cat /proc/self/mountinfo | grep -v nosuid | grep -c ' /workspace ' || true";

    let ran = home.call(["run", "--", "sh", "-c", script]).succeed();

    assert!(ran.text().ends_with("0\n"), "the workspace honours set-user-id: {ran}");
}
