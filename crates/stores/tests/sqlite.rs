//! The SQLite store keeps the contract, and its home is private and well kept.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use coracle_core::store::{Durability, Which};
use coracle_core::testing::conformance::answers::Memory;
use coracle_core::testing::conformance::store::Home;
use coracle_core::testing::conformance::tokens::{self, Keyring};
use coracle_core::testing::sample;
use coracle_core::{Answers, Error, Kind, Record, State, Store, Tokens};
use coracle_stores::SqliteStore;

coracle_core::store_conformance!(TemporaryHome::new);
coracle_core::event_conformance!(TemporaryHome::new);
coracle_core::token_conformance!(TemporaryHome::new);
coracle_core::answer_conformance!(TemporaryHome::new);

struct TemporaryHome(tempfile::TempDir);

impl TemporaryHome {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Home for TemporaryHome {
    fn open(&self) -> Box<dyn Store> {
        Box::new(SqliteStore::open(self.path()).expect("the store opens"))
    }
}

impl Memory for TemporaryHome {
    fn answers(&self) -> Box<dyn Answers> {
        Box::new(SqliteStore::open(self.path()).expect("the store opens"))
    }
}

impl Keyring for TemporaryHome {
    fn tokens(&self) -> Box<dyn Tokens> {
        Box::new(SqliteStore::open(self.path()).expect("the store opens"))
    }
}

#[test]
fn no_file_of_the_home_holds_the_secret_of_a_token() {
    let home = TemporaryHome::new();
    let (token, shown) = tokens::issued("acme");

    SqliteStore::open(home.path()).and_then(|store| store.add(&token)).expect("keeps it");

    let text = shown.reveal();
    let secret = text.rsplit('_').next().expect("it has parts");
    for entry in home.path().read_dir().expect("lists").flatten() {
        let bytes = std::fs::read(entry.path()).expect("reads");
        let held = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!held, "{}", entry.path().display());
    }
}

#[test]
fn a_home_that_is_not_there_is_made_for_its_owner_alone() {
    let parent = TemporaryHome::new();
    let home = parent.path().join("deep/home");

    let store = SqliteStore::open(&home).expect("the store opens");
    let _work = store.work_on(&sample::sandbox()).expect("nobody works on it");

    assert_eq!(mode(&home), 0o700);
    assert_eq!(mode(&home.join("locks")), 0o700);
    for name in ["coracle.db", "coracle.db-wal", "coracle.db-shm", "migrate.lock"] {
        assert_eq!(mode(&home.join(name)), 0o600, "{name}");
    }
}

#[test]
fn an_empty_directory_is_closed_to_others() {
    let home = TemporaryHome::new();
    set_mode(home.path(), 0o755);

    SqliteStore::open(home.path()).expect("the store opens");

    assert_eq!(mode(home.path()), 0o700);
}

#[test]
fn a_directory_others_write_to_is_refused() {
    let home = TemporaryHome::new();
    std::fs::write(home.path().join("something"), "").expect("writes");
    set_mode(home.path(), 0o777);

    let refused = refusal(home.path());

    assert_eq!(refused.kind, Kind::Invalid);
    assert!(refused.hint.is_some());
    assert_eq!(mode(home.path()), 0o777, "a directory in use is left as it is");
}

#[test]
fn many_first_openers_agree_on_one_instance() {
    let home = TemporaryHome::new();
    let open = || SqliteStore::open(home.path()).expect("opens").instance().expect("has an id");

    let instances: Vec<_> = thread::scope(|scope| {
        let openers: Vec<_> = (0..20).map(|_| scope.spawn(open)).collect();
        openers.into_iter().map(|opener| opener.join().expect("an opener does not panic")).collect()
    });

    assert!(instances.iter().all(|instance| *instance == instances[0]));
}

#[test]
fn two_homes_are_two_instances() {
    let (first, second) = (TemporaryHome::new(), TemporaryHome::new());

    assert_ne!(first.open().instance().expect("has an id"), second.open().instance().expect("has an id"));
}

#[test]
fn a_newer_schema_is_refused() {
    let home = TemporaryHome::new();
    drop(home.open());
    rusqlite::Connection::open(home.path().join("coracle.db"))
        .and_then(|database| database.pragma_update(None, "user_version", 999))
        .expect("the version is set");

    let refused = refusal(home.path());

    assert_eq!(refused.kind, Kind::Unsupported);
    assert_eq!(refused.details["schema"], 999);
    assert!(refused.hint.is_some());
}

#[test]
fn nobody_reads_the_records_of_other_tenants() {
    let home = TemporaryHome::new();
    let store = home.open();
    let of = |tenant: &str| Record { tenant: Some(sample::tenant(tenant)), ..sample::record() };
    let (mine, theirs, ended) = (of("mine"), of("theirs"), of("theirs"));
    for record in [&mine, &theirs, &ended] {
        store.open(record.clone()).expect("opens");
    }
    let fail = &mut |record| Ok(Record { state: State::Failed, ..record });
    store.update(&ended.id, Durability::Process, fail).expect("updates");
    // Whoever reads one of theirs cannot but notice.
    rusqlite::Connection::open(home.path().join("coracle.db"))
        .and_then(|database| {
            database.execute("UPDATE sandboxes SET document = 'x' WHERE tenant = 'theirs'", [])
        })
        .expect("the records are spoiled");

    for which in [Which::Live, Which::All] {
        let listed = store.newest(Some(&sample::tenant("mine")), which, 10).expect("lists");
        assert_eq!(listed, [mine.clone()]);
        store.newest(Some(&sample::tenant("theirs")), which, 10).expect_err("those are spoiled");
    }
    assert_eq!(store.count(&sample::tenant("theirs")).expect("counts"), 1);
}

#[test]
fn a_damaged_database_says_what_to_do() {
    let home = TemporaryHome::new();
    std::fs::write(home.path().join("coracle.db"), vec![b'x'; 8192]).expect("writes");

    let refused = refusal(home.path());

    assert_eq!(refused.kind, Kind::Internal);
    assert!(refused.hint.expect("there is advice").contains("coracle gc"));
}

#[test]
fn a_home_that_is_a_file_says_so() {
    let parent = TemporaryHome::new();
    let home = parent.path().join("file");
    std::fs::write(&home, "").expect("writes");

    let refused = refusal(&home);

    assert_eq!(refused.kind, Kind::NotAvailable);
    assert!(refused.hint.is_some());
}

#[test]
fn a_lock_file_left_by_the_dead_is_taken_over_and_removed() {
    let home = TemporaryHome::new();
    let store = home.open();
    let id = sample::sandbox();
    let path = home.path().join("locks").join(id.as_str());
    drop(store.work_on(&sample::sandbox()).expect("nobody works on it"));
    std::fs::write(&path, "").expect("writes");

    let work = store.try_work_on(&id).expect("asks").expect("the dead do not hold it");
    drop(work);

    assert!(!path.exists());
}

fn refusal(home: &Path) -> Error {
    SqliteStore::open(home).expect_err("the home is refused")
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("the directory is ours");
}
