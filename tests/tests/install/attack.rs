//! A run cannot change what others install, and a package cannot run where it is fetched.

use coracle_tests::requires;

use crate::site::{NPM_PROOF, Site};

#[test]
fn what_a_run_does_to_its_packages_reaches_no_other() {
    requires!(programs);
    let site = Site::npm();
    let project = site.project("npm/project");
    let (poisoned, installed) = site.open(project.path(), &[]);
    assert_eq!(installed["status"], "done", "{installed:#}");

    // The twin: the copy in the sandbox itself can be changed, and then installs nothing.
    let told = site.sh(
        &poisoned,
        "find ~/.npm/_cacache/content-v2 -type f | while read file; do echo poison > \"$file\"; done
         rm -rf node_modules; npm ci --offline --no-audit --no-fund > /dev/null 2>&1 && echo installed || echo poisoned",
    );
    assert_eq!(told, "poisoned\n");

    let (clean, again) = site.open(project.path(), &[]);
    assert_eq!(again["status"], "done", "{again:#}");
    assert_eq!(site.sh(&clean, NPM_PROOF.0), NPM_PROOF.1);
}

#[test]
fn a_package_runs_its_script_in_the_sandbox_and_not_where_it_is_fetched() {
    requires!(programs);
    let programs = [include_str!("../programs/registries/npm.py"), include_str!("registries/scripts.py")];
    let site = Site::new(&programs, "[install.network]\nnpm = \"allow=ok.test\"\n");
    let project = site.project("npm/project");

    let (sandbox, installed) = site.open(project.path(), &["-e", "SECRET=hush"]);

    assert_eq!(installed["status"], "done", "{installed:#}");
    assert_eq!(site.sh(&sandbox, "grep -c SECRET=hush /tmp/ran-in"), "1\n", "it ran in the sandbox");
    let visits = site.net.web.visits();
    assert!(
        !visits.is_empty() && visits.iter().all(|visit| !visit.request.head.contains("/ran")),
        "{visits:?}"
    );
}

#[test]
fn two_projects_with_the_same_lockfile_share_no_packages() {
    requires!(programs);
    let site = Site::npm();
    let (one, other) = (site.project("npm/project"), site.project("npm/project"));
    assert_eq!(site.open(one.path(), &[]).1["status"], "done");
    site.net.forget_when_quiet();

    let (_, installed) = site.open(other.path(), &[]);

    assert_eq!(installed["status"], "done", "{installed:#}");
    assert!(!site.net.web.visits().is_empty(), "it was installed from another project's packages");
}

#[test]
fn a_lockfile_that_is_a_link_is_not_followed() {
    requires!(programs);
    let site = Site::npm();
    let project = tempfile::tempdir().expect("a directory can be made");
    std::os::unix::fs::symlink("/etc/passwd", project.path().join("package-lock.json")).expect("a link");

    let (_, installed) = site.open(project.path(), &[]);

    assert_eq!(installed["status"], "failed", "{installed:#}");
    assert_eq!(installed["lockfile_sha256"], serde_json::Value::Null);
    assert_eq!(site.net.strays(&[]), [""; 0]);
}
