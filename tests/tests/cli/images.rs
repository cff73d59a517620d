//! Images without a registry: refusals, listings, and what a command takes from its image.

use coracle_tests::{Home, requires};
use serde_json::json;

fn configure(home: &Home, settings: &str) {
    std::fs::write(home.path().join("config.toml"), settings).expect("the home is ours");
}

#[test]
fn a_home_without_images_lists_none() {
    requires!(native);
    let home = Home::new();

    let json = home.call(["image", "list", "--json"]).succeed().json();
    let text = home.call(["image", "list"]).succeed();

    assert_eq!(json, json!([]));
    assert_eq!(text.text().split_whitespace().collect::<Vec<_>>(), ["REFERENCE", "DIGEST", "SIZE", "PULLED"]);
    assert_eq!(text.stderr, "");
}

#[test]
fn what_is_no_reference_reaches_no_registry() {
    requires!(native);
    let home = Home::new();

    for image in ["PYTHON", "https://docker.io/python", "user:pw@docker.io/python", "python:", "host", ""] {
        let kind = home.call(["image", "pull", "--json", image]).run().error_kind();
        assert_eq!(kind, "invalid", "{image}");
    }
    // Behind `--` a flag is a name, and no better one.
    assert_eq!(home.call(["image", "pull", "--json", "--", "--flag"]).run().error_kind(), "invalid");
    assert_eq!(home.call(["run", "--json", "--image", "PYTHON", "--", "true"]).run().error_kind(), "invalid");
}

#[test]
fn removing_what_is_not_here_is_not_found() {
    requires!(native);
    let home = Home::new();

    let kind = |arguments: [&str; 4]| home.call(arguments).run().error_kind();

    assert_eq!(kind(["image", "remove", "python:3.12", "--json"]), "image_not_found");
    assert_eq!(kind(["image", "remove", "0123456789ab", "--json"]), "image_not_found");
    assert_eq!(kind(["volume", "remove", "nothing", "--json"]), "not_found");
}

#[test]
fn an_image_that_is_not_on_the_list_is_refused_before_anything_is_done() {
    requires!(native);
    let home = Home::new();
    configure(&home, "[images]\nallow = ['host', 'python:3.12']\n");

    for arguments in [
        ["run", "--json", "--image", "ruby", "--", "true"].as_slice(),
        &["run", "--json", "--image", "docker.io/library/python:3.11", "--", "true"],
        &["open", "--json", "--image", "ghcr.io/library/python:3.12"],
        &["image", "pull", "--json", "ruby"],
    ] {
        assert_eq!(home.call(arguments).run().error_kind(), "image_not_allowed", "{arguments:?}");
    }
    assert_eq!(home.live().len(), 0);
    home.call(["run", "--", "true"]).succeed();
}

#[test]
fn a_wrong_setting_is_refused_with_its_file() {
    let home = Home::new();
    configure(&home, "[mounts]\nallow = ['srv']\n");

    let error = home.call(["config", "--json"]).run().error();
    // What tidies up behind this test needs settings it can read.
    configure(&home, "");

    assert_eq!(error["details"]["field"], "mounts.allow");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("config.toml")), "{error}");
}

#[test]
fn settings_about_images_are_shown() {
    let home = Home::new();
    configure(&home, "[runtimes]\npython = 'python:3.12'\n[registries]\nplain_http = ['localhost:5000']\n");

    let shown = home.call(["config", "--json"]).succeed().json();

    assert_eq!(shown["runtimes.python"]["value"], "python:3.12");
    assert_eq!(shown["registries.plain_http"]["value"], "localhost:5000");
    assert_eq!(shown["images.allow"], json!({"value": "all", "source": "default"}));
}

#[test]
fn there_is_nothing_to_run_in_the_machines_own_programs() {
    requires!(native);
    let home = Home::new();

    assert_eq!(home.call(["run", "--json"]).run().error_kind(), "invalid");
    assert_eq!(home.operation("sandbox_run", &json!({})).run().error_kind(), "invalid");
}

#[test]
fn program_text_runs_in_the_workspace_or_where_it_is_told() {
    requires!(native);
    let home = Home::new();
    let run = |flags: &[&str]| {
        let words = [&["run", "--runtime", "bash", "-c", "pwd; ls /workspace"], flags].concat();
        home.call(words).succeed().text().to_owned()
    };

    assert_eq!(run(&[]), "/workspace\nmain.sh\n");
    assert_eq!(run(&["--cwd", "/tmp"]), "/tmp\nmain.sh\n");
    assert_eq!(run(&["--workdir", "/tmp"]), "/tmp\nmain.sh\n");
}

#[test]
fn a_missing_program_comes_with_advice() {
    requires!(native);
    let home = Home::new();

    let missing = home.call(["run", "--", "no-such-program"]).run().expect_code(127);

    assert!(missing.stderr.contains("hint: install `no-such-program`"), "{missing}");
}

#[test]
fn a_workspace_that_is_no_directory_is_refused() {
    requires!(native);
    let home = Home::new();

    for flags in [["--workspace", "/etc/passwd"], ["--mount", "/nowhere/at/all:/x"], ["--mount", "cache"]] {
        let words = [["run", "--json"].as_slice(), &flags, &["--", "true"]].concat();
        assert_eq!(home.call(words).run().error_kind(), "invalid", "{flags:?}");
    }
}
