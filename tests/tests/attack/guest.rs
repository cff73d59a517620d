//! Commands can neither see, signal, trace nor imitate the guest, nor read what it keeps.

use coracle_tests::{Home, requires};

/// Tries everything a process could do to PID 1 and prints what worked.
const AGAINST_THE_GUEST: &str = r#"
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for name in ('environ', 'mem', 'maps', 'auxv', 'stack', 'syscall', 'io', 'pagemap', 'personality'):
    try:
        if open('/proc/1/' + name, 'rb').read(16):
            print('read', name)
    except OSError:
        pass
for name in ('exe', 'cwd', 'root', 'fd', 'ns/net', 'ns/user', 'map_files', 'task/1/fd'):
    path = '/proc/1/' + name
    try:
        print('followed', name, os.readlink(path))
    except OSError:
        pass
    try:
        print('listed', name, os.listdir(path))
    except OSError:
        pass
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGUSR1, signal.SIGHUP):
    try:
        os.kill(1, number)
        print('signalled', number)
    except OSError:
        pass
if libc.ptrace(16, 1, 0, 0) == 0:
    print('traced')
pidfd = libc.syscall(434, 1, 0)
if pidfd >= 0 and libc.syscall(438, pidfd, 3, 0) >= 0:
    print('stole a descriptor')
if libc.syscall(310, 1, 0, 0, 0, 0, 0) > 0:
    print('read memory')
for name in ('oom_score_adj', 'timerslack_ns', 'clear_refs', 'uid_map', 'setgroups', 'comm', 'attr/current'):
    try:
        open('/proc/1/' + name, 'w').write('1')
        print('wrote', name)
    except OSError:
        pass
"#;

/// Looks for a way to speak to the guest and prints every one.
const IMITATING_THE_HOST: &str = r#"
import os, socket
for line in open('/proc/net/unix').read().splitlines()[1:]:
    fields = line.split()
    if len(fields) > 7:
        print('unix', fields[7])
for directory, _, names in os.walk('/'):
    if directory.startswith(('/proc', '/sys', '/usr')):
        continue
    for name in names:
        path = os.path.join(directory, name)
        try:
            if (os.lstat(path).st_mode & 0o170000) == 0o140000:
                print('socket', path)
        except OSError:
            pass
"#;

#[test]
fn the_guest_cannot_be_touched() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let guests = home.census().guests();

    let ran = home.exec(&sandbox, ["python3", "-c", AGAINST_THE_GUEST]).succeed();

    assert_eq!(ran.text(), "");
    home.exec(&sandbox, ["true"]).succeed();
    assert_eq!(home.census().guests(), guests, "the same guest is still there");
}

#[test]
fn no_way_leads_to_the_guest() {
    requires!(native);
    let home = Home::new();

    let ran = home.call(["run", "--", "python3", "-c", IMITATING_THE_HOST]).succeed();

    assert_eq!(ran.text(), "");
}

#[test]
fn the_output_of_another_exec_is_nowhere_to_be_found() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let word = "spooled-canary-5a1f";
    home.exec(&sandbox, ["printf", "spooled-canary-%s", "5a1f"]).succeed();
    let search =
        format!("grep -rlsF {word} / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr | head -n 1");

    let found = home.exec(&sandbox, ["sh", "-c", &search]).succeed();

    assert_eq!(found.text(), "");
}

#[test]
fn a_command_cannot_kill_its_neighbours_guest_side() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    // Everything it may signal is its own; the exec ends, the sandbox does not.
    let ran = home.exec(&sandbox, ["sh", "-c", "kill -KILL -1; sleep 5"]).run();

    assert!(ran.code().is_some(), "{ran}");
    assert_eq!(home.exec(&sandbox, ["echo", "alive"]).succeed().text(), "alive\n");
}
