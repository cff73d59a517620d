//! Commands can neither find nor imitate the guest, nor read what it keeps. That they cannot touch it is PS-09 and RS-15.

use coracle_tests::needs;

use crate::GROUND;

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
fn no_way_leads_to_the_guest() {
    if !needs::met(GROUND.name()) {
        return;
    }
    let home = GROUND.home();

    let ran = home.call(["run", "--", "python3", "-c", IMITATING_THE_HOST]).succeed();

    // A container's list of sockets tells the name the guest's was made by; nothing has that name any more.
    let found = ran.text().replace("unix /.coracle/run/guest\n", "");
    assert_eq!(found, "");
}

#[test]
fn the_output_of_another_exec_is_nowhere_to_be_found() {
    if !needs::met(GROUND.name()) {
        return;
    }
    let home = GROUND.home();
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
    if !needs::met(GROUND.name()) {
        return;
    }
    let home = GROUND.home();
    let sandbox = home.open();

    // Everything it may signal is its own; the exec ends, the sandbox does not.
    let ran = home.exec(&sandbox, ["sh", "-c", "kill -KILL -1; sleep 5"]).run();

    assert!(ran.code().is_some(), "{ran}");
    assert_eq!(home.exec(&sandbox, ["echo", "alive"]).succeed().text(), "alive\n");
}
