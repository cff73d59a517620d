//! Where our flags end and the command's own words begin.

use coracle_tests::{Home, requires};

#[test]
fn a_command_needs_no_dashes_in_front_of_it() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    assert_eq!(home.call(["exec", &sandbox, "echo", "hi"]).succeed().text(), "hi\n");
    assert_eq!(home.call(["run", "echo", "hi"]).succeed().text(), "hi\n");
    assert_eq!(home.call(["run", "sh", "-c", "exit 7"]).run().code(), Some(7));
}

#[test]
fn everything_from_the_command_on_is_its_own() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let words = ["--json", "-e", "A=b", "--", "--help", "--timeout", "-1"];
    let printed = "--json\n-e\nA=b\n--\n--help\n--timeout\n-1\n";
    let print = ["printf", "%s\\n"];

    for verb in [&["exec", &sandbox][..], &["exec", "--timeout", "1m", &sandbox], &["run"], &["run", "--"]] {
        let line: Vec<&str> = [verb, &print, &words].concat();
        assert_eq!(home.call(&line).succeed().text(), printed, "{line:?}");
    }
}

#[test]
fn a_flag_in_front_of_the_command_is_ours() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let answer = home.call(["exec", &sandbox, "--json", "-e", "A=b", "sh", "-c", "echo $A"]).succeed().json();
    assert_eq!(answer["stdout"], "b\n");
    for line in [&["exec", &sandbox, "--bogus", "true"][..], &["exec", &sandbox], &["exec", &sandbox, "--"]] {
        home.call(line).run().expect_code(125);
    }
}

#[test]
fn an_image_as_the_first_word_gets_a_hint_how_to_name_one() {
    requires!(native);
    let home = Home::new();

    let said = home.call(["run", "ubuntu:24.04", "echo", "hi"]).run().expect_code(127);

    assert!(said.stderr.contains("write `--image ubuntu:24.04`"), "{said}");
    let said = home.call(["run", "/no/such/Program"]).run().expect_code(127);
    assert!(!said.stderr.contains("--image"), "{said}");
}
