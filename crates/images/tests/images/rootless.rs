//! Pulls as an ordinary user: one id, no privileges, nothing less confined.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use coracle_core::image::Silent;
use coracle_images::Store;
use coracle_images::testing::{Compression, Image, Layer, Registry};
use tar::EntryType;

use crate::workshop::{config, reference};

const STORE: &str = "CORACLE_TEST_ROOTLESS_STORE";
const IMAGE: &str = "CORACLE_TEST_ROOTLESS_IMAGE";
const NOBODY: u32 = 65_534;

/// The ordinary user's process. In a run of all tests it does nothing.
#[test]
fn an_ordinary_user_pulls() {
    let (Ok(path), Ok(image)) = (std::env::var(STORE), std::env::var(IMAGE)) else { return };
    let store = Store::new(config(Path::new(&path), Default::default()));

    store.pull(&reference(&image), &Silent).unwrap_or_else(|error| panic!("{}", error.chain()));

    let layers = store.find(&reference(&image)).expect("the store can be read").expect("it is here").layers;
    for name in ["closed", "given", "link"] {
        assert_eq!(fs::symlink_metadata(layers[0].join(name)).expect("it is there").uid(), NOBODY, "{name}");
    }
    assert_eq!(fs::metadata(layers[0].join("closed")).expect("it is there").mode() & 0o7777, 0);
    assert!(fs::symlink_metadata(layers[1].join("given")).expect("it is there").rdev() == 0);
    let removed =
        store.remove(&image, &|| Ok(Default::default())).unwrap_or_else(|error| panic!("{}", error.chain()));
    assert_eq!(removed.layers, 2);
}

#[test]
fn an_ordinary_user_gets_an_image_too() {
    let registry = Registry::start();
    let given = |header: &mut tar::Header| header.set_uid(33);
    let bottom = Layer::new()
        .entry("./", EntryType::Directory, |header| header.set_mode(0o555), b"")
        .entry("given", EntryType::Regular, given, b"x")
        .directory("closed/", 0o000)
        .file("closed/inside", 0o400, b"x")
        .symlink("link", "given");
    let top = Layer::new().whiteout("given").file("closed/.wh..wh..opq", 0o644, b"");
    let image = Image::new(&[(bottom, Compression::Gzip), (top, Compression::Gzip)]);
    let name = registry.push("a:1", &image);
    let place = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir();
    let place = place.expect("a temporary directory can be made");
    // Other users may not be able to reach the directory that tests are built in.
    let program = place.path().join("tests");
    let own = std::env::current_exe().expect("tests know where they are");
    // Copied by another process: if this one had the file open for writing, a child could inherit it, and the
    // kernel would refuse to execute it.
    let copied = Command::new("cp").arg(own).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()), "there is space");
    let home = place.path().join("home");
    fs::create_dir(&home).expect("the directory is ours");
    std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).expect("tests are root");

    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["--exact", "rootless::an_ordinary_user_pulls"])
        .env(STORE, home.join("images"))
        .env(IMAGE, &name)
        .output()
        .expect("util-linux is there");

    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
