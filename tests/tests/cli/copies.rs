//! What `cp` keeps, and what it leaves alone.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_tests::{Call, Home, eventually, requires};
use rustix::process::Signal;
use tempfile::TempDir;

/// A directory here with something in it.
struct Local(TempDir);

impl Local {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory can be made"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).expect("the directory is ours");
        self.path(name)
    }

    fn make(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.path(name)).expect("the directory is ours");
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("the directory is ours");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

fn cp(home: &Home, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Call {
    home.call(["cp".as_ref(), from.as_ref().as_os_str(), to.as_ref().as_os_str()])
}

#[test]
fn a_copy_that_fails_leaves_the_local_file_as_it_was() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    let kept = local.write("report.txt", "the only copy");
    home.exec(&sandbox, ["ln", "-s", "/nowhere", "/workspace/report.txt"]).succeed();
    home.exec(&sandbox, ["ln", "-s", "nowhere", "/workspace/dangling"]).succeed();
    home.exec(&sandbox, ["sh", "-c", "echo secret > closed; chmod 000 closed"]).succeed();

    for inside in ["report.txt", "/workspace/report.txt", "dangling", "closed", "none"] {
        cp(&home, format!("{sandbox}:{inside}"), &kept).run().expect_code(125);
        assert_eq!(text(&kept), "the only copy", "{inside}");
    }
    assert_eq!(local.names(), ["report.txt"]);
}

#[test]
fn a_local_file_is_replaced_whole_and_not_through_a_link() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    let (elsewhere, link) = (local.write("elsewhere", "untouched"), local.path("link"));
    let replaced = local.write("replaced", "old");
    fs::hard_link(&replaced, local.path("witness")).expect("the directory is ours");
    symlink(&elsewhere, &link).expect("the directory is ours");
    home.exec(&sandbox, ["sh", "-c", "echo new > f; chmod 640 f"]).succeed();

    cp(&home, format!("{sandbox}:f"), &replaced).succeed();
    cp(&home, format!("{sandbox}:f"), &link).run().expect_code(125);

    assert_eq!((text(&replaced), text(&local.path("witness"))), ("new\n".to_owned(), "old".to_owned()));
    assert_eq!(fs::metadata(&replaced).expect("it is there").mode() & 0o7777, 0o640);
    assert_eq!(text(&elsewhere), "untouched");
}

#[test]
fn a_directory_keeps_links_permissions_times_and_emptiness() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    let tree = local.make("tree");
    local.make("tree/empty");
    local.make("tree/closed");
    local.write("tree/closed/script", "#!/bin/sh\n");
    symlink("/etc/passwd", tree.join("out")).expect("ours");
    symlink("closed/script", tree.join("in")).expect("ours");
    symlink("nowhere", tree.join("dangling")).expect("ours");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    mode(&tree.join("closed/script"), 0o751);
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(981_173_106, 789_000_001);
    for path in ["closed/script", "closed"] {
        fs::File::open(tree.join(path)).and_then(|file| file.set_modified(old)).expect("ours");
    }
    mode(&tree.join("closed"), 0o500);

    cp(&home, &tree, format!("{sandbox}:tree")).succeed();
    cp(&home, format!("{sandbox}:tree"), local.path("back")).succeed();

    let shown = "cd tree; stat -c '%n %A %Y %N' closed closed/script empty | cut -d' ' -f1-3; readlink out in dangling";
    let inside = home.exec(&sandbox, ["sh", "-c", shown]).succeed();
    let lines: Vec<_> = inside.text().lines().collect();
    assert_eq!(lines[..2], ["closed dr-x------ 981173106", "closed/script -rwxr-x--x 981173106"], "{inside}");
    assert_eq!(lines[3..], ["/etc/passwd", "closed/script", "nowhere"], "{inside}");
    let back = local.path("back");
    assert_eq!(fs::read_link(back.join("out")).expect("a link"), Path::new("/etc/passwd"));
    let script = fs::metadata(back.join("closed/script")).expect("it is there");
    assert_eq!(
        (script.mode() & 0o7777, script.mtime(), script.mtime_nsec()),
        (0o751, 981_173_106, 789_000_001)
    );
    assert_eq!(fs::metadata(back.join("closed")).expect("it is there").mode() & 0o7777, 0o500);
    assert!(fs::read_dir(back.join("empty")).expect("a directory").next().is_none());
}

#[test]
fn what_cannot_be_kept_is_an_error_before_anything_has_changed() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    home.exec(&sandbox, ["sh", "-c", "mkdir d; echo a > d/a; mkfifo d/pipe"]).succeed();
    let tree = local.make("tree");
    local.write("tree/a", "a");
    std::os::unix::net::UnixListener::bind(tree.join("socket")).expect("the directory is ours");
    let lent = local.write("lent", "x");
    fs::set_permissions(&lent, fs::Permissions::from_mode(0o4755)).expect("ours");

    let out = cp(&home, format!("{sandbox}:d"), local.path("back")).run().expect_code(125);
    cp(&home, &tree, format!("{sandbox}:in")).run().expect_code(125);
    cp(&home, &lent, format!("{sandbox}:lent")).run().expect_code(125);

    assert!(out.stderr.contains("`pipe`") && out.stderr.contains("--skip-special"), "{out}");
    assert_eq!(local.names(), ["lent", "tree"]);
    assert_eq!(home.exec(&sandbox, ["ls", "-A"]).succeed().text(), "d\n");

    let skipping = |from: &str, to: &str| home.call(["cp", "--skip-special", from, to]).succeed();
    let said = skipping(&format!("{sandbox}:d"), &local.path("back").display().to_string()).stderr;
    skipping(&tree.display().to_string(), &format!("{sandbox}:in"));
    skipping(&lent.display().to_string(), &format!("{sandbox}:lent"));

    assert!(said.contains("`pipe`"), "{said}");
    assert_eq!(text(&local.path("back/a")), "a\n");
    let shown = home.exec(&sandbox, ["sh", "-c", "ls in; stat -c %a lent"]).succeed();
    assert_eq!(shown.text(), "a\n755\n");
}

#[test]
fn nothing_is_written_through_a_link_in_the_local_target() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    let outside = local.make("outside");
    let passwd = local.write("outside/passwd", "untouched");
    for target in ["named/tree", "straight"] {
        local.make(target);
        symlink(&outside, local.path(target).join("a")).expect("ours");
    }
    home.exec(&sandbox, ["sh", "-c", "mkdir -p tree/a; echo hostile > tree/a/passwd; echo b > tree/b"])
        .succeed();
    home.exec(&sandbox, ["sh", "-c", "cp -r tree/a tree/b ."]).succeed();

    let named = cp(&home, format!("{sandbox}:tree"), local.path("named")).run().expect_code(125);
    cp(&home, format!("{sandbox}:."), local.path("straight")).run().expect_code(125);

    assert!(named.stderr.contains("link"), "{named}");
    assert_eq!(text(&passwd), "untouched");
    assert!(!local.path("named/tree/b").exists() && !local.path("straight/b").exists());

    // A link whose name the sandbox has chosen is not a directory to copy into, either.
    local.make("chosen");
    symlink(&outside, local.path("chosen/tree")).expect("ours");
    cp(&home, format!("{sandbox}:tree"), local.path("chosen")).run().expect_code(125);
    assert_eq!(fs::read_dir(&outside).expect("ours").count(), 1);
}

#[test]
fn a_file_streams_to_standard_output_and_from_standard_input() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();

    home.call(["cp", "-", &format!("{sandbox}:deep/blob")]).stdin(bytes.clone()).succeed();
    let back = home.call(["cp", &format!("{sandbox}:deep/blob"), "-"]).succeed();
    let refused = home.call(["cp", &format!("{sandbox}:deep"), "-"]).run().expect_code(125);

    assert!(back.stdout == bytes);
    assert_eq!(refused.stdout, b"");
    home.call(["cp", "-", "-"]).run().expect_code(125);
    let told = home.call(["cp", "-", &format!("{sandbox}:f"), "--json"]).stdin("four").succeed().json();
    assert_eq!((&told["files"], &told["bytes"]), (&1.into(), &4.into()), "{told}");
}

#[test]
fn the_longest_key_in_front_of_a_colon_names_the_sandbox() {
    requires!(native);
    let home = Home::new();
    let local = Local::new();
    let (short, long) = (home.open_with(&["--key", "a"]), home.open_with(&["--key", "a:b"]));
    let slashed = home.open_with(&["--key", "team/job"]);
    let from = local.write("f", "x");

    cp(&home, &from, "a:b:f").succeed();
    cp(&home, &from, "a:g:h").succeed();
    cp(&home, &from, "team/job:f").succeed();

    let names = |sandbox: &str| home.call(["fs", "list", sandbox]).succeed().text().to_owned();
    assert!(names(&long).contains("f") && names(&short).contains("g:h") && !names(&short).contains("b:f"));
    assert!(names(&slashed).contains("f"));
    cp(&home, "a:b:f", local.path("back:1")).succeed();
    assert_eq!(text(&local.path("back:1")), "x");
    let here = cp(&home, "./a:b:f", "a:x").run().expect_code(125);
    assert!(here.stderr.contains("./a:b:f"), "{here}");
}

#[test]
fn a_copy_into_a_directory_that_fails_halfway_changes_nothing_there() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    for path in ["tree/sub", "tree/new"] {
        local.make(path);
    }
    for (path, text) in [("tree/a", "new"), ("tree/sub/b", "new"), ("tree/new/c", "new"), ("tree/z", "new")] {
        local.write(path, text);
    }
    let fill = "mkdir -p tree/sub; for f in a sub/b z; do echo old > tree/$f; done; touch -d @1000000000 tree/sub tree";
    home.exec(&sandbox, ["sh", "-c", fill]).succeed();
    let look = ["sh", "-c", "cd tree; find . -type f -exec grep -H . {} + | sort; stat -c %Y sub ."];
    let before = home.exec(&sandbox, look).succeed().text().to_owned();

    // Without these capabilities root cannot read what is closed, either.
    let bound = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"];
    fs::set_permissions(local.path("tree/z"), fs::Permissions::from_mode(0o000)).expect("ours");
    let went = cp(&home, local.path("tree"), format!("{sandbox}:.")).through(bound).run().expect_code(125);

    assert!(went.stderr.contains("tree/z"), "{went}");
    assert_eq!(home.exec(&sandbox, look).succeed().text(), before);

    home.exec(&sandbox, ["sh", "-c", "echo y > tree/y; chmod 000 tree/y"]).succeed();
    local.make("to/tree/sub");
    local.write("to/tree/a", "kept");
    let dated = || fs::metadata(local.path("to/tree/sub")).and_then(|it| it.modified()).expect("it is there");
    let date = dated();
    cp(&home, format!("{sandbox}:tree"), local.path("to")).run().expect_code(125);

    assert_eq!(text(&local.path("to/tree/a")), "kept");
    assert_eq!(dated(), date);
    assert_eq!(fs::read_dir(local.path("to/tree")).expect("ours").count(), 2);
}

#[test]
fn a_copy_that_is_ended_by_a_signal_leaves_nothing() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    local.make("from");
    local.make("to");
    // Zeros that take no room here, and more of them than are copied until the signal comes.
    fs::File::create(local.path("from/f")).and_then(|file| file.set_len(8 << 30)).expect("ours");
    home.exec(&sandbox, ["sh", "-c", "mkdir d; truncate -s 8G d/f"]).succeed();

    let into = cp(&home, local.path("from"), format!("{sandbox}:in")).start();
    let staged = || home.exec(&sandbox, ["ls", "-A"]).succeed().text().contains(".coracle-");
    assert!(eventually(Duration::from_secs(30), staged).is_some());
    into.signal(Signal::TERM);
    into.finish().expect_code(143);
    let out = cp(&home, format!("{sandbox}:d"), local.path("to/d")).start();
    let staged = || fs::read_dir(local.path("to")).expect("ours").next().is_some();
    assert!(eventually(Duration::from_secs(30), staged).is_some());
    out.signal(Signal::INT);
    out.finish().expect_code(130);

    assert_eq!(home.exec(&sandbox, ["ls", "-A"]).succeed().text(), "d\n");
    assert!(fs::read_dir(local.path("to")).expect("ours").next().is_none());
}

#[test]
fn a_link_does_not_hide_what_cannot_be_kept() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    home.exec(&sandbox, ["sh", "-c", "echo x > f; chmod 4755 f; ln -s f way"]).succeed();

    let refused = cp(&home, format!("{sandbox}:way"), local.path("f")).run().expect_code(125);

    assert!(refused.stderr.contains("set-user-id"), "{refused}");
    assert_eq!(local.names(), [""; 0]);
}

#[test]
fn odd_names_are_names() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    let tree = local.make("tree");
    let names: [&[u8]; 5] = [b"-rf", b"two\nlines", b"caf\xe9\xff", b" ", b"--"];
    for name in names {
        fs::write(tree.join(OsStr::from_bytes(name)), name).expect("ours");
    }

    cp(&home, &tree, format!("{sandbox}:tree")).succeed();
    cp(&home, format!("{sandbox}:tree"), local.path("back")).succeed();
    cp(&home, format!("{sandbox}:tree/-rf"), local.path("-rf")).succeed();

    for name in names {
        let path = local.path("back").join(OsStr::from_bytes(name));
        assert_eq!(fs::read(path).expect("it came back"), name);
    }
    assert_eq!(text(&local.path("-rf")), "-rf");
}

#[test]
fn a_directory_that_is_there_takes_the_copy_in() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    let tree = local.make("tree");
    local.write("tree/f", "new");
    home.exec(
        &sandbox,
        ["sh", "-c", "mkdir -p d/tree; echo old > d/tree/f; echo kept > d/tree/g; ln -s d way"],
    )
    .succeed();

    cp(&home, &tree, format!("{sandbox}:way")).succeed();
    cp(&home, &tree, format!("{sandbox}:fresh/")).succeed();
    cp(&home, format!("{sandbox}:d/tree/g"), local.path("fresh/")).succeed();
    assert_eq!(text(&local.path("fresh/g")), "kept\n", "the same both ways");
    cp(&home, format!("{sandbox}:none"), local.path("other/")).run().expect_code(125);
    assert!(!local.path("other").exists(), "a copy that fails makes no directory");
    cp(&home, format!("{sandbox}:way"), local.path("back")).succeed();

    let shown = home.exec(&sandbox, ["sh", "-c", "cat d/tree/f d/tree/g fresh/tree/f; ls"]).succeed();
    assert_eq!(shown.text(), "newkept\nnewd\nfresh\nway\n");
    assert_eq!(text(&local.path("back/tree/g")), "kept\n");
}

/// Exchanges a directory of a tree with a link to one outside, at once and again and again.
const SWAP: &str = "
import ctypes, os, time
os.makedirs('/tmp/tree/new/d'); os.mkdir('/tmp/outside'); os.symlink('/tmp/outside', '/tmp/link')
for number in range(100):
    open(f'/tmp/tree/new/d/{number}', 'w').write('inside\\n')
    open(f'/tmp/outside/{number}', 'w').write('outside\\n')
kernel = ctypes.CDLL(None)
print('swapping', flush=True)
while not os.path.exists('/tmp/stop'):
    kernel.renameat2(-100, b'/tmp/tree/new/d', -100, b'/tmp/link', 2)
    time.sleep(0.002)
";

#[test]
fn a_directory_that_becomes_a_link_leads_no_copy_out_of_its_tree() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = Local::new();
    for number in 0..100 {
        local.make("new/d");
        local.write(&format!("new/d/{number}"), "written");
    }
    let swapper = home.exec(&sandbox, ["python3", "-c", SWAP]).start();
    swapper.wait_for(|output| output.starts_with(b"swapping"));

    for _ in 0..12 {
        cp(&home, local.path("new"), format!("{sandbox}:/tmp/tree")).run();
        cp(&home, format!("{sandbox}:/tmp/tree/new"), local.make("out")).run();
    }

    home.exec(&sandbox, ["touch", "/tmp/stop"]).succeed();
    swapper.finish();
    // The directory may be under the name of the link when the swapping stops.
    let outside = home.exec(&sandbox, ["sh", "-c", "cat $(readlink -f /tmp/outside)/* | sort -u"]).succeed();
    assert_eq!(outside.text(), "outside\n");
    for file in fs::read_dir(local.path("out/new/d")).into_iter().flatten() {
        assert_ne!(text(&file.expect("an entry").path()), "outside\n");
    }
}
