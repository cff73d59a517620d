//! Images with next to nothing in them.

use coracle_images::testing::{Image, Layer};
use coracle_tests::{Home, requires};
use serde_json::json;

use crate::workshop::{busybox, busybox_layer, registry};

#[test]
fn busybox_is_enough() {
    requires!(images);
    for home in [Home::new(), Home::ordinary()] {
        let reference = registry().push("busybox:test", &Image::single(busybox_layer()));

        let script = "echo $((6*7)); touch /tmp/a; id -u; pwd";
        let ran = home
            .call(["run", "--image", &reference, "--workdir", "/tmp", "--", "sh", "-c", script])
            .succeed();

        assert_eq!(ran.text(), "42\n0\n/tmp\n");
    }
}

#[test]
fn an_image_from_scratch_runs_its_one_program_and_says_clearly_that_it_has_no_shell() {
    requires!(images);
    let home = Home::new();
    let image = Image::single(Layer::new().file("echo", 0o755, &busybox())).configured(|config| {
        config["config"] = json!({"Entrypoint": ["/echo", "by default"]});
    });
    let reference = registry().push("scratch:test", &image);

    assert_eq!(home.call(["run", "--image", &reference, "--", "/echo", "hello"]).succeed().text(), "hello\n");
    assert_eq!(home.call(["run", "--image", &reference]).succeed().text(), "by default\n");
    let sandbox = home.open_with(&["--image", &reference]);
    home.call(["fs", "write", &sandbox, "note"]).stdin("kept").succeed();
    assert_eq!(home.call(["fs", "read", &sandbox, "note"]).succeed().text(), "kept");
    let missing = home.exec(&sandbox, ["sh", "-c", "true"]).run().expect_code(127);
    assert!(missing.stderr.contains("`sh`") && missing.stderr.contains("scratch:test"), "{missing}");
}

#[test]
fn layers_lie_over_each_other_and_hide_what_they_remove() {
    requires!(images);
    let home = Home::new();
    let below = busybox_layer()
        .directory("data", 0o755)
        .file("data/kept", 0o644, b"kept\n")
        .file("data/removed", 0o644, b"removed\n")
        .directory("data/emptied", 0o755)
        .file("data/emptied/old", 0o644, b"old\n");
    let above = Layer::new()
        .whiteout("data/removed")
        .file("data/emptied/.wh..wh..opq", 0o644, b"")
        .file("data/emptied/new", 0o644, b"new\n")
        .hard_link("data/emptied/linked", "data/emptied/new");
    let image = Image::new(&[(below, Default::default()), (above, Default::default())]);
    let reference = registry().push("layers:test", &image);

    let script = "cd /data && ls && ls emptied && cat emptied/linked";
    let seen = home.call(["run", "--image", &reference, "--", "sh", "-c", script]).succeed();

    assert_eq!(seen.text(), "emptied\nkept\nlinked\nnew\nnew\n");
}

#[test]
fn more_layers_than_fit_into_one_option_work() {
    requires!(images);
    let home = Home::new();
    let numbered = (0..100).map(|number| Layer::new().file(&format!("layer-{number:03}"), 0o644, b"x"));
    let layers: Vec<_> =
        [busybox_layer()].into_iter().chain(numbered).map(|layer| (layer, Default::default())).collect();
    let reference = registry().push("many:test", &Image::new(&layers));

    let seen = home.call(["run", "--image", &reference, "--", "sh", "-c", "echo /layer-*"]).succeed();

    assert_eq!(seen.text().split_whitespace().count(), 100);
}
