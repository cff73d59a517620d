//! A container engine on another machine, through ssh: one connection, and its failures.

use std::time::Duration;

use coracle_tests::census::Process;
use coracle_tests::engines::sshd::Sshd;
use coracle_tests::engines::{TEST_IMAGE, docker};
use coracle_tests::{Home, SOON, eventually, requires};

/// A home that reaches Docker through an sshd of its own.
struct Far {
    home: Home,
    sshd: Sshd,
    backend: String,
}

impl Far {
    fn new() -> Self {
        let sshd = Sshd::new();
        let home = Home::new();
        let runtime = home.path().display().to_string();
        let home = home.env("CORACLE_SSH", sshd.variable()).env("XDG_RUNTIME_DIR", runtime);
        Self { home, backend: sshd.address(&docker().socket()), sshd }
    }

    fn flags(&self) -> [&str; 4] {
        ["--image", TEST_IMAGE, "--backend", &self.backend]
    }

    fn run(&self, command: &[&str]) -> String {
        let arguments =
            ["run"].iter().chain(&self.flags()).chain(&["--"]).chain(command).copied().collect::<Vec<_>>();
        self.home.call(arguments).succeed().text().to_owned()
    }

    /// Returns the connections there are.
    fn masters(&self) -> Vec<Process> {
        let processes = self.home.census().processes;
        processes.into_iter().filter(|process| process.command.contains("ControlPersist")).collect()
    }
}

/// A connection outlives calls by design. Without the other machine it ends, and the home finds nothing left.
impl Drop for Far {
    fn drop(&mut self) {
        self.sshd.stop();
    }
}

#[test]
fn commands_run_on_another_machine_over_one_connection() {
    requires!(ssh);
    let far = Far::new();

    let first = far.run(&["echo", "hello"]);
    let second = far.run(&["sh", "-c", "cat /proc/1/comm; exit 0"]);

    assert_eq!((first.as_str(), second.as_str()), ("hello\n", "guest\n"));
    assert_eq!(far.sshd.logins(), 1);
}

#[test]
fn processes_that_come_at_the_same_time_share_the_connection() {
    requires!(ssh);
    let far = Far::new();
    far.run(&["true"]);
    far.masters().iter().for_each(Process::kill);
    let call = || far.home.call(["run"].iter().chain(&far.flags()).chain(&["--", "echo", "hello"]));

    let calls: Vec<_> = (0..3).map(|_| call().start()).collect();
    let finished: Vec<_> = calls.into_iter().map(|call| call.finish().expect_code(0)).collect();

    assert!(finished.iter().all(|call| call.text() == "hello\n"));
    assert_eq!(far.sshd.logins(), 2);
}

#[test]
fn a_sandbox_outlives_the_connection_it_was_made_through() {
    requires!(ssh);
    let far = Far::new();
    let sandbox = far.home.open_with(&far.flags());
    let started = far.home.call([
        "exec",
        &sandbox,
        "--detach",
        "--id",
        "exec_a",
        "--",
        "sh",
        "-c",
        "echo begun; sleep 2; echo done",
    ]);
    started.succeed();

    far.masters().iter().for_each(Process::kill);
    assert!(eventually(SOON, || far.masters().is_empty()).is_some());
    let output = far.home.call(["logs", &sandbox, "exec_a", "--follow"]).succeed();

    assert_eq!(output.text(), "begun\ndone\n");
    assert_eq!(far.sshd.logins(), 2);
    far.home.call(["close", &sandbox]).succeed();
}

#[test]
fn a_machine_that_goes_away_is_not_available_and_its_sandboxes_are_there_when_it_is_back() {
    requires!(ssh);
    let mut far = Far::new();
    let sandbox = far.home.open_with(&far.flags());

    far.sshd.stop();
    let away = far.home.call(["exec", "--json", &sandbox, "--", "true"]).run().error_kind();
    far.sshd.start();
    let back = far.home.exec(&sandbox, ["echo", "here"]).succeed();

    assert_eq!((away.as_str(), back.text()), ("not_available", "here\n"));
    far.home.call(["close", &sandbox]).succeed();
}

#[test]
fn dockers_own_variable_may_lead_to_another_machine() {
    requires!(ssh);
    let far = Far::new();
    let call = far.home.call(["run", "--backend", "docker", "--image", TEST_IMAGE, "--", "echo", "hello"]);

    let output = call.env("DOCKER_HOST", &far.backend).succeed();

    assert_eq!((output.text(), far.sshd.logins()), ("hello\n", 1));
}

/// How long an engine on a busy machine may take for what it has begun.
const SETTLING: Duration = Duration::from_secs(90);

/// Nothing of it has a moment that could be named: ssh is another program. So it is killed at many.
#[test]
fn whenever_a_call_is_killed_nothing_is_left_there_or_here() {
    requires!(ssh);
    let far = Far::new();
    far.run(&["true"]);
    let instance = far.home.instance().expect("a home that was used has one").to_owned();

    for delay in [10, 50, 100, 200, 400, 700] {
        // What was killed with its sandbox ready is over when that was idle for long enough.
        let flags = ["run", "--ttl", "3s"].into_iter().chain(far.flags());
        let call = far.home.call(flags.chain(["--", "sleep", "3"])).start();
        // The moment is what is tried out here.
        std::thread::sleep(Duration::from_millis(delay));
        call.kill();
    }
    // The engine may still be carrying out a request of a client that is dead by now.
    let labelled = || docker().containers(&format!("coracle.instance={instance}"));
    eventually(SETTLING, || {
        far.home.call(["gc"]).succeed();
        labelled().is_empty()
    });

    assert_eq!(labelled(), Vec::<String>::new());
    far.home.expect_no_orphans();
}
