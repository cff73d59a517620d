//! Files of fetched packages keep the contract, survive crashes, and are bounded.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use coracle_core::install::{Claim, Draft, Ecosystem, Key, PackageCache, Project, Rules};
use coracle_core::{Cancel, Timestamp};
use coracle_stores::PackageFiles;
use coracle_testing::conformance::packages::Warehouse;

coracle_testing::package_cache_conformance!(Directory::new);

const NOW: Timestamp = Timestamp::from_millis(600_000);

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn packages(&self, rules: Rules) -> PackageFiles {
        PackageFiles::new(self.0.path().join("packages"), rules)
    }

    fn files(&self, kind: &str) -> Vec<PathBuf> {
        let own = self.0.path().join("packages/own");
        let files = fs::read_dir(own).into_iter().flatten().flatten().map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == kind)).collect()
    }
}

impl Warehouse for Directory {
    fn open(&self, rules: Rules) -> Box<dyn PackageCache> {
        Box::new(self.packages(rules))
    }
}

fn key(repo: &str) -> Key {
    Key {
        project: Project { tenant: None, repo: repo.to_owned() },
        ecosystem: Ecosystem::Npm,
        manifests_sha256: "00".to_owned(),
        image: "host".to_owned(),
        registry: None,
    }
}

fn vacant(cache: &PackageFiles, repo: &str) -> Box<dyn Draft> {
    match cache.claim(&key(repo), NOW, &Cancel::default()) {
        Ok(Claim::Vacant(draft)) => draft,
        claim => panic!("not to be made: {claim:?}"),
    }
}

fn make(cache: &PackageFiles, repo: &str, at: u64) {
    let mut draft = vacant(cache, repo);
    draft.write_all(&[b'x'; 1000]).expect("writes");
    draft.seal(Timestamp::from_millis(600_000 + at)).expect("seals");
}

#[test]
fn the_draft_of_a_dead_process_is_never_an_entry_and_is_swept() {
    let home = Directory::new();
    let cache = home.packages(Rules::default());
    let mut draft = vacant(&cache, "a");
    draft.write_all(b"half").expect("writes");
    // As a process that is killed: its lock goes, its file stays.
    let draft_file = home.files("draft").pop().expect("there is a draft");
    let half = fs::read(&draft_file).expect("it is a file");
    drop(draft);
    fs::write(&draft_file, half).expect("it stays");

    drop(vacant(&cache, "a"));
    fs::write(&draft_file, b"half").expect("it stays");
    cache.sweep(NOW).expect("sweeps");

    assert_eq!(home.files("draft"), Vec::<PathBuf>::new());
    assert_eq!(home.files("lock"), Vec::<PathBuf>::new());
}

#[test]
fn a_sweep_leaves_what_is_being_made() {
    let home = Directory::new();
    let cache = home.packages(Rules::default());
    let mut draft = vacant(&cache, "a");

    home.packages(Rules::default()).sweep(NOW).expect("sweeps");
    draft.write_all(b"packages").expect("writes");
    draft.seal(NOW).expect("seals");

    assert!(matches!(cache.claim(&key("a"), NOW, &Cancel::default()), Ok(Claim::Sealed(_))));
}

#[test]
fn a_damaged_entry_is_an_error_to_read_and_made_anew() {
    for damage in [|bytes: &mut Vec<u8>| bytes[10] ^= 1, |bytes: &mut Vec<u8>| bytes.truncate(500)] {
        let home = Directory::new();
        let cache = home.packages(Rules::default());
        make(&cache, "a", 1);
        let file = home.files("tar").pop().expect("there is an entry");
        let mut bytes = fs::read(&file).expect("it is a file");
        damage(&mut bytes);
        fs::write(&file, bytes).expect("it can be written");

        let Ok(Claim::Sealed(sealed)) = cache.claim(&key("a"), NOW, &Cancel::default()) else {
            panic!("it is there")
        };
        let mut all = Vec::new();
        let read = sealed.read().expect("opens").read_to_end(&mut all);

        assert!(read.is_err(), "the damage was not noticed");
        drop(sealed);
        drop(vacant(&cache, "a"));
    }
}

#[test]
fn entries_that_were_used_longest_ago_go_where_a_tenant_has_too_much() {
    let home = Directory::new();
    let cache = home.packages(Rules { total: 2500, ..Rules::default() });
    make(&cache, "a", 1);
    make(&cache, "b", 2);
    let used = cache.claim(&key("a"), Timestamp::from_millis(600_003), &Cancel::default());
    assert!(matches!(used, Ok(Claim::Sealed(_))));
    drop(used);

    make(&cache, "c", 4);

    assert_eq!(home.files("tar").len(), 2);
    drop(vacant(&cache, "b"));
}

#[test]
fn nobody_else_can_read_them() {
    let home = Directory::new();
    make(&home.packages(Rules::default()), "a", 1);

    for file in ["tar", "lock"].into_iter().flat_map(|kind| home.files(kind)) {
        let mode = fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", file.display());
    }
    let directory = fs::metadata(home.0.path().join("packages/own")).expect("it is there");
    assert_eq!(directory.permissions().mode() & 0o777, 0o700);
}
