//! Programs on a container engine: the errors of refused system calls, and debuggers with `privileges: debug`.

use coracle_tests::engines::docker;
use coracle_tests::requires;

/// Has the programs of this machine in a sandbox whose image has none of them.
const OF_THE_MACHINE: [&str; 6] =
    ["-v", "/usr:/usr:ro", "-v", "/usr/lib:/lib:ro", "-v", "/usr/lib64:/lib64:ro"];

#[test]
#[cfg(target_arch = "x86_64")]
fn a_refusal_names_its_reason_as_the_kernel_would_on_docker() {
    requires!(docker);
    let home = docker().home();
    let calls = include_str!("../programs/payloads/make_calls.py");

    for privileges in ["minimal", "install"] {
        let run = [&["run", "--privileges", privileges][..], &OF_THE_MACHINE].concat();
        let ran = home.call([&run[..], &["--", "python3", "-c", calls]].concat()).succeed();

        assert_eq!(ran.text(), include_str!("../programs/payloads/made_calls"), "{privileges}");
    }
}

#[test]
fn strace_gdb_and_a_leak_sanitizer_run_on_docker() {
    requires!(docker);
    requires!(programs);
    let home = docker().home();
    let sandbox = home.open_with(&[&["--privileges", "debug"][..], &OF_THE_MACHINE].concat());
    let leaking = include_str!("../programs/payloads/leaking.c");
    home.call(["fs", "write", &sandbox, "leaking.c"]).stdin(leaking).succeed();
    home.exec(&sandbox, ["gcc", "-g", "-O0", "-o", "leaking", "leaking.c"]).succeed();
    home.exec(&sandbox, ["gcc", "-g", "-fsanitize=leak", "-o", "checked", "leaking.c"]).succeed();

    let traced = home.exec(&sandbox, ["strace", "-f", "-e", "trace=execve", "sh", "-c", "./leaking; true"]);
    let stops = ["gdb", "-batch", "-ex", "break answer", "-ex", "run", "-ex", "print n", "-ex", "continue"];
    let debugged = home.exec(&sandbox, [&stops[..], &["./leaking"]].concat());
    let checked = home.exec(&sandbox, ["./checked"]);
    let attached = "sleep 60 & gdb -batch -p $! -ex backtrace; kill $!";
    let attached = home.exec(&sandbox, ["sh", "-c", attached]);

    let traced = traced.succeed();
    assert!(traced.stderr.contains("execve(\"./leaking\""), "{traced}");
    let debugged = debugged.succeed();
    assert!(
        ["$1 = 6", "42", "exited normally"].iter().all(|word| debugged.text().contains(word)),
        "{debugged}"
    );
    let checked = checked.run();
    assert!(checked.stderr.contains("LeakSanitizer: 32 byte(s) leaked"), "{checked}");
    let attached = attached.succeed();
    assert!(attached.text().contains("nanosleep"), "{attached}");
}

#[test]
fn nothing_is_traced_on_docker_unless_that_was_asked_for() {
    requires!(docker);
    requires!(programs);
    let home = docker().home();

    for privileges in ["minimal", "install"] {
        let run = [&["run", "--privileges", privileges][..], &OF_THE_MACHINE].concat();
        let traced = home.call([&run[..], &["--", "strace", "true"]].concat()).run();

        assert!(traced.code() != Some(0) && traced.stderr.contains("Operation not permitted"), "{traced}");
    }
}
