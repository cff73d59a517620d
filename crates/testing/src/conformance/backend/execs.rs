//! Commands in a sandbox, and which callers may start them.

use coracle_wire::{Body, Command, Ending, FaultCode, LimitHit, Reply, Running, Stage};

use super::{EPOCH, Sandbox, Subject};
use crate::client::{command, write_file};

/// Longer than any test takes.
const LONG: [&str; 2] = ["sleep", "600"];

pub fn a_command_has_its_output_and_exit_code(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();

    let said = client.run("exec_1", &["echo", "one", "two"]);
    let codes = [&["true"][..], &["false"], &["sh", "-c", "exit 7"]]
        .iter()
        .enumerate()
        .map(|(index, argv)| client.run(&format!("exec_code_{index}"), argv).state.ending)
        .collect::<Vec<_>>();

    assert_eq!(said.stdout, b"one two\n");
    assert_eq!(said.state.stdout_bytes, 8);
    assert_eq!(codes, [0, 1, 7].map(|code| Some(Ending::Exited(code))));
}

pub fn both_streams_share_one_numbering_from_one(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);

    let ended = sandbox.client().run("exec_1", &["sh", "-c", "echo out; echo err >&2; exit 3"]);

    assert_eq!((ended.stdout.as_slice(), ended.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!((ended.state.stdout_bytes, ended.state.stderr_bytes), (4, 4));
    let numbers: Vec<_> = ended.chunks.iter().map(|chunk| chunk.seq).collect();
    assert_eq!(numbers, (1..=ended.state.last_seq).collect::<Vec<_>>());
    assert_eq!(ended.state.ending, Some(Ending::Exited(3)));
}

pub fn reading_goes_on_after_any_number(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    let ended = client.run("exec_1", &["echo", "once"]);

    let (again, _) = client.read("exec_1", 0, 0);
    let (none, state) = client.read("exec_1", ended.state.last_seq, 1000);

    assert_eq!(again, ended.chunks);
    assert_eq!(none, []);
    assert_eq!(state.ending, Some(Ending::Exited(0)));
}

pub fn starting_twice_finds_the_first(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();

    let first = client.start("exec_1", command(&["echo", "once"]));
    client.end("exec_1");
    let second = sandbox.client().start("exec_1", command(&["echo", "once"]));

    assert_eq!((first, second), (false, true));
    assert_eq!(client.end("exec_1").stdout, b"once\n");
}

pub fn another_command_under_the_same_id_is_a_conflict(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.run("exec_1", &["echo", "one"]);

    let fault = client.fault(Body::Start { exec: "exec_1".into(), command: command(&["echo", "two"]) });

    assert_eq!(fault.code, FaultCode::Conflict);
    assert_eq!(client.end("exec_1").stdout, b"one\n");
}

pub fn a_missing_program_is_not_started(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);

    let command = command(&["no-such-program-anywhere"]);
    let fault = sandbox.client().fault(Body::Start { exec: "exec_1".into(), command });

    assert_eq!(fault.code, FaultCode::NotStarted { stage: Stage::Execute });
    assert_eq!(fault.errno, Some(2));
}

pub fn an_unknown_exec_is_not_found(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    let exec = || "exec_nobody_started".to_owned();

    let faults = [
        client.fault(Body::Wait { exec: exec(), wait_ms: 0 }),
        client.fault(Body::Read { exec: exec(), since: 0, max_chunks: 1, wait_ms: 0 }),
        client.fault(Body::Stop { exec: exec(), grace_ms: None }),
        client.fault(Body::Input { exec: exec(), data: Vec::new(), eof: true }),
    ];

    assert!(faults.iter().all(|fault| fault.code == FaultCode::NotFound), "{faults:?}");
}

pub fn variables_reach_the_command(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    let env = vec![(b"GREETING".to_vec(), b"good morning".to_vec())];
    let secrets = vec![(b"TOKEN".to_vec(), b"hush".to_vec())];

    client.start("exec_1", Command { env, ..command(&["printenv", "GREETING"]) });
    client.start("exec_2", Command { secrets, ..command(&["printenv", "TOKEN"]) });

    assert_eq!(client.end("exec_1").stdout, b"good morning\n");
    assert_eq!(client.end("exec_2").stdout, b"hush\n");
    assert_eq!(client.run("exec_3", &["printenv", "TOKEN"]).state.ending, Some(Ending::Exited(1)));
}

pub fn standard_input_reaches_the_command(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.start("exec_1", Command { stdin: true, ..command(&["cat"]) });

    for (data, eof) in [(&b"first "[..], false), (b"\0\xff last", true)] {
        assert_eq!(
            client.ask(Body::Input { exec: "exec_1".into(), data: data.to_vec(), eof }),
            Reply::Done {}
        );
    }

    let ended = client.end("exec_1");
    assert_eq!(ended.stdout, b"first \0\xff last");
    assert_eq!(ended.state.ending, Some(Ending::Exited(0)));
}

pub fn a_command_without_input_finds_it_empty(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);

    let ended = sandbox.client().run("exec_1", &["cat"]);

    assert_eq!(ended.stdout, b"");
    assert_eq!(ended.state.ending, Some(Ending::Exited(0)));
}

pub fn stopping_ends_a_command(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.start("exec_1", command(&LONG));

    let Reply::State(state) = client.ask(Body::Stop { exec: "exec_1".into(), grace_ms: Some(0) }) else {
        panic!("stopping is answered by the state")
    };

    assert_eq!(state.ending, Some(Ending::Stopped));
    assert_eq!(client.end("exec_1").state.ending, Some(Ending::Stopped));
}

pub fn a_signal_ends_a_command(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.start("exec_1", command(&LONG));

    assert_eq!(client.ask(Body::Signal { exec: "exec_1".into(), signal: 15 }), Reply::Done {});

    assert_eq!(client.end("exec_1").state.ending, Some(Ending::Signalled(15)));
}

pub fn a_deadline_ends_a_command(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();

    client.start("exec_1", Command { deadline_ms: Some(50), ..command(&LONG) });

    let state = client.end("exec_1").state;
    assert_eq!(state.ending, Some(Ending::TimedOut));
    assert!(state.limits.contains(&LimitHit::WallTime));
    assert!(state.duration_ms >= 50);
}

pub fn a_reader_waits_for_output(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let (mut reader, mut writer) = (sandbox.client(), sandbox.client());
    writer.start("exec_1", Command { stdin: true, ..command(&["cat"]) });

    reader.send(Body::Read { exec: "exec_1".into(), since: 0, max_chunks: 10, wait_ms: 20_000 });
    writer.ask(Body::Input { exec: "exec_1".into(), data: b"now".to_vec(), eof: false });

    let Reply::Output { chunks, state } = reader.answer() else { panic!("reading is answered by output") };
    assert_eq!(chunks.iter().map(|chunk| chunk.data.as_slice()).collect::<Vec<_>>(), [b"now"]);
    assert_eq!(state.ending, None);
}

pub fn two_connections_work_at_once(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let (mut waiting, mut working) = (sandbox.client(), sandbox.client());
    waiting.start("exec_1", command(&LONG));

    waiting.send(Body::Wait { exec: "exec_1".into(), wait_ms: 20_000 });
    assert_eq!(working.run("exec_2", &["echo", "meanwhile"]).stdout, b"meanwhile\n");
    working.ask(Body::Stop { exec: "exec_1".into(), grace_ms: Some(0) });

    assert!(matches!(waiting.answer(), Reply::State(state) if state.ending == Some(Ending::Stopped)));
}

pub fn a_wait_ends_with_its_connection(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let hold = Body::Hold { lease_ms: None, changes_only: Some(true) };
    let an_hour = 3_600_000;
    let waits = [
        Body::Wait { exec: "exec_1".into(), wait_ms: an_hour },
        Body::Read { exec: "exec_1".into(), since: 0, max_chunks: 10, wait_ms: an_hour },
    ];
    sandbox.client().start("exec_1", command(&LONG));

    for (number, wait) in waits.into_iter().enumerate() {
        let mut waiting = sandbox.client();
        // A hold ends with its connection: so others see when the guest has let go of it.
        assert!(matches!(waiting.ask(hold.clone()), Reply::Held { .. }));
        waiting.send(wait);
        // By now it waits, most likely. If not, it must notice the end all the same.
        sandbox.client().ask(Body::Execs {});
        drop(waiting);

        let after = format!("after_{number}");
        assert_eq!(sandbox.client().run(&after, &["echo", "on"]).stdout, b"on\n");
    }
}

pub fn a_command_outlives_its_connection(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut first = sandbox.client();
    first.start("exec_1", Command { stdin: true, ..command(&["cat"]) });

    drop(first);
    let mut second = sandbox.client();
    second.ask(Body::Input { exec: "exec_1".into(), data: b"still here".to_vec(), eof: true });

    assert_eq!(second.end("exec_1").stdout, b"still here");
}

pub fn an_older_epoch_is_refused(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut stale = sandbox.client_under(EPOCH - 1);

    let faults = [
        stale.fault(Body::Start { exec: "exec_1".into(), command: command(&["true"]) }),
        stale.fault(write_file("stale", b"no")),
        stale.fault(Body::Execs {}),
        stale.fault(Body::Fence { running: Running::Kill, before: None }),
    ];

    assert!(faults.iter().all(|fault| fault.code == FaultCode::StaleEpoch { current: EPOCH }), "{faults:?}");
    assert_eq!(sandbox.client().ask(Body::Execs {}), Reply::Execs(Vec::new()));
    assert_eq!(sandbox.client().fault(Body::FileStat { path: b"stale".to_vec() }).errno, Some(2));
}

pub fn a_fence_refuses_everyone_before_it(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let (mut before, mut after) = (sandbox.client(), sandbox.client_under(EPOCH + 1));
    before.run("exec_1", &["true"]);

    assert_eq!(after.ask(Body::Fence { running: Running::Keep, before: None }), Reply::Done {});

    let fault = before.fault(Body::Start { exec: "exec_2".into(), command: command(&["true"]) });
    assert_eq!(fault.code, FaultCode::StaleEpoch { current: EPOCH + 1 });
    assert_eq!(after.run("exec_3", &["echo", "mine"]).stdout, b"mine\n");
    assert_eq!(sandbox.client_under(EPOCH + 1).welcome.epoch, EPOCH + 1);
}

pub fn a_fence_may_keep_what_runs(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    sandbox.client().start("exec_1", Command { stdin: true, ..command(&["cat"]) });
    let mut after = sandbox.client_under(EPOCH + 1);

    after.ask(Body::Fence { running: Running::Keep, before: None });
    after.ask(Body::Input { exec: "exec_1".into(), data: b"kept".to_vec(), eof: true });

    assert_eq!(after.end("exec_1").stdout, b"kept");
}

pub fn a_fence_may_kill_what_runs(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    sandbox.client().start("exec_1", command(&LONG));
    let mut after = sandbox.client_under(EPOCH + 1);

    after.ask(Body::Fence { running: Running::Kill, before: None });

    let ending = after.end("exec_1").state.ending;
    assert!(matches!(ending, Some(Ending::Stopped | Ending::Signalled(_))), "{ending:?}");
}
