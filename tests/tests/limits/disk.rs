//! Disk: what a sandbox writes is bounded, whichever way it writes it, and costs the machine no more than that.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use coracle_tests::{Home, SOON, count, requires};

/// Both ways files are kept.
const STORAGES: [&str; 2] = ["disk", "memory"];

/// Writes until it cannot, and says how much that was and why it ended.
const FILL: &str = "
import errno, os, sys
written, file = 0, os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
try:
    while written < 512 << 20:
        written += os.write(file, b'x' * (1 << 20))
    os.fsync(file)
except OSError as error:
    print(errno.errorcode[error.errno], written >> 20)
";

fn open(home: &Home, storage: &str, flags: &[&str]) -> String {
    home.open_with(&[&["--storage", storage], flags].concat())
}

/// Returns what a directory takes on the machine, in megabytes.
fn taken(path: &Path) -> u64 {
    fn blocks(path: &Path) -> u64 {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let of = |path: &Path| match path.symlink_metadata() {
            Ok(found) if found.is_dir() => blocks(path),
            Ok(found) => found.blocks(),
            Err(_) => 0,
        };
        entries.map(|entry| of(&entry.path())).sum()
    }
    (blocks(path) * 512) >> 20
}

#[test]
fn writing_past_the_limit_fails_inside_and_costs_nothing_outside() {
    requires!(native);
    for storage in STORAGES {
        let home = Home::new();
        let sandbox = open(&home, storage, &["--disk", "32m"]);

        let filled = home.exec(&sandbox, ["python3", "-c", FILL, "big"]).succeed();

        let text = filled.text();
        let (error, megabytes) = text.trim().split_once(' ').unwrap_or_else(|| panic!("{storage}: {filled}"));
        assert!(matches!(error, "ENOSPC" | "EDQUOT"), "{storage}: {filled}");
        assert!((28..=36).contains(&megabytes.parse::<u64>().expect("a number")), "{storage}: {filled}");
        assert!(taken(home.path()) < 64, "{storage}: {} MB are taken outside", taken(home.path()));
        home.exec(&sandbox, ["sh", "-c", "rm big && echo fits > note"]).succeed();
        assert_eq!(home.exec(&sandbox, ["cat", "note"]).succeed().text(), "fits\n");
    }
}

#[test]
fn a_small_disk_is_hardly_larger_than_asked() {
    requires!(native);
    for storage in STORAGES {
        for (size, asked) in [("1m", 1 << 20), ("2m", 2 << 20), ("4m", 4 << 20), ("16m", 16 << 20)] {
            let home = Home::new();
            let sandbox = open(&home, storage, &["--disk", size]);

            let script = "head -c 99999999 /dev/zero > big 2> /dev/null; stat -c %s big";
            let held = home.exec(&sandbox, ["sh", "-c", script]).succeed();

            let held: u64 = held.text().trim().parse().expect("a number");
            assert!(held > asked - asked / 4 && held < asked + asked / 3, "{storage} {size}: {held} bytes");
        }
    }
}

#[test]
fn one_bound_holds_for_every_place_that_can_be_written() {
    requires!(native);
    for storage in STORAGES {
        for place in ["/tmp", "/var/tmp", "/usr/local/lib", "/root", "/new"] {
            let home = Home::new();
            let sandbox = open(&home, storage, &["--disk", "16m"]);
            home.exec(&sandbox, ["mkdir", "-p", place]).succeed();

            let filled = home.exec(&sandbox, ["python3", "-c", FILL, &format!("{place}/big")]).succeed();

            assert!(filled.text().starts_with("ENOSPC"), "{storage} {place}: {filled}");
        }
    }
}

#[test]
fn what_is_deleted_but_open_allocated_or_full_of_holes_counts() {
    requires!(native);
    let attempt = "
import errno, os
def refused(deed):
    try:
        deed()
    except OSError as error:
        return errno.errorcode[error.errno]
def deleted_but_open():
    for number in range(64):
        file = os.open('gone', os.O_WRONLY | os.O_CREAT)
        os.unlink('gone')
        os.write(file, b'x' * (1 << 20))
def allocated():
    os.posix_fallocate(os.open('allocated', os.O_WRONLY | os.O_CREAT), 0, 256 << 20)
def holes():
    file = os.open('holes', os.O_WRONLY | os.O_CREAT)
    for number in range(1 << 16):
        os.pwrite(file, b'x', number << 20)
print(refused(allocated), refused(holes))
os.path.exists('allocated') and os.unlink('allocated')
os.unlink('holes')
print(refused(deleted_but_open))
";
    for storage in STORAGES {
        let home = Home::new();
        let sandbox = open(&home, storage, &["--disk", "32m"]);

        let tried = home.exec(&sandbox, ["python3", "-c", attempt]).succeed();

        assert_eq!(tried.text(), "ENOSPC ENOSPC\nENOSPC\n", "{storage}");
    }
}

#[test]
fn files_are_counted() {
    requires!(native);
    let attempt = "
import errno, os, sys
made = 0
try:
    while made < 2_000_000:
        os.close(os.open(f'{made:0250}', os.O_CREAT))
        made += 1
except OSError as error:
    print(errno.errorcode[error.errno], made)
";
    // A filesystem on disk is divided into parts, and each has room for a few.
    let most = count(20_000, 1_000_000);
    for storage in STORAGES {
        let home = Home::new();
        let sandbox = open(&home, storage, &["--inodes", &most.to_string(), "--memory", "8g"]);

        let tried =
            home.exec(&sandbox, ["python3", "-c", attempt]).within(Duration::from_secs(300)).succeed();

        let text = tried.text();
        let (error, made) = text.trim().split_once(' ').unwrap_or_else(|| panic!("{storage}: {tried}"));
        assert_eq!(error, "ENOSPC", "{storage}: {tried}");
        assert!(made.parse::<usize>().expect("a number") <= most + most / 10, "{storage}: {tried}");
        let began = Instant::now();
        home.call(["close", &sandbox]).succeed();
        assert!(began.elapsed() < SOON, "{storage}: closing took {:?}", began.elapsed());
    }
}

/// Without a bound the files are in a directory of the home, and have to be removed one by one.
#[test]
fn whatever_was_made_closing_removes_it_soon() {
    requires!(native);
    let make = "
import os
os.makedirs('closed/inner'), open('closed/inner/file', 'w').close()
for number in range(5_000):
    os.mkdir('d'), os.chdir('d')
    if number % 1_000 == 0: open('file', 'w').close()
os.chdir('/workspace')
os.chmod('closed/inner', 0), os.chmod('closed', 0)
";
    let homes = [Home::new(), Home::new(), Home::new(), Home::ordinary()];
    let flags: [&[&str]; 4] = [&["--storage", "disk"], &["--storage", "memory"], &["--unlimited"], &[]];
    for (home, flags) in homes.iter().zip(flags) {
        let sandbox = home.open_with(flags);
        home.exec(&sandbox, ["python3", "-c", make]).succeed();

        let began = Instant::now();
        home.call(["close", &sandbox]).succeed();

        // A busy machine has its say in this; without care it takes minutes.
        assert!(began.elapsed() < SOON, "{flags:?}: {:?}", began.elapsed());
        home.expect_nothing_left();
    }
}

#[test]
fn a_limit_that_cannot_be_enforced_is_refused() {
    requires!(native);
    let home = Home::ordinary();

    // On a disk an ordinary user can bound nothing, and in memory there is not that much.
    let refused =
        home.call(["open", "--disk", "20g", "--allow-missing", "memory", "--memory", "1g", "--json"]).run();

    assert_eq!(refused.code(), Some(125), "{refused}");
    assert_eq!(refused.json()["error"]["kind"], "unsupported", "{refused}");
    assert!(refused.text().contains("disk"), "{refused}");
}

#[test]
fn many_sizes_at_once_are_no_trouble() {
    requires!(native);
    let home = Home::new();
    let sizes: Vec<_> = (1..=20).map(|size| format!("{size}m")).collect();

    let runs: Vec<_> =
        sizes.iter().map(|size| home.call(["run", "--disk", size, "--", "true"]).start()).collect();

    for run in runs {
        run.finish().expect_code(0);
    }
}
