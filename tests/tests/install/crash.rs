//! Killed while packages are fetched, kept or installed.

use coracle_tests::{count, requires};

use crate::site::{NPM_PROOF, Site};

#[test]
fn a_kill_at_any_point_leaves_no_half_entry_no_filler_and_no_draft() {
    requires!(programs);
    let site = Site::npm();
    for point in coracle_engine::INSTALL_CRASH_POINTS {
        for _ in 0..count(1, 20) {
            // Each project is another one to the cache.
            let project = site.project("npm/project");
            let killed = site.opening(project.path(), &["--key", point]).env("CORACLE_CRASH_AT", point).run();
            assert!(killed.was_killed(), "{point} was not reached: {killed}");

            site.home.call(["gc"]).succeed();
            site.home.expect_no_orphans();
            assert_eq!(site.home.live().len(), 1, "{point}: the sandbox stays, its filler does not");
            let left = drafts(&site);
            assert_eq!(left, Vec::<String>::new(), "{point}");

            // The same sandbox installs what it did not.
            let (sandbox, installed) = site.open(project.path(), &["--key", point]);
            assert_eq!(installed["status"], "done", "{point}: {installed:#}");
            assert_eq!(site.sh(&sandbox, NPM_PROOF.0), NPM_PROOF.1, "{point}");
            site.home.call(["close", &sandbox]).succeed();
        }
    }
}

/// Returns what a home has of packages beside whole entries.
fn drafts(site: &Site) -> Vec<String> {
    let entries = std::fs::read_dir(site.home.path().join("packages/own")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.ends_with(".tar") && !name.ends_with(".lock")).collect()
}
