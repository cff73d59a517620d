//! One script, played at every place, gives one transcript.

mod names;
mod script;
mod stage;

use std::path::Path;
use std::sync::OnceLock;

use coracle_tests::engines::place::Place;
use coracle_tests::requires;

use script::PARTS;
use stage::Stage;

/// What the script promises to be long.
const CALLS_MIN: usize = 200;

/// Plays the script, its parts side by side, and returns every call with its answer.
fn play(place: Place) -> Vec<String> {
    let home = place.home();
    let transcript: Vec<String> = std::thread::scope(|scope| {
        let parts: Vec<_> = PARTS
            .iter()
            .map(|(name, part)| {
                let home = &home;
                let thread = scope.spawn(move || {
                    let mut stage = Stage::new(home, place);
                    part(&mut stage);
                    stage.transcript()
                });
                (name, thread)
            })
            .collect();
        let entries = parts.into_iter().flat_map(|(name, thread)| {
            let entries = thread.join().unwrap_or_else(|_| panic!("`{name}` was not played to its end"));
            entries.into_iter().map(move |entry| format!("{name}: {entry}"))
        });
        entries.collect()
    });
    keep(place, &transcript);
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
