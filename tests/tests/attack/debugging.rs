//! DG: what commands that may trace each other make of it: nothing of the guest, and nothing of other sandboxes.

use std::time::Duration;

use coracle_tests::{Attack, Route, SOON, eventually, needs};

use crate::GROUND;

const DEBUG: [&str; 2] = ["--privileges", "debug"];

/// Traces the process with a number, or finds it by a word of its command line, and prints what it could do.
const TRACE: &str = r#"
import ctypes, errno, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
SEIZE, EXITING = 0x4206, 0x40
def victim(word):
    if word.isdigit():
        return int(word)
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if int(pid) != os.getpid() and word.encode() in open(f'/proc/{pid}/cmdline', 'rb').read():
                return int(pid)
        except OSError:
            pass
    sys.exit('no process is called ' + word)
pid = victim(sys.argv[1])
if libc.ptrace(SEIZE, pid, 0, EXITING) == 0:
    print('traced', flush=True)
    if 'hold' in sys.argv:
        time.sleep(600)
else:
    print('refused' if 'tell' in sys.argv else '', errno.errorcode[ctypes.get_errno()] if 'tell' in sys.argv else '', flush=True)
"#;

#[test]
fn dg_01_the_guest_cannot_be_debugged() {
    let title = "trace, read and write the guest and its forker with `privileges: debug`";
    Attack::starred(GROUND, "DG-01", title)
        .with(&DEBUG)
        .without(&["Capabilities", "Seccomp", "NoNewPrivileges", "Landlock"])
        .every(&["traced", "reached its memory", "read maps"])
        .run(|arena| arena.confess(include_str!("payloads/touch_guest.py"), &[]));
}

#[test]
fn dg_02_another_sandbox_cannot_be_debugged() {
    let title = "trace a command of another sandbox by its number, with `privileges: debug`";
    let walls = &[
        "PidNamespace",
        "UserNamespace",
        "Capabilities",
        "Seccomp",
        "NoNewPrivileges",
        "Landlock",
        "Hidepid",
    ];
    Attack::starred(GROUND, "DG-02", title)
        .pointless_on_docker(
            "the engine gives every container processes of its own, whatever a filter allows",
        )
        .by(&[Route::Create, Route::Exec])
        .with(&DEBUG)
        .without(walls)
        .run(|arena| {
            let neighbour = arena.home.open_with(&DEBUG);
            let word = "7654321";
            arena.home.call(["exec", &neighbour, "--detach", "--", "sleep", word]).succeed();
            let process = arena.appearance(word).expect("the neighbour sleeps");
            let ran = arena.python(TRACE, &[&process.pid.to_string()]);
            ran.text().contains("traced").then(|| "traced a neighbour".to_owned()).into_iter().collect()
        });
}

#[test]
fn commands_trace_each_other_only_where_that_was_allowed() {
    if !needs::met(GROUND.name()) {
        return;
    }
    let home = GROUND.home();
    for (privileges, told) in
        [("debug", "traced\n"), ("minimal", "refused EPERM\n"), ("install", "refused EPERM\n")]
    {
        let sandbox = home.open_with(&["--privileges", privileges]);
        home.call(["exec", &sandbox, "--detach", "--", "sleep", "600"]).succeed();

        let ran = home.exec(&sandbox, ["python3", "-c", TRACE, "sleep", "tell"]).succeed();

        assert_eq!(ran.text(), told, "{privileges}");
    }
}

#[test]
fn a_command_that_a_debugger_holds_can_be_stopped() {
    if !needs::met(GROUND.name()) {
        return;
    }
    let home = GROUND.home();
    let sandbox = home.open_with(&DEBUG);
    let detach = |id: &str, words: &[&str]| {
        home.call([&["exec", &sandbox, "--detach", "--id", id, "--"], words].concat()).succeed();
    };
    detach("held", &["sleep", "600"]);
    detach("holder", &["python3", "-c", TRACE, "sleep", "hold"]);
    let traced = || home.call(["logs", &sandbox, "holder"]).succeed().text() == "traced\n";
    assert!(eventually(SOON, traced).is_some());

    // The holder never waits for what it traces, so the guest never learns of its death.
    home.call(["stop", &sandbox, "held", "--grace", "0"]).within(Duration::from_secs(20)).succeed();

    home.call(["wait", &sandbox, "held"]).within(Duration::from_secs(20)).run().expect_code(143);
    assert!(!home.call(["logs", &sandbox, "holder"]).succeed().text().is_empty());
}
