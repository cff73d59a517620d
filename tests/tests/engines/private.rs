//! The tests' own container engines: they work, they start again, and leave nothing behind.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use coracle_tests::engines::{Containers, Ending, Engine, Kind, Storage, TEST_IMAGE, docker, image, podman};
use coracle_tests::{SOON, eventually, requires};

/// How long the kernel and a shell may take to do away with an engine.
const SETTLE: Duration = SOON;
/// Set in a second process of this binary, which holds an engine until the test kills it.
const HOLD: &str = "CORACLE_TEST_HOLDS_ENGINE";

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("Docker's command line is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn both_engines_run_the_test_image() {
    requires!(docker);
    requires!(podman);

    for engine in [docker(), podman()] {
        let script = "echo $GREETING; id -un; ls /home";
        let run = ["run", "--rm", "--network", "none", TEST_IMAGE, "sh", "-c", script];
        assert_eq!(succeed(&mut engine.client(run)), "hello\nroot\nworker\n", "{:?}", engine.kind());
    }
}

#[test]
fn containers_live_through_a_restart_only_where_they_may() {
    requires!(docker);
    let is_running = |engine: &Engine| {
        succeed(&mut engine.client(["inspect", "--format", "{{.State.Running}}", "stays"])) == "true\n"
    };

    for (containers, lives) in [(Containers::Live, true), (Containers::End, false)] {
        let engine = Engine::start(Kind::Docker, Storage::Memory, containers).expect("an engine starts");
        engine.load(image::archive());
        let run = ["run", "--detach", "--name", "stays", "--network", "none", TEST_IMAGE, "sleep", "1000"];
        succeed(&mut engine.client(run));
        assert!(is_running(&engine));

        engine.restart(Ending::Killed);

        assert_eq!(is_running(&engine), lives, "{containers:?}");
    }
}

#[test]
fn an_engine_leaves_nothing_when_it_is_let_go() {
    requires!(docker);
    requires!(podman);

    for kind in [Kind::Docker, Kind::Podman] {
        let engine = Engine::start(kind, Storage::Disk, Containers::End).expect("an engine starts");
        engine.load(image::archive());
        succeed(&mut engine.client(["run", "--detach", "--network", "none", TEST_IMAGE, "sleep", "1000"]));
        let dir = engine.dir().to_owned();
        assert!(!left(&dir).is_empty(), "nothing of a running engine is seen");

        drop(engine);

        assert_eq!(left(&dir), Vec::<String>::new(), "{kind:?}");
    }
}

#[test]
fn an_engine_ends_with_the_process_that_started_it() {
    requires!(docker);
    let mut holder = Command::new(std::env::current_exe().expect("a test knows its own path"))
        .args(["--exact", "private::an_engine_is_held", "--nocapture"])
        .env(HOLD, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .expect("this binary can be started");
    let lines = BufReader::new(holder.stdout.take().expect("stdout is a pipe")).lines();
    let dir = lines.map_while(Result::ok).find_map(|line| Some(line.split_once("room: ")?.1.to_owned()));
    let dir = PathBuf::from(dir.expect("the holder says where its engine is"));
    assert!(!left(&dir).is_empty(), "nothing of a running engine is seen");

    holder.kill().expect("a child can be killed");
    holder.wait().expect("a child can be waited for");

    let gone = eventually(SETTLE, || left(&dir).is_empty());
    assert!(gone.is_some(), "this is left: {:?}", left(&dir));
}

/// Does nothing in an ordinary test run. In the process that another test starts and kills, it holds an engine.
#[test]
fn an_engine_is_held() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let engine = Engine::start(Kind::Docker, Storage::Memory, Containers::End).expect("an engine starts");
    engine.load(image::archive());
    succeed(&mut engine.client(["run", "--detach", "--network", "none", TEST_IMAGE, "sleep", "1000"]));
    // The harness of tests writes to stdout, too, and not in whole lines.
    writeln!(std::io::stdout(), "room: {}", engine.dir().display()).expect("our parent reads it");
    loop {
        std::thread::park();
    }
}

/// Returns processes, mounts, cgroups and the directory of an engine that are there.
fn left(dir: &Path) -> Vec<String> {
    let name = dir.file_name().expect("a room has a name").to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let words = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let words = words.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    let mounts = mounts.lines().map(str::to_owned).collect::<Vec<_>>();
    let found = words.chain(mounts).filter(|line| line.contains(&name));
    let trees = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let groups = trees.map(|tree| tree.path().join(&name)).chain([Path::new("/sys/fs/cgroup").join(&name)]);
    let paths = groups.chain([dir.to_owned()]).filter(|path| path.exists());
    found.chain(paths.map(|path| path.display().to_string())).collect()
}
