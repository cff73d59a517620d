//! Pulling images from a real registry.

use std::fs;

use coracle_core::image::{Phase, Silent, Step};
use coracle_images::testing::{Compression, Image, Layer, Registry};

use crate::workshop::{Diary, Workshop, reference};

#[test]
fn an_image_is_pulled_and_found_with_its_files() {
    let registry = Registry::start();
    let workshop = Workshop::new();
    let busybox = fs::read("/usr/bin/busybox").expect("Debian's package `busybox-static` is installed");
    let image = Image::new(&[
        (Layer::new().directory("bin/", 0o755).file("bin/busybox", 0o755, &busybox), Compression::Gzip),
        (Layer::new().symlink("bin/sh", "busybox"), Compression::Zstd),
        (Layer::new().file("srv/greeting", 0o640, b"hello"), Compression::None),
    ]);
    let name = registry.push("tools/busybox:1", &image);
    let diary = Diary::default();

    let stored = workshop.store.pull(&reference(&name), &diary).expect("it is there");

    assert_eq!((stored.digest.as_str(), stored.layers), (image.digest().as_str(), 3));
    let found = workshop.image(&name);
    assert_eq!(fs::read(found.layers[0].join("bin/busybox")).expect("it is there"), busybox);
    assert_eq!(fs::read_link(found.layers[1].join("bin/sh")).expect("it is there").to_str(), Some("busybox"));
    assert_eq!(found.env[1], ("GREETING".to_owned(), "hello".to_owned()));
    assert_eq!(found.config.workdir.as_deref(), Some("/srv"));
    assert!(matches!(diary.steps().first(), Some(Step::Resolved { layers: 3, .. })));
    assert!(matches!(diary.steps().last(), Some(Step::Finished { .. })));
}

#[test]
fn what_is_here_is_not_brought_again() {
    let registry = Registry::start();
    let workshop = Workshop::new();
    let name = registry.push("a:1", &Image::single(Layer::new().file("a", 0o644, b"a")));
    workshop.store.pull(&reference(&name), &Silent).expect("it is there");
    let diary = Diary::default();

    workshop.store.pull(&reference(&name), &diary).expect("it is there");

    let phases: Vec<Phase> = diary
        .steps()
        .iter()
        .filter_map(|step| match step {
            Step::Layer { phase, .. } => Some(*phase),
            _ => None,
        })
        .collect();
    assert_eq!(phases, [Phase::Present]);
}
