//! One script, played at every place, gives one transcript.

mod names;
mod script;
mod stage;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::OnceLock;

use coracle_tests::engines::place::Place;
use coracle_tests::{Home, requires};

use script::{PARTS, Part};
use stage::Stage;

/// What the script promises to be long.
const CALLS_MIN: usize = 200;

/// Plays the script, its parts side by side, and returns every call with its answer.
fn play(place: Place) -> Vec<String> {
    let home = place.home();
    let transcript: Vec<String> = std::thread::scope(|scope| {
        let start = |(name, part): &'static (&'static str, Part)| {
            let home = &home;
            (name, scope.spawn(move || play_part(home, place, *part)))
        };
        let parts: Vec<_> = PARTS.iter().map(start).collect();
        let entries = parts.into_iter().flat_map(|(name, thread)| {
            let entries = thread.join().expect("what a part does is caught");
            entries.into_iter().map(move |entry| format!("{name}: {entry}"))
        });
        entries.collect()
    });
    keep(place, &transcript);
    transcript
}

/// Plays one part. One that cannot be played to its end is a difference like any other, and not the end of the rest.
fn play_part(home: &Home, place: Place, part: Part) -> Vec<String> {
    let mut stage = Stage::new(home, place);
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| part(&mut stage)));
    let mut transcript = stage.transcript();
    if played.is_err() {
        transcript.push("was not played to its end".to_owned());
    }
    transcript
}

/// Leaves the transcript for whoever wants to read or compare it.
fn keep(place: Place, transcript: &[String]) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("parity-{place:?}.txt"));
    let _ = std::fs::write(file, transcript.join("\n"));
}

fn native() -> &'static [String] {
    static TRANSCRIPT: OnceLock<Vec<String>> = OnceLock::new();
    TRANSCRIPT.get_or_init(|| play(Place::Native))
}

#[track_caller]
fn expect_same(place: Place, expected: &[String], found: &[String]) {
    let pairs = expected.iter().zip(found).filter(|(expected, found)| expected != found);
    let differences: Vec<String> =
        pairs.map(|(expected, found)| format!("- {expected}\n+ {found}\n")).collect();
    assert!(
        differences.is_empty(),
        "{} of {} calls are answered otherwise by {place:?}:\n{}",
        differences.len(),
        expected.len(),
        differences.join("\n")
    );
    assert_eq!(expected.len(), found.len());
}

#[test]
fn the_script_is_long_and_gives_the_same_answers_twice() {
    requires!(native);

    let again = play(Place::Native);

    assert!(native().len() >= CALLS_MIN, "{} calls", native().len());
    expect_same(Place::Native, native(), &again);
}

#[test]
fn docker_answers_as_native_does() {
    requires!(docker);

    expect_same(Place::Docker, native(), &play(Place::Docker));
}

#[test]
fn podman_answers_as_native_does() {
    requires!(podman);

    expect_same(Place::Podman, native(), &play(Place::Podman));
}
