//! How long pulled images and layers stay.

use coracle_images::testing::{Image, Layer};
use coracle_tests::{Home, requires};

use crate::workshop::{busybox_layer, registry};

fn layers(home: &Home) -> usize {
    std::fs::read_dir(home.path().join("images/layers")).map_or(0, Iterator::count)
}

#[test]
fn an_image_a_sandbox_is_made_from_outlives_its_name() {
    requires!(images);
    let home = Home::new();
    let reference = registry().push("kept:test", &Image::single(busybox_layer()));
    let sandbox = home.open_with(&["--image", &reference]);

    home.call(["image", "remove", &reference]).succeed();

    assert_eq!(home.exec(&sandbox, ["echo", "still here"]).succeed().text(), "still here\n");
    home.call(["gc"]).succeed();
    assert_eq!(home.exec(&sandbox, ["echo", "still here"]).succeed().text(), "still here\n");
    home.call(["close", &sandbox]).succeed();
    home.call(["gc"]).succeed();
    assert_eq!(layers(&home), 0);
}

#[test]
fn a_sandbox_stays_what_it_was_made_from_when_the_name_moves_on() {
    requires!(images);
    let home = Home::new();
    let versions = ["first", "second"]
        .map(|text| Image::single(busybox_layer().file("version", 0o644, text.as_bytes())));
    let reference = registry().push("moving:test", &versions[0]);
    let sandbox = home.open_with(&["--image", &reference]);

    registry().push("moving:test", &versions[1]);
    home.call(["image", "pull", &reference]).succeed();

    assert_eq!(home.exec(&sandbox, ["cat", "/version"]).succeed().text(), "first");
    let shown = home.call(["show", &sandbox, "--json"]).succeed().json();
    assert_eq!(shown["image_digest"], versions[0].digest(), "{shown}");
    assert_eq!(home.call(["run", "--image", &reference, "--", "cat", "/version"]).succeed().text(), "second");
}

#[test]
fn layers_two_images_share_are_there_once() {
    requires!(images);
    let home = Home::new();
    for name in ["one", "two"] {
        let own = Layer::new().file("name", 0o644, name.as_bytes());
        let image = Image::new(&[(busybox_layer(), Default::default()), (own, Default::default())]);
        let reference = registry().push(&format!("shared-{name}:test"), &image);
        home.call(["image", "pull", &reference]).succeed();
    }

    assert_eq!(layers(&home), 3);

    let one = format!("{}/shared-one:test", registry().host());
    home.call(["image", "remove", &one]).succeed();
    assert_eq!(layers(&home), 2);
}
