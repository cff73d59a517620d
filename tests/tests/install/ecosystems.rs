//! Each package manager fetches once, and installs without a network.

use std::path::{Path, PathBuf};
use std::process::Command;

use coracle_tests::requires;

use crate::site::{NPM_PROOF, Site};

#[test]
fn npm_fetches_once_and_installs_offline() {
    requires!(programs);
    let site = Site::npm();
    let project = site.project("npm/project");

    site.expect_fetched_once(project.path(), &[], NPM_PROOF);
}

#[test]
fn pip_fetches_once_and_installs_offline() {
    requires!(programs);
    let settings =
        "[install.network]\npip = \"allow=ok.test\"\n[install.registry]\npip = \"http://ok.test/simple/\"\n";
    let site = Site::new(&[], settings);
    let project = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(project.path().join("requirements.txt"), "-r more.txt\n").expect("it can be written");
    std::fs::write(project.path().join("more.txt"), "small\n").expect("it can be written");

    let proof = (".venv/bin/python3 -c 'import small; print(small.WHERE)'", "from the internet\n");
    site.expect_fetched_once(project.path(), &[], proof);
}

#[test]
fn go_fetches_once_and_builds_offline() {
    requires!(programs);
    let settings =
        "[install.network]\ngo = \"allow=ok.test\"\n[install.registry]\ngo = \"http://ok.test/go\"\n";
    let programs = [include_str!("../programs/registries/go.py"), include_str!("registries/go_project.py")];
    let site = Site::new(&programs, settings);
    let project = site.project("project");

    site.expect_fetched_once(
        project.path(),
        &[],
        ("GOPROXY=off go build -o app . && ./app 2>&1", "from a proxy\n"),
    );
}

/// What cargo asks a compiler about its target.
const TARGET_QUESTION: &str = "- --crate-name ___ --print=file-names --crate-type bin --crate-type rlib \
    --crate-type dylib --crate-type cdylib --crate-type staticlib --crate-type proc-macro --print=sysroot \
    --print=split-debuginfo --print=crate-name --print=cfg -Wwarnings";

/// Building takes the compiler's whole library; fetching takes cargo, and a compiler that says which it is and what it
/// compiles for.
#[test]
fn cargo_fetches_once_and_has_its_crates_offline() {
    requires!(programs);
    let settings = "[install.network]\ncargo = \"allow=ok.test\"\n[install.registry]\ncargo = \"sparse+http://ok.test/cargo/index/\"\n";
    let programs =
        [include_str!("../programs/registries/cargo.py"), include_str!("registries/cargo_project.py")];
    let site = Site::new(&programs, settings);
    let project = site.project("project");
    let told = |words: &str| {
        let output = Command::new("rustc").args(words.split(' ')).output().expect("the tests were compiled");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let compiler = project.path().join("rustc");
    let (version, target) = (told("-vV"), told(TARGET_QUESTION));
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = -vV ]; then\ncat <<'END'\n{version}END\nelse\ncat <<'END'\n{target}END\nfi\n"
    );
    std::fs::write(&compiler, text).expect("it can be written");
    let made = Command::new("chmod").arg("755").arg(&compiler).status();
    assert!(made.expect("chmod can be started").success());
    let image = site.image(&[(&cargo(), "/usr/local/bin/cargo"), (&compiler, "/usr/local/bin/rustc")]);

    let proof =
        "cargo metadata --offline --locked --format-version 1 | grep -o '\"name\":\"small\"' | head -n 1";
    site.expect_fetched_once(project.path(), &["--image", &image], (proof, "\"name\":\"small\"\n"));
}

fn cargo() -> PathBuf {
    let told = Command::new("rustc").args(["--print", "sysroot"]).output().expect("the tests were compiled");
    Path::new(String::from_utf8(told.stdout).expect("a path").trim()).join("bin/cargo")
}
