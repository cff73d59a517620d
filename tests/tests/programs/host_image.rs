//! What the `host` image has, and how people bring what it has not.

use std::path::Path;

use coracle_tests::{Home, requires};

#[test]
fn python_is_there_whatever_the_machine_calls_it() {
    requires!(native);
    let home = Home::new();

    let ran = home.call(["run", "--", "python", "-c", "import sys; print(sys.version_info.major)"]).succeed();
    let script = "#!/usr/bin/env python\nprint('by name')\n";
    let file = home.call(["run", "-i", "--", "sh", "-c", "cat > s; chmod +x s; ./s"]).stdin(script).succeed();

    assert_eq!((ran.text(), file.text()), ("3\n", "by name\n"));
}

#[test]
fn doctor_tells_what_is_in_it_and_what_is_not() {
    requires!(native);
    let home = Home::new();
    let person = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(person.path().join(".pyenv/shims")).expect("it is ours");

    let told = home.call(["doctor"]).env("HOME", person.path()).succeed();
    let json = home.call(["doctor", "--json"]).env("HOME", person.path()).succeed().json();

    for words in
        ["host image", "home directories", "rustup", "bring pyenv with `--mount ~/.pyenv:$HOME/.pyenv:ro"]
    {
        assert!(told.text().contains(words), "{words}: {told}");
    }
    assert_eq!(json["host_image"]["bring"][0]["tool"], "pyenv");
}

/// What `doctor` advises for pyenv and rustup, carried out by a shell for a tool that knows its own path.
#[test]
fn a_tool_of_the_home_directory_is_brought_as_doctor_says() {
    requires!(native);
    let home = Home::new();
    let person = tempfile::tempdir().expect("a directory");
    let shims = person.path().join(".pyenv/shims");
    std::fs::create_dir_all(&shims).expect("it is ours");
    let program = format!("#!/bin/sh\necho brought to {}\n", shims.display());
    std::fs::write(shims.join("snake"), program).expect("it is ours");
    make_executable(&shims.join("snake"));
    let told = home.call(["doctor", "--json"]).env("HOME", person.path()).succeed().json();
    let flags = told["host_image"]["bring"][0]["flags"].as_str().expect("flags").to_owned();

    let line = format!("exec {} run {flags} -- snake", coracle_tests::binary::path().display());
    let ran = std::process::Command::new("sh")
        .args(["-c", &line])
        .env("CORACLE_HOME", home.path())
        .env("HOME", person.path())
        .output()
        .expect("a shell");

    assert_eq!(String::from_utf8_lossy(&ran.stdout), format!("brought to {}\n", shims.display()), "{ran:?}");
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
}
