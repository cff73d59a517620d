//! The names of allowed hosts in images that have an `/etc/hosts` of their own, a strange one, or none.

use coracle_images::testing::{Image, Layer};
use coracle_tests::{Home, requires};

use crate::workshop::{busybox_layer, registry};

const NETWORK: [&str; 2] = ["--network", "allow=ok.test,db.test:5432"];

#[test]
fn allowed_hosts_are_named_whatever_the_image_has_there() {
    requires!(images);
    let etc = || busybox_layer().directory("etc", 0o755);
    let own = b"10.1.2.3\tof-the-image\n";
    let images: [(&str, Layer); 5] = [
        ("none", busybox_layer()),
        ("empty", etc()),
        ("own", etc().file("etc/hosts", 0o644, own)),
        ("link", etc().symlink("etc/hosts", "/tmp/elsewhere")),
        ("magic", etc().symlink("etc/hosts", "/proc/self/fd/0")),
    ];
    for (name, layer) in images {
        let reference = registry().push(&format!("hosts-{name}:test"), &Image::single(layer));
        // Both ways the root is put together, for the two that matter most.
        let ordinary = ["none", "own"].contains(&name).then(Home::ordinary);
        for home in [Home::new()].into_iter().chain(ordinary) {
            let script = "cat /etc/hosts; test ! -e /tmp/elsewhere && echo untouched";
            let words = [&["run", "--image", &reference], &NETWORK[..], &["--", "sh", "-c", script]].concat();

            let ran = home.call(words).succeed();

            let lines = ["127.77.0.1\tok.test", "127.77.0.2\tdb.test", "untouched"];
            assert!(lines.iter().all(|line| ran.text().lines().any(|own| own == *line)), "{name}: {ran}");
            assert_eq!(ran.text().contains("of-the-image"), name == "own", "{name}: {ran}");
        }
    }
}

#[test]
fn where_names_cannot_be_written_nothing_is_started() {
    requires!(images);
    let home = Home::new();
    let linked =
        busybox_layer().directory("usr", 0o755).directory("usr/etc", 0o755).symlink("etc", "/usr/etc");
    let directory = busybox_layer().directory("etc", 0o755).directory("etc/hosts", 0o755);
    for (name, layer) in [("linked-etc:test", linked), ("hosts-directory:test", directory)] {
        let reference = registry().push(name, &Image::single(layer));

        let words = [&["run", "--json", "--image", &reference], &NETWORK[..], &["--", "true"]].concat();
        let refused = home.call(words).run();

        assert_eq!(refused.error_kind(), "start_failed", "{name}");
        home.call(["run", "--image", &reference, "--", "true"]).succeed();
    }
    home.expect_no_orphans();
}

#[test]
fn a_directory_of_the_callers_at_etc_is_left_alone() {
    requires!(native);
    let home = Home::new();
    let own = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(own.path().join("hosts"), "mine\n").expect("ours");
    let mount = format!("{}:/etc:rw", own.path().display());

    let refused = home.call(["run", "--mount", &mount, "--network", "allow=ok.test", "--", "true"]).run();

    assert_eq!(refused.code(), Some(125), "{refused}");
    assert!(refused.stderr.contains("TARGET is `/etc`"), "{refused}");
    assert_eq!(std::fs::read(own.path().join("hosts")).expect("it is there"), b"mine\n");
}
