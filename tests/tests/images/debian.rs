//! A whole distribution, as a newcomer would use one.

use std::process::Command;
use std::time::Duration;

use coracle_tests::{Home, requires};

use crate::workshop::debian;

/// A hundred megabytes are sent, unpacked and written to a disk many share.
const PATIENCE: Duration = Duration::from_secs(180);

fn home_with_debian() -> Home {
    let home = Home::new();
    home.call(["image", "pull", debian()]).within(PATIENCE).succeed();
    home
}

#[test]
fn an_image_is_pulled_and_its_programs_run() {
    requires!(images);
    let home = Home::new();

    let pulled = home.call(["image", "pull", debian()]).within(PATIENCE).succeed();

    assert!(pulled.text().contains("/debian@sha256:"), "{pulled}");
    assert!(pulled.stderr.contains("Pulled"), "{pulled}");
    let ran = home.call(["run", "--image", debian(), "--", "python3", "-c", "print(1)"]).succeed();
    assert_eq!((ran.text(), ran.stderr.as_str()), ("1\n", ""));
    let script = "git init -q . && echo x > f && git add f && \
                  git -c user.name=a -c user.email=a@b commit -qm first && git log --oneline | wc -l";
    assert_eq!(home.call(["run", "--image", debian(), "--", "sh", "-c", script]).succeed().text(), "1\n");
    let listed = home.call(["image", "list", "--json"]).succeed().json();
    assert!(listed.to_string().contains("/debian:test"), "{listed}");
}

#[test]
fn a_package_can_be_installed_where_that_was_allowed() {
    requires!(images);
    let home = home_with_debian();
    let build = "mkdir -p p/DEBIAN p/opt && echo hi > p/opt/hello && chown -R 0:0 p && \
                 printf 'Package: hello-test\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\nDescription: d\\n' \
                 > p/DEBIAN/control && dpkg-deb -b p p.deb && dpkg -i p.deb && apt-cache policy hello-test && cat /opt/hello";

    let installed =
        home.call(["run", "--image", debian(), "--privileges", "install", "--", "sh", "-c", build]).succeed();

    assert!(installed.text().contains("Installed: 1"), "{installed}");
    assert!(installed.text().ends_with("hi\n"), "{installed}");
}

#[test]
fn progress_is_drawn_on_a_terminal() {
    requires!(images);
    let home = Home::new();
    let line = format!("{} image pull {}", coracle_tests::binary::path().display(), debian());

    let seen = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("CORACLE_HOME", home.path())
        .env("TERM", "xterm-256color")
        .output()
        .expect("Debian's package `bsdutils` is installed");

    let text = String::from_utf8_lossy(&seen.stdout);
    assert!(seen.status.success(), "{text}");
    assert!(text.contains("downloading") && text.contains("unpacking"), "{text}");
    assert!(text.contains("MB of") || text.contains("MiB of"), "{text}");
}

#[test]
fn an_ordinary_user_pulls_and_runs_too() {
    requires!(images);
    let home = Home::ordinary();
    home.call(["image", "pull", debian()]).within(PATIENCE).succeed();

    let ran = home
        .call(["run", "--image", debian(), "--", "python3", "-c", "import os; print(os.getuid())"])
        .succeed();

    assert_eq!(ran.text(), "0\n");
}
