//! How layers, honest and less honest, look once they are unpacked.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use coracle_core::image::Silent;
use coracle_images::testing::{Compression, Image, Layer, Registry};
use tar::EntryType;

use crate::workshop::{Workshop, reference};

/// Pulls an image and returns its layers, bottom first.
fn unpacked(image: &Image) -> (Workshop, Vec<PathBuf>) {
    let registry = Registry::start();
    let workshop = Workshop::new();
    let name = registry.push("a:1", image);
    workshop.store.pull(&reference(&name), &Silent).expect("it is taken");
    let layers = workshop.image(&name).layers;
    (workshop, layers)
}

fn single(layer: Layer) -> (Workshop, PathBuf) {
    let (workshop, mut layers) = unpacked(&Image::single(layer));
    (workshop, layers.remove(0))
}

fn stat(path: &Path) -> fs::Metadata {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let length = coracle_sys::rustix::fs::lgetxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

#[test]
fn owners_modes_and_times_are_those_of_the_archive() {
    let owned = |header: &mut tar::Header| {
        header.set_uid(33);
        header.set_gid(44);
        header.set_mode(0o640);
    };
    let layer = Layer::new()
        .entry("./", EntryType::Directory, |header| header.set_mode(0o711), b"")
        .entry("data", EntryType::Regular, owned, b"content")
        .directory("closed/", 0o000)
        .file("closed/inside", 0o400, b"x");

    let (_workshop, root) = single(layer);

    let data = stat(&root.join("data"));
    assert_eq!((data.uid(), data.gid(), data.mode() & 0o7777, data.mtime()), (33, 44, 0o640, 1_000_000_000));
    let closed = stat(&root.join("closed"));
    assert_eq!((closed.mode() & 0o7777, closed.mtime()), (0, 1_000_000_000));
    assert_eq!(stat(&root.join("closed/inside")).len(), 1);
    assert_eq!(stat(&root).mode() & 0o7777, 0o711);
}

#[test]
fn what_could_lend_privileges_is_stripped() {
    let layer = Layer::new()
        .file("setuid", 0o6755, b"x")
        .directory("shared/", 0o3777)
        .records(&[
            ("SCHILY.xattr.security.capability", b"\x01\0\0\x02\xff\n\xff\0"),
            ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
            ("SCHILY.xattr.user.overlay.opaque", b"y"),
            ("SCHILY.xattr.user.note", b"kept\nas it is"),
        ])
        .directory("marked/", 0o755)
        .entry(
            "device",
            EntryType::Char,
            |header| header.set_device_major(1).and(header.set_device_minor(1)).expect("fits"),
            b"",
        )
        .entry("whiteout", EntryType::Char, |_| {}, b"")
        .entry("disk", EntryType::Block, |_| {}, b"")
        .entry("pipe", EntryType::Fifo, |header| header.set_mode(0o622), b"");

    let (_workshop, root) = single(layer);

    assert_eq!(stat(&root.join("setuid")).mode() & 0o7777, 0o755);
    assert_eq!(stat(&root.join("shared")).mode() & 0o7777, 0o3777);
    for gone in ["security.capability", "trusted.overlay.opaque", "user.overlay.opaque"] {
        assert_eq!(attribute(&root.join("marked"), gone), None, "{gone}");
    }
    assert_eq!(attribute(&root.join("marked"), "user.note").as_deref(), Some(b"kept\nas it is".as_slice()));
    for gone in ["device", "whiteout", "disk"] {
        assert!(!root.join(gone).exists(), "{gone}");
    }
    assert!(stat(&root.join("pipe")).file_type().is_fifo());
}

#[test]
fn ids_and_times_out_of_range_become_ones_that_exist() {
    let huge = |header: &mut tar::Header| {
        header.set_uid(u64::from(u32::MAX));
        header.set_gid(65_535);
        header.set_mtime(1 << 60);
    };
    let layer = Layer::new()
        .entry("huge", EntryType::Regular, huge, b"")
        .records(&[("mtime", b"-5.25"), ("uid", b"4294967296")])
        .file("past", 0o644, b"");

    let (_workshop, root) = single(layer);

    let huge = stat(&root.join("huge"));
    assert_eq!((huge.uid(), huge.gid(), huge.mtime()), (65_534, 65_534, i64::from(u32::MAX)));
    let past = stat(&root.join("past"));
    assert_eq!((past.uid(), past.mtime()), (65_534, 0));
}

#[test]
fn a_later_entry_replaces_an_earlier_one() {
    let layer = Layer::new()
        .file("file", 0o644, b"old")
        .hard_link("same", "file")
        .file("file", 0o600, b"new")
        .directory("tree/", 0o755)
        .file("tree/deep/leaf", 0o644, b"x")
        .file("tree", 0o644, b"no tree")
        .symlink("link", "/etc")
        .directory("link/", 0o700)
        .file("link/inside", 0o644, b"x")
        .directory("kept/", 0o755)
        .file("kept/leaf", 0o644, b"x")
        .directory("kept/", 0o700);

    let (_workshop, root) = single(layer);

    assert_eq!(fs::read(root.join("file")).expect("it is there"), b"new");
    assert_eq!(fs::read(root.join("same")).expect("it is there"), b"old");
    assert_eq!(fs::read(root.join("tree")).expect("it is there"), b"no tree");
    assert!(stat(&root.join("link")).is_dir());
    assert_eq!(stat(&root.join("kept")).permissions().mode() & 0o777, 0o700);
    assert!(root.join("kept/leaf").exists());
}

#[test]
fn names_are_taken_as_they_are() {
    let long = "n".repeat(200);
    let layer = Layer::new()
        .file("/absolute", 0o644, b"x")
        .file(r"C:\x", 0o644, b"x")
        .entry("x", EntryType::GNULongName, |_| {}, format!("deep/{long}\0").as_bytes())
        .file("short", 0o644, b"x")
        .records(&[("path", "ü\n2".as_bytes())])
        .file("other", 0o644, b"x")
        .entry("old/", EntryType::Regular, |header| header.as_old_mut().linkflag = [0], b"");

    let (_workshop, root) = single(layer);

    for name in ["absolute", r"C:\x", &format!("deep/{long}"), "ü\n2", "old"] {
        assert!(root.join(name).exists(), "{name}");
    }
    assert!(!root.join("short").exists() && !root.join("other").exists());
    assert_eq!(stat(&root.join("deep")).permissions().mode() & 0o7777, 0o755);
}

#[test]
fn members_of_one_gzip_stream_are_one_layer() {
    let archive = Layer::new().file("a", 0o644, &[7; 4000]).file("b", 0o644, b"x").archive();
    let (first, second) = archive.split_at(1500);
    let packed = [Compression::Gzip.pack(first), Compression::Gzip.pack(second)].concat();

    let (_workshop, layers) = unpacked(&Image::of_parts(vec![archive], vec![(packed, Compression::Gzip)]));

    assert_eq!(stat(&layers[0].join("a")).len(), 4000);
    assert!(layers[0].join("b").exists());
}

#[test]
fn an_overlay_of_the_layers_shows_what_docker_would() {
    let bottom = Layer::new()
        .file("gone", 0o644, b"bottom")
        .file("replaced/old", 0o644, b"bottom")
        .file("opaque/old", 0o644, b"bottom")
        .file("merged/old", 0o644, b"bottom")
        .symlink("bin", "usr/bin")
        .file("usr/bin/tool", 0o755, b"bottom");
    let top = Layer::new()
        .whiteout("gone")
        .whiteout("replaced")
        .file("replaced/new", 0o644, b"top")
        .file("opaque/new", 0o644, b"top")
        .file("opaque/.wh..wh..opq", 0o644, b"")
        .file("merged/new", 0o644, b"top")
        .file("bin/own", 0o755, b"top")
        .whiteout("never-there");
    let image = Image::new(&[(bottom, Compression::Gzip), (top, Compression::Zstd)]);

    let (workshop, layers) = unpacked(&image);

    let target = workshop.directory.path().join("merged");
    fs::create_dir(&target).expect("the directory is ours");
    let script = format!(
        "mount -t overlay overlay -o ro,userxattr,lowerdir={}:{} {target} && cd {target} && find . | sort | tr '\\n' ' '",
        layers[1].display(),
        layers[0].display(),
        target = target.display(),
    );
    let output =
        Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().expect("util-linux is there");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        ". ./bin ./bin/own ./merged ./merged/new ./merged/old ./opaque ./opaque/new ./replaced ./replaced/new \
         ./usr ./usr/bin ./usr/bin/tool",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn no_other_user_can_reach_a_layer() {
    let (workshop, layer) = single(Layer::new().file("secret", 0o644, b"x"));

    assert_eq!(stat(&workshop.path()).mode() & 0o7777, 0o700);
    let peek = Command::new("setpriv")
        .args(["--reuid", "65534", "--clear-groups", "cat"])
        .arg(layer.join("secret"))
        .output()
        .expect("util-linux is there");
    assert!(!peek.status.success());
}

#[test]
fn a_layer_that_is_there_twice_is_used_once() {
    let layer = Layer::new().file("a", 0o644, b"x");
    let between = Layer::new().file("b", 0o644, b"y");
    let gzip = Compression::Gzip;

    let (_workshop, layers) = unpacked(&Image::new(&[(layer.clone(), gzip), (between, gzip), (layer, gzip)]));

    assert_eq!(layers.len(), 2);
    assert!(layers[0].join("b").exists() && layers[1].join("a").exists());
}
