//! Pulls that go wrong: killed, refused, cut off. No partial layer is ever seen.

use std::time::Duration;

use coracle_images::testing::{Compression, Image, Layer};
use coracle_tests::{Home, count, requires};

use crate::workshop::{busybox_layer, registry};

/// Three layers with enough in them that a kill meets them half done.
fn large() -> Image {
    let filler = |name: &str| {
        (0..40).fold(Layer::new().directory(name, 0o755), |layer, number| {
            layer.file(&format!("{name}/{number}"), 0o644, &vec![number as u8; 256 << 10])
        })
    };
    let layers = [busybox_layer(), filler("a"), filler("b")].map(|layer| (layer, Compression::None));
    Image::new(&layers)
}

/// Counts the files of both fillers: all of them, if the layers are whole.
fn expect_whole(home: &Home, reference: &str) {
    let count = "set -- /a/* /b/*; echo $#";
    let seen = home.call(["run", "--image", reference, "--", "sh", "-c", count]).succeed();
    assert_eq!(seen.text(), "80\n");
}

#[test]
fn a_pull_killed_at_random_leaves_nothing_half_done_that_can_be_seen() {
    requires!(images);
    let reference = registry().push("large:random", &large());
    let mut survived = 0;
    for round in 0..count(6, 300) {
        let home = Home::new();
        let pull = home.call(["image", "pull", &reference]).start();
        std::thread::sleep(Duration::from_millis(7 * (round as u64 % 40)));
        survived += usize::from(!pull.kill().was_killed());

        let listed = home.call(["image", "list", "--json"]).succeed().json();
        let known = listed.to_string().contains("large:random");
        if known {
            expect_whole(&home, &reference);
        }
        home.call(["image", "pull", &reference]).succeed();
        expect_whole(&home, &reference);
        home.call(["gc"]).succeed();
        for left in ["images/drafts", "images/partial"] {
            let entries = std::fs::read_dir(home.path().join(left)).map_or(0, Iterator::count);
            assert_eq!(entries, 0, "{left} is not empty");
        }
    }
    assert!(survived < count(6, 300), "no pull was ever killed in the middle");
}

#[test]
fn a_pull_killed_at_each_named_point_can_be_repeated() {
    requires!(images);
    let reference = registry().push("large:points", &large());
    let points = coracle_images::CRASH_POINTS.iter().filter(|point| point.starts_with("images.pull"));
    for point in points {
        let home = Home::new();
        let killed = home.call(["image", "pull", &reference]).env("CORACLE_CRASH_AT", point).run();
        assert!(killed.was_killed(), "{point} was not reached: {killed}");

        home.call(["image", "pull", &reference]).succeed();

        expect_whole(&home, &reference);
    }
}

#[test]
fn many_who_want_the_same_image_at_once_all_get_it() {
    requires!(images);
    let home = Home::new();
    let reference = registry().push("large:many", &large());
    let runs: Vec<_> =
        (0..6).map(|_| home.call(["run", "--image", &reference, "--", "echo", "ran"]).start()).collect();

    for run in runs {
        assert_eq!(run.finish().expect_code(0).text(), "ran\n");
    }
}

#[test]
fn what_is_not_there_is_said_by_type() {
    requires!(images);
    let home = Home::new();
    let unknown = format!("{}/nothing:here", registry().host());

    let error = home.call(["run", "--image", &unknown, "--json", "--", "true"]).run().error();
    assert_eq!(error["kind"], "image_not_found", "{error}");
    assert!(error["hint"].is_string(), "{error}");

    // Nothing listens on port 9 of this machine.
    let error = home.call(["image", "pull", "localhost:9/x:y", "--json"]).run().error();
    assert_eq!(error["kind"], "not_available", "{error}");
    let error = home.call(["image", "pull", "--json", "--", "--flag"]).run().error();
    assert_eq!(error["kind"], "invalid", "{error}");
    home.expect_no_orphans();
}

#[test]
fn an_archive_of_either_kind_is_loaded_and_one_of_neither_is_refused() {
    requires!(images);
    let home = Home::new();
    let image = Image::single(busybox_layer());
    let directory = tempfile::tempdir().expect("a directory can be made");
    let archives = [
        ("saved", image.docker_save(&["example.com/saved:1"]), "example.com/saved:1"),
        (
            "layout",
            image
                .oci_layout(serde_json::json!({"org.opencontainers.image.ref.name": "example.com/layout:1"})),
            "example.com/layout:1",
        ),
    ];
    for (name, bytes, reference) in archives {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).expect("a file can be written");

        let loaded = home.call(["image", "load", path.to_str().expect("text")]).succeed();

        assert!(loaded.text().contains(reference), "{loaded}");
        let ran = home.call(["run", "--image", reference, "--", "echo", "loaded"]).succeed();
        assert_eq!(ran.text(), "loaded\n");
    }
    let bomb = directory.path().join("bomb");
    std::fs::write(&bomb, Compression::Gzip.pack(&vec![0; 256 << 20])).expect("a file can be written");
    let error = home.call(["image", "load", bomb.to_str().expect("text"), "--json"]).run().error();
    assert_eq!(error["kind"], "limit_exceeded", "{error}");
    // Through a pipe the same holds, and what is no archive is not kept while it comes, however much that is.
    let piped = |bytes: Vec<u8>| {
        let load = home.call(["image", "load", "-", "--json"]).stdin(bytes);
        load.within(Duration::from_secs(60)).run()
    };
    let bytes = std::fs::read(&bomb).expect("it was written");
    assert_eq!(piped(bytes).error()["kind"], "limit_exceeded");
    let endless = home
        .call(["image", "load", "-", "--json"])
        .through(["sh", "-c", "yes | \"$@\"", "sh"])
        .within(Duration::from_secs(60))
        .run();
    assert_eq!(endless.error()["kind"], "invalid");
    let saved = std::fs::read(directory.path().join("saved")).expect("it was written");
    let packed = Compression::Gzip.pack(&saved);
    for bytes in [saved, packed] {
        assert_eq!(piped(bytes).expect_code(0).json()["images"][0]["reference"], "example.com/saved:1");
    }
    let nonsense = directory.path().join("nonsense");
    std::fs::write(&nonsense, vec![7; 4096]).expect("a file can be written");
    let error = home.call(["image", "load", nonsense.to_str().expect("text"), "--json"]).run().error();
    assert_eq!(error["kind"], "invalid", "{error}");
}
