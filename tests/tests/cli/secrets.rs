//! A secret reaches the command and nothing else.

use std::path::Path;

use coracle_tests::{Home, requires};

const VALUE: &str = "hunter2-7f3a9c51-do-not-keep";

/// Returns the files below a directory that hold the value.
fn holding(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_symlink() {
            continue;
        } else if path.is_dir() {
            found.extend(holding(&path));
        } else if path.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let hit = bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes());
            found.extend(hit.then(|| path.display().to_string()));
        }
    }
    found
}

#[test]
fn a_secret_is_nowhere_but_in_the_command() {
    requires!(native);
    let home = Home::new();
    // Its disk is looked through too, and need not be large.
    let sandbox = home.open_with(&["--disk", "8m"]);
    let file = tempfile::NamedTempFile::new().expect("a file can be made");
    std::fs::write(file.path(), VALUE).expect("the file is ours");
    let secret = format!("TOKEN={}", file.path().display());
    let check = format!("test \"$TOKEN\" = {VALUE} || exit 9; exec sleep 919191");
    // The check would put the value on a command line; the sandbox gets it as a file instead.
    home.call(["fs", "write", &sandbox, "/tmp/check"]).stdin(check).succeed();

    home.call([
        "exec",
        &sandbox,
        "--secret",
        &secret,
        "--detach",
        "--id",
        "holder",
        "--",
        "sh",
        "/tmp/check",
    ])
    .succeed();
    let from_env = home
        .call(["exec", &sandbox, "--secret", "TOKEN=env:MY_TOKEN", "--", "sh", "-c", "echo ${#TOKEN}"])
        .env("MY_TOKEN", VALUE)
        .succeed();

    assert_eq!(from_env.text().trim(), VALUE.len().to_string());
    let census = home.census();
    let holders = census.named("sleep 919191");
    assert_eq!(holders.len(), 1, "the command did not get the secret:\n{}", census.describe());
    home.exec(&sandbox, ["rm", "/tmp/check"]).succeed();
    assert_eq!(holding(home.path()), Vec::<String>::new());
    for shown in [
        &["show", &sandbox, "--json"][..],
        &["ps", "--json"],
        &["show", &sandbox],
        &["ps"],
        &["logs", &sandbox, "holder", "--json"],
    ] {
        let output = home.call(shown).succeed();
        assert!(!output.text().contains(VALUE), "{output}");
    }
    for process in
        census.processes.iter().filter(|process| !holders.iter().any(|holder| holder.pid == process.pid))
    {
        let environ = std::fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&environ).contains(VALUE),
            "in the environment of {}",
            process.command
        );
    }
    let next = home.exec(&sandbox, ["env"]).succeed();
    assert!(!next.text().contains("TOKEN"), "{next}");
}

#[test]
fn a_secret_of_a_one_shot_is_not_recorded() {
    requires!(native);
    let home = Home::new();

    let ran = home
        .call(["run", "--secret", "TOKEN=env:MY_TOKEN", "--", "sh", "-c", "echo ${#TOKEN}"])
        .env("MY_TOKEN", VALUE)
        .succeed();

    assert_eq!(ran.text().trim(), VALUE.len().to_string());
    assert_eq!(holding(home.path()), Vec::<String>::new());
}

#[test]
fn a_missing_secret_is_refused_without_its_command() {
    requires!(native);
    let home = Home::new();

    for secret in ["TOKEN=/no/such/file", "TOKEN=env:NOT_SET_ANYWHERE", "no-equals-sign"] {
        let refused = home.call(["run", "--json", "--secret", secret, "--", "echo", "ran"]).run();
        assert!(!String::from_utf8_lossy(&refused.stdout).contains("ran\n"));
        refused.expect_code(125);
    }
}
