//! Random trees through `cp`, there and back: what comes back is equal, or an error came before anything had changed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use coracle_tests::{Home, count, requires};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

/// Numbers that look drawn, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.roll(from.len() as u64) as usize]
    }
}

/// What is known of one thing in a tree: its permissions, its time, and what it holds or leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Thing {
    mode: u32,
    mtime: (i64, i64),
    holds: Holds,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Holds {
    Names,
    /// Their number and what they hash to.
    Bytes(usize, u64),
    Way(PathBuf),
    Special,
}

type Snapshot = BTreeMap<PathBuf, Thing>;

fn snapshot(root: &Path) -> Snapshot {
    let mut all = Snapshot::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(path) = pending.pop() {
        let full = root.join(&path);
        let metadata = full.symlink_metadata().expect("it is there");
        let kind = metadata.file_type();
        let holds = match kind {
            kind if kind.is_dir() => {
                let entries = fs::read_dir(&full).expect("root reads everything");
                pending.extend(entries.map(|entry| path.join(entry.expect("an entry").file_name())));
                Holds::Names
            }
            kind if kind.is_file() => {
                let bytes = fs::read(&full).expect("root reads everything");
                let mut hasher = DefaultHasher::new();
                hasher.write(&bytes);
                Holds::Bytes(bytes.len(), hasher.finish())
            }
            kind if kind.is_symlink() => Holds::Way(fs::read_link(&full).expect("a link")),
            kind => {
                assert!(kind.is_fifo() || kind.is_socket());
                Holds::Special
            }
        };
        let mode = metadata.mode() & 0o7777;
        all.insert(path, Thing { mode, mtime: (metadata.mtime(), metadata.mtime_nsec()), holds });
    }
    all
}

const NAMES: [&[u8]; 12] = [
    b"a",
    b"b",
    b"-rf",
    b"--",
    b"two\nlines",
    b"caf\xe9",
    b"\xff\xfe",
    b" ",
    b"...",
    b".coracle-1",
    b"$(id)",
    b"name",
];
const TARGETS: [&str; 7] = ["a", "../b", "/etc/passwd", "..", ".", "nowhere/at/all", "/"];

/// Grows a tree and returns whether all of it can be kept.
fn grow(dice: &mut Dice, root: &Path, special: bool) -> bool {
    fs::create_dir(root).expect("ours");
    let mut directories = vec![root.to_owned()];
    let mut all = vec![root.to_owned()];
    let mut kept = true;
    for _ in 0..dice.roll(24) {
        let mut name = dice.pick(&NAMES).to_vec();
        if dice.roll(3) == 0 {
            name.extend(dice.roll(1000).to_string().bytes());
        }
        let parent = directories[dice.roll(directories.len() as u64) as usize].clone();
        let path = parent.join(OsStr::from_bytes(&name));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match dice.roll(if special { 11 } else { 10 }) {
            0..3 => {
                fs::create_dir(&path).expect("ours");
                directories.push(path.clone());
            }
            3..5 => symlink(dice.pick(&TARGETS), &path).expect("ours"),
            10 => {
                let fifo = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(CWD, &path, fifo, rustix::fs::Mode::RUSR, 0).expect("ours");
                kept = false;
            }
            _ => {
                let size = if dice.roll(40) == 0 { 1_500_000 } else { dice.roll(5000) };
                let byte = dice.roll(256) as u8;
                fs::write(&path, vec![byte; size as usize]).expect("ours");
            }
        }
        all.push(path);
    }
    // From the inside out, or the times of directories would change again.
    for path in all.iter().rev() {
        if !path.is_symlink() {
            let mut mode = dice.pick(&[&0o644, &0o755, &0o700, &0o000, &0o1777, &0o511, &0o640]).to_owned();
            if special && dice.roll(12) == 0 && !path.symlink_metadata().expect("ours").file_type().is_fifo()
            {
                mode |= 0o2000;
                kept = false;
            }
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        }
        let seconds = dice.roll(4_000_000_000) as i64 - 1_000_000_000;
        let mtime = Timespec { tv_sec: seconds, tv_nsec: dice.roll(1_000_000_000) as i64 };
        let times = Timestamps { last_access: mtime, last_modification: mtime };
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("ours");
    }
    kept
}

/// What a copy that skips has of a tree.
fn without_special(mut all: Snapshot) -> Snapshot {
    all.retain(|_, thing| thing.holds != Holds::Special);
    all.values_mut()
        .filter(|thing| !matches!(thing.holds, Holds::Way(_)))
        .for_each(|thing| thing.mode &= 0o1777);
    all
}

/// What `over` makes of `under` where it fits: a directory meets a directory, anything else no directory.
fn merged(under: &Snapshot, over: &Snapshot) -> Option<Snapshot> {
    let mut all = under.clone();
    for (path, thing) in over.iter().filter(|(path, _)| !path.as_os_str().is_empty()) {
        match all.get(path) {
            Some(there) if (there.holds == Holds::Names) != (thing.holds == Holds::Names) => return None,
            _ => drop(all.insert(path.clone(), thing.clone())),
        }
    }
    Some(all)
}

/// Forgets when the root itself was changed.
fn undated(mut all: Snapshot) -> Snapshot {
    all.entry(PathBuf::new()).and_modify(|root| root.mtime = (0, 0));
    all
}

#[track_caller]
fn expect_equal(found: &Snapshot, expected: &Snapshot) {
    for path in found.keys().chain(expected.keys()) {
        assert_eq!(found.get(path), expected.get(path), "{path:?}");
    }
}

#[test]
fn a_tree_comes_back_as_it_went_or_not_at_all() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let (mut equal, mut refused, mut met) = (0, 0, 0);

    for number in 0..count(24, 1000) {
        let dice = &mut Dice(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1) << 20);
        let room = tempfile::tempdir().expect("a directory can be made");
        let at = |name: &str| room.path().join(name);
        let kept = grow(dice, &at("tree"), number % 4 == 0);
        let tree = snapshot(&at("tree"));
        let (inside, user) = (format!("{sandbox}:tree"), if number % 2 == 0 { "root" } else { "0:0" });
        let here = at("tree").display().to_string();
        let copy = |from: &str, to: &str, more: &[&str]| {
            home.call(["cp", "--user", user].iter().chain(more).chain(&[from, to])).run()
        };

        let went = copy(&here, &inside, &[]);
        assert_eq!(went.code() == Some(0), kept, "tree {number}: {went}");
        if !kept {
            refused += 1;
            assert_eq!(home.call(["fs", "list", &sandbox]).succeed().text(), "", "tree {number}");
            copy(&here, &inside, &["--skip-special"]).expect_code(0);
        }
        let expected = without_special(tree);
        let back = at("back").display().to_string();
        let came = copy(&inside, &back, &[]);
        if came.code() != Some(0) {
            // A user who is not above permissions is refused what permissions refuse.
            refused += 1;
            assert!(user != "root" && came.stderr.contains("Permission denied"), "tree {number}: {came}");
            assert!(!at("back").exists(), "tree {number}");
            assert_eq!(fs::read_dir(room.path()).expect("ours").count(), 1, "tree {number}");
            home.call(["cp", "--user", "root", &inside, &back]).succeed();
        }
        expect_equal(&snapshot(&at("back")), &expected);
        equal += 1;
        if number % 5 == 0 && user == "root" {
            met += meet(&home, &sandbox, dice, room.path(), &expected);
        }
        home.call(["fs", "delete", &sandbox, "tree", "--recursive", "--user", "root"]).succeed();
    }
    eprintln!("{equal} came back equal, {refused} were refused before anything changed, {met} met others");
}

/// Copies another tree onto the one in the sandbox, and what is there then onto the first one here. Returns how many of
/// the two fitted.
fn meet(home: &Home, sandbox: &str, dice: &mut Dice, room: &Path, there: &Snapshot) -> usize {
    let (other, back) = (room.join("other/tree"), room.join("met"));
    fs::create_dir(room.join("other")).expect("ours");
    grow(dice, &other, false);
    let copy = |from: &str, to: &str| home.call(["cp", "--user", "root", from, to]).run();

    let went = copy(&other.display().to_string(), &format!("{sandbox}:."));
    copy(&format!("{sandbox}:tree"), &back.display().to_string()).expect_code(0);
    let expected = merged(there, &snapshot(&other));
    assert_eq!(went.code() == Some(0), expected.is_some(), "{went}");
    let mut fitted = usize::from(expected.is_some());
    let inside = expected.unwrap_or_else(|| there.clone());
    expect_equal(&undated(snapshot(&back)), &undated(inside.clone()));

    let (local, before) = (room.join("other"), snapshot(&other));
    // One of the files cannot be read by a user who is not above permissions: then nothing changes, not even times.
    home.call(["fs", "write", sandbox, "tree/~closed", "--user", "root", "--mode", "000"])
        .stdin("x")
        .succeed();
    let refused = home.call(["cp", &format!("{sandbox}:tree"), &local.display().to_string()]).run();
    assert_ne!(refused.code(), Some(0), "{refused}");
    expect_equal(&snapshot(&other), &before);
    home.call(["fs", "delete", sandbox, "tree/~closed", "--user", "root"]).succeed();
    let came = copy(&format!("{sandbox}:tree"), &local.display().to_string());
    let expected = merged(&before, &inside);
    assert_eq!(came.code() == Some(0), expected.is_some(), "{came}");
    fitted += usize::from(expected.is_some());
    expect_equal(&undated(snapshot(&other)), &undated(expected.unwrap_or(before)));
    fitted
}
