//! The SQLite store keeps the contract, and its home is private and clean.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use coracle_core::answer::{Answer, Asked, Bounds, Recalled};
use coracle_core::event::{Filter, Log};
use coracle_core::store::{Durability, Which};
use coracle_core::{Answers, Cancel, Error, InstanceId, Kind, Record, State, Store, Tokens};
use coracle_stores::SqliteStore;
use coracle_stores::sqlite::is_lost;
use coracle_testing::conformance::answers::Memory;
use coracle_testing::conformance::store::Home;
use coracle_testing::conformance::tokens::{self, Keyring};
use coracle_testing::sample;

coracle_testing::store_conformance!(TemporaryHome::new);
coracle_testing::event_conformance!(TemporaryHome::new);
coracle_testing::token_conformance!(TemporaryHome::new);
coracle_testing::answer_conformance!(TemporaryHome::new);

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
    let _work = store.work_on(&sample::sandbox(), &Cancel::default()).expect("it is free");

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
fn a_home_of_the_first_daemons_keeps_what_it_has() {
    let home = TemporaryHome::new();
    let of = |tenant: Option<&str>| Record { tenant: tenant.map(sample::tenant), ..sample::record() };
    let (live, ended) = (of(Some("acme")), of(Some("acme")));
    let asked = |key: &str| Asked {
        tenant: Some(sample::tenant("acme")),
        run: sample::run("run_a"),
        key: key.parse().expect("a key"),
    };
    let (answer, bounds) = (Answer { status: 200, body: b"done".to_vec() }, Bounds { keys: 2, bytes: 100 });
    let store = SqliteStore::open(home.path()).expect("the store opens");
    for record in [&of(None), &live, &ended] {
        Store::open(&store, record.clone()).expect("opens");
    }
    let fail = &mut |record| Ok(Record { state: State::Failed, ..record });
    store.update(&ended.id, Durability::Process, fail).expect("updates");
    for key in ["first", "second"] {
        store.ask(&asked(key), &[1; 32], ended.created_at, bounds).expect("asks");
        store.answer(&asked(key), &answer, bounds).expect("keeps it");
    }
    drop(store);
    age(&home, ended.id.as_str());

    let store = SqliteStore::open(home.path()).expect("the store opens");

    let known = Store::find(&store, &ended.id).expect("finds").expect("it is there");
    assert_eq!((known.state, known.spec.env.len()), (State::Failed, 0), "what it held is gone");
    let acme = sample::tenant("acme");
    assert_eq!(store.newest(Some(&acme), Which::All, 10).expect("lists").len(), 2);
    assert_eq!(store.newest(Some(&acme), Which::Live, 10).expect("lists"), [live]);
    assert_eq!(store.count(&acme).expect("counts").places, 1);
    // What is forgotten already counts for every owner.
    let seen = |tenant: Option<&str>| {
        let filter = Filter { tenant: tenant.map(sample::tenant), ..Filter::default() };
        let page = store.events(0, &filter, 10).expect("reads");
        (page.events.len(), page.forgotten)
    };
    assert_eq!([seen(None), seen(Some("acme")), seen(Some("nobody"))], [(3, 1), (3, 1), (0, 1)]);
    store.ask(&asked("third"), &[1; 32], ended.created_at, bounds).expect("asks");
    store.answer(&asked("third"), &answer, bounds).expect("keeps it");
    let recalled = |key| store.ask(&asked(key), &[1; 32], ended.created_at, bounds).expect("asks");
    assert_eq!(recalled("second"), Recalled::Answered(answer.clone()));
    assert_eq!(recalled("first"), Recalled::New, "the oldest has made room");
}

/// Turns a home back to the schema from before answers, records and events were kept for each tenant separately.
fn age(home: &TemporaryHome, ended: &str) {
    let sql = format!(
        "DROP INDEX ended_in_order;
         ALTER TABLE events DROP COLUMN observed_at;
         DROP TABLE forgotten_events;
         DROP INDEX events_of_tenants;
         DELETE FROM events WHERE seq = 1;
         DROP INDEX live_of_tenants;
         DROP INDEX ended_of_tenants;
         ALTER TABLE sandboxes DROP COLUMN tenant;
         ALTER TABLE sandboxes DROP COLUMN observed_at;
         CREATE INDEX tenants_sandboxes ON sandboxes (json_extract(document, '$.tenant'))
             WHERE state NOT IN ('destroyed', 'failed', 'lost');
         UPDATE sandboxes SET document = json_set(document, '$.spec.env', json('{{\"A\": \"b\"}}'))
             WHERE id = '{ended}';
         DROP INDEX answers_in_order;
         ALTER TABLE answers DROP COLUMN answered;
         CREATE INDEX sizes_of_answers ON answers (tenant, asked_at, size);
         PRAGMA user_version = 7;"
    );
    rusqlite::Connection::open(home.path().join("coracle.db"))
        .and_then(|database| database.execute_batch(&sql))
        .expect("the home is aged");
}

#[test]
fn a_listing_reads_no_records_of_other_tenants() {
    let home = TemporaryHome::new();
    let store = home.open();
    let of = |tenant: &str| Record { tenant: Some(sample::tenant(tenant)), ..sample::record() };
    let (mine, theirs, ended) = (of("mine"), of("theirs"), of("theirs"));
    for record in [&mine, &theirs, &ended] {
        store.open(record.clone()).expect("opens");
    }
    let fail = &mut |record| Ok(Record { state: State::Failed, ..record });
    store.update(&ended.id, Durability::Process, fail).expect("updates");
    // Reading one of theirs would fail.
    rusqlite::Connection::open(home.path().join("coracle.db"))
        .and_then(|database| {
            database.execute("UPDATE sandboxes SET document = 'x' WHERE tenant = 'theirs'", [])
        })
        .expect("the records are spoiled");

    for which in [Which::Live, Which::All] {
        let listed = store.newest(Some(&sample::tenant("mine")), which, 10).expect("lists");
        assert_eq!(listed, std::slice::from_ref(&mine));
        store.newest(Some(&sample::tenant("theirs")), which, 10).expect_err("those are spoiled");
    }
    assert_eq!(store.count(&sample::tenant("theirs")).expect("counts").places, 1);
}

#[test]
fn a_damaged_database_says_what_to_do() {
    let home = TemporaryHome::new();
    std::fs::write(home.path().join("coracle.db"), vec![b'x'; 8192]).expect("writes");

    let refused = refusal(home.path());

    assert_eq!(refused.kind, Kind::Internal);
    assert!(refused.hint.expect("there is advice").contains("coracle gc"));
}

const FILES: [&str; 3] = ["coracle.db", "coracle.db-wal", "coracle.db-shm"];

/// A home that was used, with one record.
fn used() -> (TemporaryHome, InstanceId) {
    let home = TemporaryHome::new();
    let store = home.open();
    store.open(sample::record()).expect("opens");
    let instance = store.instance().expect("has an id");
    (home, instance)
}

fn remove(home: &TemporaryHome, names: &[&str]) {
    names.iter().for_each(|name| drop(std::fs::remove_file(home.path().join(name))));
}

#[test]
fn a_home_that_lost_its_database_keeps_its_id() {
    let (home, instance) = used();
    std::fs::write(home.path().join("swept"), "").expect("writes");
    remove(&home, &FILES);

    let store = home.open();

    assert_eq!(store.instance().expect("has an id"), instance);
    assert_eq!(store.list(Which::All).expect("lists"), []);
    assert!(!home.path().join("swept").exists(), "the janitor is due");
    store.open(sample::record()).expect("opens");
    drop(store);
    home.open();
}

#[test]
fn a_home_that_lost_the_file_too_asks_its_rooms() {
    let (home, instance) = used();
    remove(&home, &FILES);
    remove(&home, &["instance"]);

    let store =
        SqliteStore::open_recalling(&coracle_core::Home::at(home.path()), &|| Ok(Some(instance.clone())))
            .expect("opens");

    assert_eq!(store.instance().expect("has an id"), instance);
    assert_eq!(noted(&home), instance.as_str());
}

#[test]
fn an_older_home_gets_the_file_from_its_database() {
    let (home, instance) = used();
    remove(&home, &["instance"]);

    home.open();

    assert_eq!(noted(&home), instance.as_str());
}

fn noted(home: &TemporaryHome) -> String {
    std::fs::read_to_string(home.path().join("instance")).expect("reads").trim_end().to_owned()
}

#[test]
fn the_database_of_another_home_is_refused() {
    let (home, ours) = used();
    let (other, theirs) = used();
    remove(&home, &FILES);
    FILES[..2].iter().for_each(|name| {
        std::fs::copy(other.path().join(name), home.path().join(name)).expect("copies");
    });

    let refused = refusal(home.path());

    assert_eq!(refused.kind, Kind::Conflict);
    assert_eq!(
        (&refused.details["instance"], &refused.details["stored"]),
        (&ours.as_str().into(), &theirs.as_str().into())
    );
    assert!(refused.hint.is_some());
}

#[test]
fn a_home_that_lost_a_part_of_its_database_is_refused() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 5] = [
        ("empty", |home| drop(std::fs::File::create(home.join(FILES[0])).expect("makes"))),
        ("half", |home| halve(&home.join(FILES[0]))),
        ("no log", |home| {
            FILES[1..].iter().for_each(|name| std::fs::remove_file(home.join(name)).expect("removes"))
        }),
        ("torn log", |home| halve(&home.join(FILES[1]))),
        ("log alone", |home| std::fs::remove_file(home.join(FILES[0])).expect("removes")),
    ];
    for (what, damage) in damages {
        let (home, instance) = used();
        damage(home.path());

        let refused = refusal(home.path());
        let store =
            SqliteStore::without_records(&coracle_core::Home::at(home.path()), &|| Ok(None)).expect("opens");

        assert!(is_lost(&refused) && refused.hint.is_some(), "{what}: {refused:?}");
        assert_eq!(store.instance().expect("has an id"), instance, "{what}");
        assert_eq!(Store::list(&store, Which::All).expect("lists"), [], "{what}");
        Store::open(&store, sample::record()).expect("can be written to");
    }
}

fn halve(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).expect("it is there");
    let length = file.metadata().expect("it is there").len();
    assert!(length > 4096, "there is something to lose");
    file.set_len(length / 2 + 7).expect("it is ours");
}

#[test]
fn a_young_home_has_its_schema_in_the_database_itself() {
    let home = TemporaryHome::new();
    drop(home.open());
    FILES[1..].iter().for_each(|name| drop(std::fs::remove_file(home.path().join(name))));

    home.open();
}

#[test]
fn an_older_database_is_refused_until_a_person_accepts_it() {
    let (home, _) = used();
    let copies = tempfile::tempdir().expect("a directory");
    let copy = |from: &Path, to: &Path| {
        FILES[..2].iter().for_each(|name| assert!(std::fs::copy(from.join(name), to.join(name)).is_ok()));
    };
    copy(home.path(), copies.path());
    home.open().open(sample::record()).expect("opens");
    remove(&home, &FILES);
    copy(copies.path(), home.path());

    let refused = refusal(home.path());
    remove(&home, &["coracle.mark"]);
    let records = home.open().list(Which::All).expect("lists");

    assert!(is_lost(&refused));
    assert_eq!(records.len(), 1);
}

#[test]
fn what_is_copied_back_is_no_loss() {
    let (home, _) = used();
    // As `sqlite3 coracle.db` does when it leaves.
    let sqlite = rusqlite::Connection::open(home.path().join(FILES[0])).expect("opens");
    sqlite.query_row("SELECT count(*) FROM sandboxes", [], |_| Ok(())).expect("reads");
    sqlite.close().expect("closes");
    assert!(!home.path().join(FILES[1]).exists(), "the log is gone");

    assert_eq!(home.open().list(Which::All).expect("lists").len(), 1);
}

/// Examining a link to itself fails, as on a stalled disk; a dangling link is in the way.
#[test]
fn a_database_or_log_that_cannot_be_looked_at_is_not_replaced() {
    for (name, target) in [(FILES[0], FILES[0]), (FILES[1], FILES[1]), (FILES[0], "nowhere")] {
        let (home, _) = used();
        remove(&home, &FILES);
        std::os::unix::fs::symlink(target, home.path().join(name)).expect("links");

        let refused = refusal(home.path());

        assert_eq!(refused.kind, Kind::NotAvailable, "{name} to {target}: {refused:?}");
        assert!(home.path().join(name).is_symlink(), "{name} to {target}: it was replaced");
    }
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
    drop(store.work_on(&sample::sandbox(), &Cancel::default()).expect("it is free"));
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
