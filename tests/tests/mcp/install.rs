//! `mcp install`: our entry in clients' own settings.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use coracle_tests::{Finished, Home};
use serde_json::{Value, json};

fn install(home: &Home, person: &Path, arguments: &[&str]) -> Finished {
    let words = ["mcp", "install"].iter().chain(arguments);
    home.call(words).env("HOME", person).env("PATH", "/usr/bin:/bin").run()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("it was written")).expect("it is JSON")
}

#[test]
fn every_client_finds_an_entry_in_its_own_file() {
    let (home, person) = (Home::new(), tempfile::tempdir().expect("a directory"));
    let person = person.path();
    for (client, file, servers) in [
        ("claude", ".claude.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".config/Code/User/mcp.json", "servers"),
    ] {
        install(&home, person, &["--client", client]).expect_code(0);

        let entry = &read(&person.join(file))[servers]["coracle"];
        assert_eq!(entry["args"], json!(["mcp"]), "{client}");
        assert!(entry["command"].as_str().is_some_and(|path| Path::new(path).is_file()), "{client}: {entry}");
    }
    install(&home, person, &["--client", "codex", "--mode", "compute", "--user", "65534"]).expect_code(0);
    let codex = std::fs::read_to_string(person.join(".codex/config.toml")).expect("it was written");
    assert!(codex.contains("[mcp_servers.coracle]\ncommand = \"/"), "{codex}");
    assert!(codex.contains("args = [\"mcp\", \"--mode\", \"compute\", \"--user\", \"65534\"]"), "{codex}");
}

#[test]
fn what_was_in_the_file_stays_and_twice_is_as_good_as_once() {
    let (home, person) = (Home::new(), tempfile::tempdir().expect("a directory"));
    let file = person.path().join(".claude.json");
    let before =
        json!({"zoom": 3, "mcpServers": {"other": {"command": "x"}}, "account": {"token": "secret"}});
    std::fs::write(&file, before.to_string()).expect("it can be written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("it is ours");

    let first = install(&home, person.path(), &["--client", "claude", "--json"]).expect_code(0).json();
    let once = std::fs::read(&file).expect("it is there");
    let second = install(&home, person.path(), &["--client", "claude", "--json"]).expect_code(0).json();

    let mut after = read(&file);
    after["mcpServers"].as_object_mut().expect("an object").remove("coracle");
    assert_eq!(after, before);
    assert_eq!((&first["written"], &second["written"]), (&json!(true), &json!(false)));
    assert_eq!(std::fs::read(&file).expect("it is there"), once);
    assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o640);
    let left = std::fs::read_dir(person.path()).expect("a directory").count();
    assert_eq!(left, 1, "nothing is left beside it");
}

#[test]
fn a_file_that_cannot_be_read_is_left_as_it_is() {
    let (home, person) = (Home::new(), tempfile::tempdir().expect("a directory"));
    let file = person.path().join(".cursor/mcp.json");
    std::fs::create_dir(person.path().join(".cursor")).expect("a directory");
    for text in ["{\n  // mine\n  \"mcpServers\": {}\n}", "{\"mcpServers\": []}", "{"] {
        std::fs::write(&file, text).expect("it can be written");

        let refused = install(&home, person.path(), &["--client", "cursor", "--json"]).error();

        assert_eq!(refused["kind"], "conflict", "{refused}");
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), text);
    }
}

#[test]
fn a_link_to_the_settings_stays_one() {
    let (home, person) = (Home::new(), tempfile::tempdir().expect("a directory"));
    let kept = person.path().join("kept.json");
    std::fs::write(&kept, "{}").expect("it can be written");
    std::os::unix::fs::symlink(&kept, person.path().join(".claude.json")).expect("a link");

    install(&home, person.path(), &["--client", "claude"]).expect_code(0);

    assert!(read(&kept)["mcpServers"]["coracle"].is_object());
    assert!(person.path().join(".claude.json").is_symlink());
}

#[test]
fn printing_writes_nothing() {
    let (home, person) = (Home::new(), tempfile::tempdir().expect("a directory"));

    let printed = install(&home, person.path(), &["--client", "claude", "--scope", "project", "--print"]);

    let printed = printed.expect_code(0).json();
    let entry = json!({"type": "stdio", "command": "coracle", "args": ["mcp"]});
    assert_eq!(printed, json!({"mcpServers": {"coracle": entry}}));
    assert_eq!(std::fs::read_dir(person.path()).expect("a directory").count(), 0);
}

#[test]
fn the_ceiling_is_written_down_so_that_it_means_the_same_from_anywhere() {
    let (home, person) = (Home::new(), tempfile::tempdir().expect("a directory"));
    let directory = person.path().to_str().expect("UTF-8");
    let flags = ["--workspace", ".:ro", "--network", "allow=a.test", "--memory", "512m"];
    let install = |words: &[&str]| {
        let all = ["mcp"].iter().chain(words);
        home.call(all).env("HOME", person.path()).through(["env", "-C", directory]).run()
    };

    let behind = [&["install", "--client", "claude", "--let-choose", "image"][..], &flags].concat();
    install(&behind).expect_code(0);
    let before = [&flags[..], &["--let-choose", "image", "install", "--client", "cursor"]].concat();
    install(&before).expect_code(0);
    let twice = [&["--memory", "1g", "install", "--client", "vscode"][..], &flags].concat();
    let twice = install(&twice);
    let nowhere = install(&["install", "--client", "vscode", "--workspace", "not-there"]);

    let here = person.path().canonicalize().expect("it is there");
    let workspace = format!("{}:ro", here.display());
    let expected = json!([
        "mcp",
        "--let-choose",
        "image",
        "--workspace",
        workspace,
        "--memory",
        "512m",
        "--network",
        "allow=a.test"
    ]);
    assert_eq!(read(&person.path().join(".claude.json"))["mcpServers"]["coracle"]["args"], expected);
    assert_eq!(read(&person.path().join(".cursor/mcp.json"))["mcpServers"]["coracle"]["args"], expected);
    assert_eq!((twice.code(), nowhere.code()), (Some(125), Some(125)), "{twice} {nowhere}");
    assert!(!person.path().join(".config").exists());
}
