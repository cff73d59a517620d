//! DB: a home loses its database, or a part of it, while a sandbox runs. Nothing that runs may be called gone: `close` and
//! `purge` end it or fail. A process inside is the canary.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use coracle_tests::attack::{Ground, engine};
use coracle_tests::{Arena, Attack, Breaches, Home, Route, count, eventually, requires};

use crate::GROUND;

const FILES: [&str; 3] = ["coracle.db", "coracle.db-wal", "coracle.db-shm"];
/// How long what was killed may take to be gone.
const SETTLE: Duration = Duration::from_secs(5);

/// Does to a home what a person may do by mistake.
type Damage = fn(&Path);

fn move_away(home: &Path) {
    FILES.iter().for_each(|name| drop(fs::remove_file(home.join(name))));
}

fn empty(home: &Path) {
    // With its log, or that alone would tell.
    FILES[..2].iter().for_each(|name| drop(File::create(home.join(name)).expect("it is ours")));
}

fn cut_in_half(home: &Path) {
    halve(&home.join(FILES[0]));
}

fn lose_log(home: &Path) {
    FILES[1..].iter().for_each(|name| fs::remove_file(home.join(name)).expect("it is there"));
}

fn tear_log(home: &Path) {
    halve(&home.join(FILES[1]));
    fs::remove_file(home.join(FILES[2])).expect("it is there");
}

fn halve(path: &Path) {
    let file = File::options().write(true).open(path).expect("it is there");
    let length = file.metadata().expect("it is there").len();
    assert!(length > 4096, "{}: there is something to lose", path.display());
    file.set_len(length / 2 + 7).expect("it is ours");
}

/// A sandbox and a process in it, known by a word.
struct Beating {
    sandbox: String,
    word: String,
}

impl Beating {
    fn start(home: &Home, sandbox: &str, number: usize) -> Self {
        let word = format!("7654{number}.5");
        home.call(["exec", sandbox, "--detach", "--", "sleep", &word]).succeed();
        let beating = Self { sandbox: sandbox.to_owned(), word };
        assert!(eventually(SETTLE, || beating.beats(home)).is_some(), "the canary runs");
        beating
    }

    fn beats(&self, home: &Home) -> bool {
        !home.census().named(&self.word).is_empty()
    }

    /// Tells whether it runs on although coracle has answered that it is gone.
    fn outlives(&self, home: &Home, told: &str) -> Option<String> {
        let gone = eventually(SETTLE, || !self.beats(home)).is_some();
        (!gone).then(|| format!("{told} says it is gone, and it runs"))
    }
}

/// Damages a home in which two canaries run, asks about one and closes it, and purges the rest.
fn after(home: &Home, damage: Damage, first: &Beating, second: &Beating) -> Breaches {
    // Where the canaries are has to be known before that is forgotten.
    home.instance().expect("the home has an id");
    damage(home.path());
    let mut breaches = Breaches::new();
    let swept = home.call(["gc"]).run();
    let listed = home.call(["ps", "--json"]).run();
    if swept.code() == Some(0) && listed.code() == Some(0) && !listed.text().contains(&first.sandbox) {
        breaches.extend(first.beats(home).then(|| "ps does not list what runs".to_owned()));
    }
    let orphans = home.call(["doctor", "--orphans", "--json"]).run();
    let found = orphans.text().contains(&second.sandbox) || listed.text().contains(&second.sandbox);
    breaches.extend((!found).then(|| "neither ps nor doctor knows what runs".to_owned()));
    if home.call(["close", &first.sandbox]).run().code() == Some(0) {
        breaches.extend(first.outlives(home, "close"));
    }
    let purged = home.call(["purge", "--yes"]).run();
    if purged.code() == Some(0) {
        breaches.extend([first, second].iter().filter_map(|canary| canary.outlives(home, "purge")));
        let devices = || loop_devices(home.path());
        let released = eventually(SETTLE, || devices().is_empty()).is_some();
        breaches.extend((!released).then(|| format!("purge leaves {:?}", devices())));
        breaches.extend(home.path().exists().then(|| "purge leaves the home".to_owned()));
    } else {
        breaches.push(format!("purge fails: {purged}"));
    }
    breaches
}

fn loop_devices(home: &Path) -> Vec<PathBuf> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten().map(|entry| entry.path());
    let of_ours = |device: &PathBuf| {
        let file = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
        file.starts_with(&*home.to_string_lossy())
    };
    devices.filter(of_ours).collect()
}

fn attempt(arena: &Arena<'_>, damage: Damage) -> Breaches {
    let first = Beating::start(arena.home, arena.sandbox(), 1);
    let second = Beating::start(arena.home, &arena.home.open(), 2);
    let breaches = after(arena.home, damage, &first, &second);
    if !breaches.is_empty() {
        clear(arena.home, arena.ground);
    }
    breaches
}

/// Ends what a home without its mark has left running and no longer knows.
fn clear(home: &Home, ground: Ground) {
    if let (Ground::Docker, Some(instance)) = (ground, home.instance()) {
        for id in engine().container_ids(&format!("coracle.instance={instance}")) {
            let _ = engine().client(["rm", "--force", &id]).output();
        }
    }
    let census = home.census();
    census.processes.iter().for_each(coracle_tests::census::Process::kill);
    eventually(SETTLE, || home.census().processes.is_empty());
    for group in census.cgroups {
        remove_groups(&group);
    }
}

fn remove_groups(group: &Path) {
    let below = fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    below.filter(|path| path.is_dir()).for_each(|path| remove_groups(&path));
    let _ = fs::remove_dir(group);
}

#[test]
fn db_01_a_database_that_is_moved_away_takes_nothing_with_it() {
    Attack::starred(GROUND, "DB-01", "move the database away while commands run, then gc, close and purge")
        .by(&[Route::Exec])
        .without(&["Mark"])
        .every(&["close says"])
        .run(|arena| attempt(arena, move_away));
}

#[test]
fn db_02_an_empty_database_is_no_new_home() {
    Attack::starred(
        GROUND,
        "DB-02",
        "truncate the database and its log to nothing while commands run, then gc, close and purge",
    )
    .by(&[Route::Exec])
    .without(&["Mark"])
    .run(|arena| attempt(arena, empty));
}

/// Does without a twin: what keeps the rest is how the database is made and counted, which is no wall one could leave out.
fn expect_nothing_called_gone(damage: Damage) {
    // What an engine adds is the container, and that is lost and found as above.
    if GROUND == Ground::Docker && count(0, 1) == 0 {
        return;
    }
    let home = GROUND.home();
    let first = Beating::start(&home, &home.open(), 1);
    let second = Beating::start(&home, &home.open(), 2);

    let breaches = after(&home, damage, &first, &second);

    assert!(breaches.is_empty(), "{breaches:?}");
}

macro_rules! requires_ground {
    () => {
        match GROUND {
            Ground::Native => requires!(native),
            Ground::Docker => requires!(docker),
        }
    };
}

#[test]
fn db_03_a_database_cut_in_half_is_noticed() {
    requires_ground!();
    expect_nothing_called_gone(cut_in_half);
}

/// The same, where every call has to say so first.
fn expect_noticed(damage: Damage) {
    let home = GROUND.home();
    let first = Beating::start(&home, &home.open(), 1);
    let second = Beating::start(&home, &home.open(), 2);
    damage(home.path());

    let refused = home.call(["close", &first.sandbox, "--json"]).run().error();

    assert_eq!((&refused["kind"], &refused["details"]["database_lost"]), (&"internal".into(), &true.into()));
    assert!(first.beats(&home) && second.beats(&home));
    let breaches = after(&home, |_| {}, &first, &second);
    assert!(breaches.is_empty(), "{breaches:?}");
}

#[test]
fn db_04_a_log_that_is_gone_is_noticed() {
    requires_ground!();
    expect_noticed(lose_log);
}

#[test]
fn db_05_a_log_that_is_torn_is_noticed() {
    requires_ground!();
    expect_noticed(tear_log);
}

#[test]
fn db_06_a_database_from_last_week_is_noticed_and_can_be_gone_on_with() {
    requires_ground!();
    let home = GROUND.home();
    let old = Beating::start(&home, &home.open(), 1);
    let copies = tempfile::tempdir().expect("a directory");
    let copy = |from: &Path, to: &Path| {
        FILES[..2].iter().for_each(|name| assert!(fs::copy(from.join(name), to.join(name)).is_ok()));
    };
    copy(home.path(), copies.path());
    let new = Beating::start(&home, &home.open(), 2);
    move_away(home.path());
    copy(copies.path(), home.path());

    let refused = home.call(["close", &new.sandbox, "--json"]).run().error();
    fs::remove_file(home.path().join("coracle.mark")).expect("it is there");
    home.call(["gc"]).succeed();
    let states =
        home.live().into_iter().map(|record| (record["sandbox_id"].clone(), record["state"].clone()));
    let states: Vec<_> = states.collect();

    assert_eq!(refused["details"]["database_lost"], true);
    assert!(old.beats(&home) && new.beats(&home), "nothing was touched");
    assert!(states.contains(&(old.sandbox.clone().into(), "ready".into())), "{states:?}");
    assert!(states.contains(&(new.sandbox.clone().into(), "quarantined".into())), "{states:?}");
    home.call(["close", &new.sandbox]).succeed();
    home.call(["close", &old.sandbox]).succeed();
    assert_eq!(old.outlives(&home, "close").or_else(|| new.outlives(&home, "close")), None);
}

#[test]
fn db_07_a_home_with_nothing_left_but_rooms_is_the_same_instance() {
    requires_ground!();
    expect_nothing_called_gone(|home| {
        move_away(home);
        ["instance", "coracle.mark"].iter().for_each(|name| drop(fs::remove_file(home.join(name))));
    });
}

#[test]
fn db_08_what_another_instance_made_is_not_called_gone() {
    requires_ground!();
    let home = GROUND.home();
    let canary = Beating::start(&home, &home.open(), 1);
    let note = home.path().join("instance");
    let ours = fs::read_to_string(&note).expect("it is there");
    let kept = tempfile::tempdir().expect("a directory");
    FILES.iter().for_each(|name| drop(fs::rename(home.path().join(name), kept.path().join(name))));
    fs::write(&note, "ins_01kca3t0m80000000000000000\n").expect("writes");
    fs::remove_file(home.path().join("coracle.mark")).expect("it is there");

    home.call(["gc"]).run();
    let closed = home.call(["close", &canary.sandbox, "--json"]).run();
    let purged = home.call(["purge", "--yes"]).run();

    assert!(closed.code() != Some(0) && purged.code() == Some(1), "{closed}\n{purged}");
    assert!(canary.beats(&home));
    // As the hint says.
    move_away(home.path());
    FILES.iter().for_each(|name| drop(fs::rename(kept.path().join(name), home.path().join(name))));
    fs::write(&note, ours).expect("writes");
    fs::remove_file(home.path().join("coracle.mark")).expect("it is there");
    home.call(["close", &canary.sandbox]).succeed();
    assert_eq!(canary.outlives(&home, "close"), None);
}

/// A backup is a home, too, and everything in it is called as in the original.
#[test]
fn db_09_a_copy_of_a_home_ends_nothing_of_the_original() {
    requires_ground!();
    let home = GROUND.home();
    let canary = Beating::start(&home, &home.open(), 1);
    let copies = tempfile::tempdir().expect("a directory");
    let copy = copies.path().join("copy").display().to_string();
    let copied = Command::new("cp").arg("--archive").arg(home.path()).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()));

    for words in [&["ps"][..], &["gc"], &["close", &canary.sandbox], &["purge", "--yes"]] {
        let refused = home.call([&["--home", &copy, "--json"], words].concat()).run().error();
        assert_eq!(refused["kind"], "conflict", "{words:?}: {refused}");
    }

    assert!(canary.beats(&home));
    home.call(["close", &canary.sandbox]).succeed();
    assert_eq!(canary.outlives(&home, "close"), None);
}

/// The wrong backup is put back, and the person does what the hints say.
#[test]
fn db_10_the_database_of_another_home_ends_nothing_there() {
    requires_ground!();
    let (home, other) = (GROUND.home(), GROUND.home());
    let (own, others) = (Beating::start(&home, &home.open(), 1), Beating::start(&other, &other.open(), 2));
    move_away(home.path());
    FILES[..2].iter().for_each(|name| {
        fs::copy(other.path().join(name), home.path().join(name)).expect("copies");
    });

    let refused = home.call(["ps", "--json"]).run().error();
    fs::remove_file(home.path().join("instance")).expect("it is there");
    let again = home.call(["gc", "--json"]).run().error();
    move_away(home.path());
    home.call(["gc"]).succeed();
    home.call(["close", &own.sandbox]).succeed();

    assert_eq!([&refused["kind"], &again["kind"]], ["conflict", "conflict"]);
    assert_eq!(own.outlives(&home, "close"), None);
    assert!(others.beats(&other));
    other.call(["close", &others.sandbox]).succeed();
}
