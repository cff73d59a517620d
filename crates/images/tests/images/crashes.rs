//! Processes that die while they pull an image. Whatever they leave, the next one succeeds, and nothing incomplete
//! is visible.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coracle_core::image::Silent;
use coracle_images::testing::{Compression, Image, Layer, Registry};
use coracle_images::{CRASH_POINTS, Store};

use crate::workshop::{Workshop, config, count, reference};

/// Set for the process that has to die: the store, the image, and where.
const STORE: &str = "CORACLE_TEST_STORE";
const IMAGE: &str = "CORACLE_TEST_IMAGE";
const POINT: &str = "CORACLE_TEST_POINT";

/// The other process. In a run of all tests it does nothing.
#[test]
fn a_process_pulls_and_may_die() {
    let (Ok(store), Ok(image)) = (std::env::var(STORE), std::env::var(IMAGE)) else { return };
    let mut config = config(Path::new(&store), Default::default());
    config.crash = |point| {
        if std::env::var(POINT).is_ok_and(|wanted| wanted == point) {
            let _ = coracle_sys::rustix::process::kill_process(
                coracle_sys::rustix::process::getpid(),
                coracle_sys::rustix::process::Signal::KILL,
            );
        }
    };
    let store = Store::new(config);
    store.pull(&reference(&image), &Silent).expect("it is there");
    store.remove(&image, &|| Ok(Default::default())).expect("it is here");
}

fn start(store: &Path, image: &str, point: &str) -> Child {
    Command::new(std::env::current_exe().expect("tests know where they are"))
        .args(["--exact", "crashes::a_process_pulls_and_may_die"])
        .env(STORE, store)
        .env(IMAGE, image)
        .env(POINT, point)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("tests can be run")
}

fn image() -> Image {
    let files = (0..200).fold(Layer::new(), |layer, index| {
        layer.file(&format!("d{}/f{index}", index % 7), 0o644, &vec![index as u8; 2000])
    });
    Image::new(&[(files, Compression::Gzip), (Layer::new().file("top", 0o644, b"top"), Compression::Zstd)])
}

/// Checks that everything visible is complete, and that the image can be pulled.
fn is_sound(workshop: &Workshop, name: &str) {
    let seen = workshop.store.find(&reference(name)).expect("the store can be read");
    for image in seen.into_iter().chain(pulled(workshop, name)) {
        let files = walk(&image.layers[0]);
        assert_eq!(files, 207, "a layer is not whole");
        assert_eq!(std::fs::read(image.layers[1].join("top")).expect("it is there"), b"top");
    }
    // A child that the dead process had just forked may hold its lock a moment longer; the next pull cleans up
    // then.
    let is_tidy = || ["drafts", "partial"].iter().all(|name| count(&workshop.path().join(name)) == 0);
    assert!((0..100).any(|_| is_tidy() || pulled(workshop, name).is_none()), "something was left behind");
}

fn pulled(workshop: &Workshop, name: &str) -> Option<coracle_images::Image> {
    workshop.store.pull(&reference(name), &Silent).expect("it is there");
    workshop.store.find(&reference(name)).expect("the store can be read")
}

fn walk(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).expect("it is a directory").flatten();
    entries.map(|entry| if entry.path().is_dir() { 1 + walk(&entry.path()) } else { 1 }).sum()
}

#[test]
fn a_death_at_any_point_leaves_nothing_half() {
    let registry = Registry::start();
    let name = registry.push("a:1", &image());
    // Loading an archive dies at the same points, but for one.
    for point in CRASH_POINTS.iter().filter(|point| !point.starts_with("images.load")) {
        let workshop = Workshop::new();

        let status = start(&workshop.path(), &name, point).wait().expect("it was started");

        assert_eq!(status.signal(), Some(9), "{point} was not come by");
        is_sound(&workshop, &name);
    }
}

#[test]
fn a_death_at_any_time_leaves_nothing_half() {
    let registry = Registry::start();
    let name = registry.push("a:1", &image());
    let rounds: u64 = if std::env::var_os("CORACLE_FULL").is_some() { 200 } else { 12 };
    let workshop = Workshop::new();
    for round in 0..rounds {
        let mut child = start(&workshop.path(), &name, "none");
        // Only the time of death is random here: somewhere within the time a pull takes.
        std::thread::sleep(Duration::from_millis(5 + round * 37 % 150));
        let _ = child.kill();
        child.wait().expect("it was started");

        is_sound(&workshop, &name);
        workshop.store.remove(&name, &|| Ok(Default::default())).expect("it is here");
    }
}

#[test]
fn processes_that_want_the_same_all_get_it() {
    let registry = Registry::start();
    let name = registry.push("a:1", &image());
    let workshop = Workshop::new();
    workshop.store.hold().expect("the store can be made");

    let mut children: Vec<Child> = (0..4).map(|_| start(&workshop.path(), &name, "none")).collect();
    let statuses: Vec<_> = children.iter_mut().map(|child| child.wait().expect("it was started")).collect();

    // Each removes the name in the end, or finds it gone if another process was first.
    assert!(statuses.iter().any(|status| status.success()));
    is_sound(&workshop, &name);
}
