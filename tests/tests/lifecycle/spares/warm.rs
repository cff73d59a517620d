//! A program cannot tell an interpreter that waited for it from one of its own.

use coracle::{Config, Coracle, run};
use coracle_tests::{Home, requires};

use super::{await_spare, library};

/// What programs do that depends on how they were started, or on how they end.
const PROGRAMS: &[(&str, &str)] = &[
    ("prints", "print('out'); import sys; print('err', file=sys.stderr)"),
    ("reads", "import sys; print(sys.stdin.read().upper())"),
    ("asks", "print(input())"),
    ("names", "import sys; print(__name__, __file__, sys.argv, sys.path[0])"),
    ("exits", "import sys; sys.exit(7)"),
    ("exits with words", "import sys; sys.exit('enough')"),
    ("fails", "def f():\n    return 1 / 0\nf()"),
    ("fails in a chain", "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e"),
    ("does not parse", "def f(:\n    pass"),
    ("is killed", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
    ("forgets to close", "f = open('kept', 'w'); f.write('x' * 10)"),
    ("reads what it forgot", "f = open('kept2', 'w'); f.write('x'); f = None; print(open('kept2').read())"),
    ("registers", "import atexit; atexit.register(lambda: print('last')); print('first')"),
    ("threads", "import threading; threading.Thread(target=lambda: print('thread')).start(); print('main')"),
    ("pickles", "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__name__)"),
    ("looks around", "print(sorted(name for name in globals() if not name.startswith('__')))"),
    ("inherits nothing", "from __future__ import annotations\nprint(annotations.compiler_flag > 0)"),
    (
        "forks",
        "import os, sys\nif os.fork():\n    os.wait(); print('parent')\nelse:\n    print('child'); sys.stdout.flush(); os._exit(0)",
    ),
    ("has an environment", "import os; print(os.environ['GIVEN'], os.environ['SECRET'], os.getcwd())"),
    ("counts its files", "import os; print(sorted(os.listdir('/proc/self/fd'))[:3])"),
];

fn input(code: &str) -> run::Input {
    let mut input = run::Input {
        code: Some(code.to_owned()),
        args: vec!["one".to_owned(), "two words".to_owned()],
        stdin: Some("given\n".to_owned()),
        ..run::Input::default()
    };
    input.spec.env.insert("GIVEN".to_owned(), "by the caller".to_owned());
    input.secrets.0.insert("SECRET".to_owned(), "hidden".to_owned());
    input
}

fn shown(coracle: &Coracle, code: &str) -> (String, Option<i32>, String, String) {
    let ran = coracle.run(input(code)).expect("it runs");
    let exec = serde_json::to_value(&ran).expect("it is JSON");
    let text = |name: &str| exec[name].as_str().unwrap_or_default().to_owned();
    (
        exec["outcome"].to_string(),
        exec["exit_code"].as_i64().map(|code| code as i32),
        text("stdout"),
        text("stderr"),
    )
}

/// An interpreter that waited was started with other words.
const HOW_IT_WAS_STARTED: &str = "import sys; print(sys.orig_argv[1][:2])";

#[test]
fn a_program_does_the_same_in_an_interpreter_that_waited() {
    requires!(native);
    let (home, cold_home) = (Home::new(), Home::new());
    let warm = library(&home);
    let cold = Coracle::open(Config { spares: Some(0), ..Config::at(cold_home.path()) }).expect("a home");
    shown(&warm, "pass");

    for (name, code) in PROGRAMS {
        await_spare(&warm);
        assert_eq!(shown(&warm, code), shown(&cold, code), "a program that {name}");
    }

    await_spare(&warm);
    assert_eq!(shown(&warm, HOW_IT_WAS_STARTED).2, "-c\n");
    assert_eq!(shown(&cold, HOW_IT_WAS_STARTED).2, "/w\n");
}

#[test]
fn what_an_interpreter_reads_only_at_its_start_gets_one_of_its_own() {
    requires!(native);
    let home = Home::new();
    let coracle = library(&home);
    shown(&coracle, "pass");
    await_spare(&coracle);

    let mut odd = input("import sys; print(sys.flags.optimize, sys.orig_argv[1][:2])");
    odd.spec.env.insert("PYTHONOPTIMIZE".to_owned(), "2".to_owned());
    let ran = serde_json::to_value(coracle.run(odd).expect("it runs")).expect("it is JSON");

    assert_eq!(ran["stdout"], "2 /w\n");
}

#[test]
fn a_program_has_its_own_time_and_not_that_of_the_interpreter_that_waited() {
    requires!(native);
    let home = Home::new();
    let coracle = library(&home);
    shown(&coracle, "pass");
    await_spare(&coracle);

    let slow = run::Input { timeout_ms: Some(300), ..input("import time; time.sleep(60)") };
    let ran = serde_json::to_value(coracle.run(slow).expect("it runs")).expect("it is JSON");

    assert_eq!(ran["outcome"]["kind"], "timed_out", "{ran}");
    assert!(ran["duration_ms"].as_u64().is_some_and(|time| time >= 300), "{ran}");
}
