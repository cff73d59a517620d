//! The pages, each by root and by an ordinary user.

use std::path::Path;

use coracle_tests::{Home, count, requires};

use super::machine::{Machine, Person};
use super::page::{self, Step};
use super::shell;

/// Types every command of a page and compares.
#[track_caller]
fn follow(name: &str, person: Person) {
    requires!(internet);
    requires!(images);
    requires!(docker);
    let steps = page::read(name);
    assert!(!steps.is_empty(), "{name} has no command");
    let possible = |step: &&Step| person == Person::Root || !step.needs_root();
    let steps: Vec<&Step> = steps.iter().filter(possible).collect();
    let machine = Machine::new(person);

    let printed = machine.type_in(shell::script(&steps, &machine.notes()));

    let ended = shell::read(&steps, &printed);
    let mut complaints: Vec<String> = ended.iter().filter_map(shell::Ended::complaint).collect();
    if let Some(step) = steps.get(ended.len()) {
        complaints.push(format!("line {}: the session ended before it", step.line));
    }
    assert!(complaints.is_empty(), "{name} says what is not so ({person:?}):\n{}", complaints.join("\n"));
}

#[test]
fn the_readme_works_for_root() {
    follow("README.md", Person::Root);
}

#[test]
fn the_readme_works_for_an_ordinary_user() {
    follow("README.md", Person::Ordinary);
}

/// The pages that an ordinary user follows in a quick run, too: those a newcomer reads first, and those that differ most.
const ALWAYS: &[&str] = &["tour", "cli", "files"];

/// Declares the tests of a page: one by root, one by an ordinary user.
macro_rules! pages {
    ($($page:ident)*) => {$(
        mod $page {
            use super::*;

            #[test]
            fn works_for_root() {
                follow(concat!("docs/", stringify!($page), ".md"), Person::Root);
            }

            #[test]
            fn works_for_an_ordinary_user() {
                let page = stringify!($page);
                if ALWAYS.contains(&page) || count(0, 1) == 1 {
                    follow(concat!("docs/", stringify!($page), ".md"), Person::Ordinary);
                }
            }
        }
    )*

        /// Pages that are followed here.
        const FOLLOWED: &[&str] =
            &["README.md", "docs/ssh.md", $(concat!("docs/", stringify!($page), ".md")),*];
    };
}

pages!(auth backends cli egress files hibernation http images mcp operations repos telemetry tour);

/// Where users are only numbers, ssh does not start: there is no ordinary user here.
#[test]
fn ssh_works_for_root() {
    follow("docs/ssh.md", Person::Root);
}

/// Returns the names of all pages.
fn all() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let files = std::fs::read_dir(directory).expect("there are pages").flatten();
    let names = files.map(|file| format!("docs/{}", file.file_name().display()));
    names.chain(["README.md".to_owned()]).collect()
}

#[test]
fn every_page_with_commands_is_followed() {
    let with_commands = all().into_iter().filter(|name| !page::read(name).is_empty());

    let missing: Vec<String> = with_commands.filter(|name| !FOLLOWED.contains(&name.as_str())).collect();

    assert!(missing.is_empty(), "these pages have commands and no test: {missing:?}");
}

#[test]
fn settings_that_pages_show_are_understood() {
    requires!(native);
    for settings in all().iter().flat_map(|name| page::settings(name)) {
        let home = Home::new();
        std::fs::write(home.path().join("config.toml"), &settings).expect("the home is ours");

        home.call(["config"]).succeed();
    }
}
