//! No wall of the binary that is shipped can be left out.

use coracle_tests::{Home, binary, requires};

const VARIABLE: &[u8] = b"CORACLE_WEAKEN";

fn names_the_variable(path: &std::path::Path) -> bool {
    let program = std::fs::read(path).expect("the binary can be read");
    program.windows(VARIABLE.len()).any(|window| window == VARIABLE)
}

#[test]
fn only_the_twin_knows_how_to_be_weak() {
    assert!(!names_the_variable(binary::path()), "the binary under test was built with `weaken`");
    assert!(names_the_variable(binary::weak()), "or the name has changed, and this proves nothing");
}

#[test]
fn asking_for_weakness_does_nothing() {
    requires!(native);
    let home = Home::new();

    let ran = home
        .call(["run", "--", "grep", "Seccomp:", "/proc/self/status"])
        .env("CORACLE_WEAKEN", "Seccomp,Observation");

    assert_eq!(ran.succeed().text(), "Seccomp:\t2\n");
}
