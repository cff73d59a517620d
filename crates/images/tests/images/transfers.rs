//! Layers in transfer: interrupted, repeated, pulled by several processes at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use coracle_core::Kind;
use coracle_core::image::{Silent, Step};
use coracle_images::testing::{Compression, Image, Layer, Registry};
use coracle_images::{Pace, Registries, Store};

use crate::server::{Answer, Server, proxy, registry_of};
use crate::workshop::{Diary, Workshop, config, count, reference};

/// Random data, which does not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    })
    .take(length)
    .collect()
}

#[test]
fn an_interrupted_transfer_goes_on_where_it_was() {
    let registry = Registry::start();
    let image = Image::single(Layer::new().file("noise", 0o644, &noise(400_000)));
    registry.push("a:1", &image);
    let digest = image.layers[0].digest.clone();
    let (pass, blob) = (proxy(registry.host()), digest.clone());
    let count_blobs = AtomicUsize::new(0);
    let server = Server::start(move |asked| match asked.path.contains(&blob) {
        // The first answer breaks off, and then nothing more comes until the test has looked.
        true => match count_blobs.fetch_add(1, Ordering::SeqCst) {
            0 => pass(asked).cut(150_000),
            1..=4 => Answer::new(404),
            _ => pass(asked),
        },
        false => pass(asked),
    });
    let workshop = Workshop::new();
    let name = reference(&format!("{}/a:1", server.host()));

    let error = workshop.store.pull(&name, &Silent).expect_err("it broke off");
    assert_eq!(error.kind, Kind::ImageNotFound);
    let parts = std::fs::read_dir(workshop.path().join("partial")).expect("parts are kept").flatten();
    let lengths: Vec<u64> = parts.map(|part| part.metadata().expect("a part is here").len()).collect();
    assert_eq!(lengths, [150_000]);
    // Three more attempts that get nothing, then the rest.
    for _ in 0..3 {
        workshop.store.pull(&name, &Silent).expect_err("nothing comes");
    }
    let diary = Diary::default();
    workshop.store.pull(&name, &diary).expect("the rest comes");

    let last = server.asked_for(&digest).pop().expect("it was asked");
    assert_eq!(last.headers.get("range").map(String::as_str), Some("bytes=150000-"));
    let first_done = diary.steps().into_iter().find_map(|step| match step {
        Step::Layer { done, .. } if done > 0 => Some(done),
        _ => None,
    });
    assert_eq!(first_done, Some(150_000));
    assert_eq!(count(&workshop.path().join("partial")), 0);
}

#[test]
fn a_connection_that_is_lost_is_made_again_within_one_pull() {
    let registry = Registry::start();
    let image = Image::single(Layer::new().file("noise", 0o644, &noise(300_000)));
    registry.push("a:1", &image);
    let (pass, blob) = (proxy(registry.host()), image.layers[0].digest.clone());
    let server = Server::start(move |asked| match asked.path.contains(&blob) {
        true => pass(asked).cut(70_000),
        false => pass(asked),
    });

    let pulled = Workshop::new().store.pull(&reference(&format!("{}/a:1", server.host())), &Silent);

    assert!(pulled.is_ok());
    assert_eq!(server.asked_for(&image.layers[0].digest).len(), 5);
}

#[test]
fn a_registry_that_cannot_go_on_begins_again() {
    let image = Image::single(Layer::new().file("noise", 0o644, &noise(200_000)));
    let registry = Registry::start();
    registry.push("a:1", &image);
    let (pass, blob) = (proxy(registry.host()), image.layers[0].digest.clone());
    let count = AtomicUsize::new(0);
    let server = Server::start(move |asked| {
        let mut asked = asked.clone();
        asked.headers.remove("range");
        match asked.path.contains(&blob) && count.fetch_add(1, Ordering::SeqCst) == 0 {
            true => pass(&asked).cut(100_000),
            false => pass(&asked),
        }
    });

    let pulled = Workshop::new().store.pull(&reference(&format!("{}/a:1", server.host())), &Silent);

    assert!(pulled.is_ok(), "{pulled:?}");
}

#[test]
fn a_part_that_was_damaged_here_is_brought_again() {
    let registry = Registry::start();
    let image = Image::single(Layer::new().file("noise", 0o644, &noise(50_000)));
    let name = registry.push("a:1", &image);
    let workshop = Workshop::new();
    drop(workshop.store.hold().expect("the store can be made"));
    let partial = workshop.path().join("partial").join(&image.layers[0].digest["sha256:".len()..]);
    std::fs::write(partial, [0; 20_000]).expect("the store is ours");

    let pulled = workshop.store.pull(&reference(&name), &Silent);

    assert!(pulled.is_ok(), "{pulled:?}");
}

#[test]
fn of_many_pulls_of_one_image_one_is_kept() {
    let registry = Registry::start();
    let image = Image::new(&[
        (Layer::new().file("noise", 0o644, &noise(500_000)), Compression::Gzip),
        (Layer::new().file("more", 0o644, &noise(300_000)), Compression::Zstd),
    ]);
    registry.push("a:1", &image);
    let server = Server::start(proxy(registry.host()));
    let workshop = Workshop::new();
    let name = reference(&format!("{}/a:1", server.host()));
    let barrier = Arc::new(Barrier::new(6));

    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                // A store of its own, as another process has.
                let store = Store::new(config(&workshop.path(), Default::default()));
                barrier.wait();
                store.pull(&name, &Silent).expect("it is there");
            });
        }
    });

    assert_eq!(count(&workshop.path().join("layers")), 2);
    for empty in ["drafts", "partial"] {
        assert_eq!(count(&workshop.path().join(empty)), 0, "{empty}");
    }
}

#[test]
fn a_slow_registry_keeps_no_other_puller_waiting() {
    let image = Image::single(Layer::new().file("noise", 0o644, &noise(200_000)));
    let blob = image.layers[0].digest.clone();
    let (honest, dripped) = (registry_of(&image), blob.clone());
    let slow = Server::start(move |asked| match asked.path.contains(&dripped) {
        true => honest(asked).drip(1000),
        false => honest(asked),
    });
    let good = Server::start(registry_of(&image));
    let workshop = Workshop::new();
    let pull = |server: &Server| {
        // A store of its own, as another process has.
        let store = Store::new(config(&workshop.path(), Default::default()));
        store.pull(&reference(&format!("{}/a:1", server.host())), &Silent)
    };

    std::thread::scope(|scope| {
        let hostage = scope.spawn(|| pull(&slow));
        while count(&workshop.path().join("partial")) == 0 {
            std::thread::yield_now();
        }

        // At twenty bytes a second the slow pull would take hours.
        pull(&good).expect("another registry has it");

        // It has no reason to go on: the layer is complete.
        hostage.join().expect("it does not panic").expect("the layer is here");
    });
    assert_eq!(good.asked_for(&blob).len(), 1);
    assert_eq!(count(&workshop.path().join("partial")), 0);
}

#[test]
fn a_blob_has_one_deadline_however_often_it_is_connected_anew() {
    let image = Image::single(Layer::new().file("noise", 0o644, &noise(200_000)));
    let (honest, blob) = (registry_of(&image), image.layers[0].digest.clone());
    let server = Server::start(move |asked| match asked.path.contains(&blob) {
        true => honest(asked).cut(1),
        false => honest(asked),
    });
    let pace = Pace { grace: Duration::from_millis(500), slowest: 1 << 20 };
    let workshop = Workshop::with(Registries { pace, ..Registries::default() });

    let error = workshop.refusal(&format!("{}/a:1", server.host()));

    assert_eq!(error.kind, Kind::NotAvailable, "{}", error.chain());
    assert!(error.chain().contains("took too long"), "{}", error.chain());
}

#[test]
fn a_deadline_ends_a_transfer_that_drips() {
    let image = Image::single(Layer::new().file("noise", 0o644, &noise(20_000)));
    let (honest, blob) = (registry_of(&image), image.layers[0].digest.clone());
    let server = Server::start(move |asked| match asked.path.contains(&blob) {
        true => honest(asked).drip(1),
        false => honest(asked),
    });
    let pace = Pace { grace: Duration::from_millis(500), slowest: 1 << 20 };
    let workshop = Workshop::with(Registries { pace, ..Registries::default() });
    let began = Instant::now();

    let error = workshop.refusal(&format!("{}/a:1", server.host()));

    assert_eq!(error.kind, Kind::NotAvailable, "{}", error.chain());
    assert!(error.chain().contains("took too long"), "{}", error.chain());
    // Without a deadline for the whole transfer it would end after two minutes.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn the_longest_part_of_dead_pullers_is_gone_on_with() {
    let image = Image::single(Layer::new().file("noise", 0o644, &noise(100_000)));
    let blob = image.layers[0].clone();
    let server = Server::start(registry_of(&image));
    let workshop = Workshop::new();
    drop(workshop.store.hold().expect("the store can be made"));
    let hex = &blob.digest["sha256:".len()..];
    for (name, length) in
        [(format!("{hex}.1-0"), 10_000), (format!("{hex}.2-0"), 30_000), (hex.into(), 20_000)]
    {
        let path = workshop.path().join("partial").join(name);
        std::fs::write(path, &blob.bytes[..length]).expect("the store is ours");
    }

    workshop.store.pull(&reference(&format!("{}/a:1", server.host())), &Silent).expect("the rest comes");

    let asked = server.asked_for(&blob.digest).pop().expect("it was asked");
    assert_eq!(asked.headers.get("range").map(String::as_str), Some("bytes=30000-"));
    assert_eq!(count(&workshop.path().join("partial")), 0);
}

#[test]
fn images_share_the_layers_they_have_in_common() {
    let registry = Registry::start();
    let shared = Layer::new().file("base", 0o644, b"base");
    let image = |own: &str| {
        let own = Layer::new().file(own, 0o644, own.as_bytes());
        Image::new(&[(shared.clone(), Compression::Gzip), (own, Compression::Gzip)])
    };
    let (one, two) = (registry.push("one:1", &image("one")), registry.push("two:1", &image("two")));
    let workshop = Workshop::new();

    for name in [&one, &two] {
        workshop.store.pull(&reference(name), &Silent).expect("it is there");
    }

    assert_eq!(workshop.image(&one).layers[0], workshop.image(&two).layers[0]);
    assert_eq!(count(&workshop.path().join("layers")), 3);
    let listed = workshop.store.list().expect("the store can be read");
    assert_eq!(listed.iter().map(|stored| stored.reference.clone()).collect::<Vec<_>>(), [one, two]);
}
