//! One script, played on every backend, gives one transcript.

mod declared;
mod names;
mod script;
mod stage;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Condvar, Mutex, OnceLock};
use std::thread::ScopedJoinHandle;

use coracle_tests::engines::test_backend::TestBackend;
use coracle_tests::{Home, count, requires};

use declared::OTHERWISE;
use script::{PARTS, Part};
use stage::Stage;

/// What the script promises to be long.
const CALLS_MIN: usize = 200;
/// How many parts are played at once, on all backends together. Each makes containers, and an engine that is asked for
/// forty at a time on two cores leaves some of them waiting for minutes.
const PLAYED_MAX: usize = 4;

/// The calls and answers of each part.
type Transcript = BTreeMap<&'static str, Vec<String>>;

/// Plays the script, its parts side by side, and returns every call with its answer.
fn play(backend: TestBackend) -> Transcript {
    let home = backend.settled_home();
    let transcript = std::thread::scope(|scope| {
        let start = |(name, part): &'static (&'static str, Part)| {
            let home = &home;
            (*name, scope.spawn(move || play_part(home, backend, *part)))
        };
        let parts: Vec<_> = PARTS.iter().step_by(step(backend)).map(start).collect();
        let end = |(name, thread): (&'static str, ScopedJoinHandle<'_, Vec<String>>)| {
            (name, thread.join().expect("what a part does is caught"))
        };
        parts.into_iter().map(end).collect()
    });
    keep(backend, &transcript);
    transcript
}

/// Returns which parts are played: in a quick run some of those for engines that differ in how they are reached, not in
/// what they do.
fn step(backend: TestBackend) -> usize {
    match backend {
        TestBackend::Native | TestBackend::Docker => 1,
        TestBackend::Podman => count(2, 1),
        TestBackend::Ssh => count(3, 1),
    }
}

/// Plays one part. One that cannot be played to its end is a difference like any other, and not the end of the rest.
fn play_part(home: &Home, backend: TestBackend, part: Part) -> Vec<String> {
    let _turn = Turn::wait();
    let mut stage = Stage::new(home, backend);
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| part(&mut stage)));
    let mut transcript = stage.transcript();
    if played.is_err() {
        transcript.push("was not played to its end".to_owned());
    }
    transcript
}

/// One of [`PLAYED_MAX`].
struct Turn;

static PLAYED: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

impl Turn {
    fn wait() -> Self {
        let played = PLAYED.lock().expect("no test panics while it holds the lock");
        let mut played = ENDED
            .wait_while(played, |played| *played >= PLAYED_MAX)
            .expect("no test panics while it holds the lock");
        *played += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *PLAYED.lock().expect("no test panics while it holds the lock") -= 1;
        ENDED.notify_one();
    }
}

/// Leaves the transcript on disk, to read or compare it.
fn keep(backend: TestBackend, transcript: &Transcript) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("parity-{backend:?}.txt"));
    let lines = transcript
        .iter()
        .flat_map(|(name, entries)| entries.iter().map(move |entry| format!("{name}: {entry}\n")));
    let _ = std::fs::write(file, lines.collect::<String>());
}

fn native() -> &'static Transcript {
    static TRANSCRIPT: OnceLock<Transcript> = OnceLock::new();
    TRANSCRIPT.get_or_init(|| play(TestBackend::Native))
}

#[track_caller]
fn expect_same(backend: TestBackend, expected: &Transcript, found: &Transcript) {
    let none = Vec::new();
    let played = |name: &&str| found.contains_key(*name) || step(backend) == 1;
    let parts = expected.iter().filter(|(name, _)| played(name));
    let parts = parts.map(|(name, entries)| (name, entries, found.get(name).unwrap_or(&none)));
    let differences: Vec<String> =
        parts.flat_map(|(name, expected, found)| differences(name, expected, found)).collect();
    let declared: Vec<&str> = OTHERWISE
        .iter()
        .filter(|(_, places, _)| places.contains(&backend))
        .map(|(call, _, _)| *call)
        .collect();
    let is_of =
        |difference: &str, call: &str| difference.lines().next().is_some_and(|asked| asked.contains(call));
    let stale: Vec<_> = declared
        .iter()
        .filter(|call| !differences.iter().any(|difference| is_of(difference, call)))
        .collect();
    let all = step(backend) == 1;
    assert!(!all || stale.is_empty(), "declared to differ, and does not at {backend:?}: {stale:?}");
    let differences: Vec<String> = differences
        .into_iter()
        .filter(|difference| !declared.iter().any(|call| is_of(difference, call)))
        .collect();
    assert!(
        differences.is_empty(),
        "{} calls are answered otherwise by {backend:?}:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

fn differences(name: &str, expected: &[String], found: &[String]) -> Vec<String> {
    let length = expected.len().max(found.len());
    let entry = |entries: &[String], index: usize| {
        entries.get(index).cloned().unwrap_or_else(|| "nothing".to_owned())
    };
    let pairs = (0..length).map(|index| (entry(expected, index), entry(found, index)));
    let different = pairs.filter(|(expected, found)| expected != found);
    different.map(|(expected, found)| format!("- {name}: {expected}\n+ {name}: {found}\n")).collect()
}

#[test]
fn the_script_is_long_and_gives_the_same_answers_twice() {
    requires!(native);

    let calls = native().values().map(Vec::len).sum::<usize>();

    assert!(calls >= CALLS_MIN, "{calls} calls");
    // Whatever differed by chance would differ elsewhere, too, sooner or later.
    if count(0, 1) == 1 {
        expect_same(TestBackend::Native, native(), &play(TestBackend::Native));
    }
}

#[test]
fn docker_answers_as_native_does() {
    requires!(docker);

    expect_same(TestBackend::Docker, native(), &play(TestBackend::Docker));
}

#[test]
fn podman_answers_as_native_does() {
    requires!(podman);

    expect_same(TestBackend::Podman, native(), &play(TestBackend::Podman));
}

#[test]
fn an_engine_behind_ssh_answers_as_native_does() {
    requires!(ssh);

    expect_same(TestBackend::Ssh, native(), &play(TestBackend::Ssh));
}
