//! What an image says of itself is data: honoured, and never a reason to allow anything.

use coracle_images::testing::{Image, Layer};
use coracle_tests::{Home, requires};
use serde_json::json;

use crate::workshop::{busybox_layer, registry};

fn passwd_layer() -> Layer {
    busybox_layer()
        .directory("etc", 0o755)
        .file("etc/passwd", 0o644, b"root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n")
        .file("etc/group", 0o644, b"root:x:0:\nada:x:1000:\n")
}

#[test]
fn environment_directory_and_user_of_the_image_are_where_commands_begin() {
    requires!(images);
    let home = Home::new();
    let image = Image::single(passwd_layer()).configured(|config| {
        config["config"] = json!({"Env": ["PATH=/bin", "COLOUR=blue", "SHAPE=round"], "WorkingDir": "/srv/app", "User": "ada"});
    });
    let reference = registry().push("config:test", &image);
    let script = "echo $COLOUR $SHAPE; pwd; id -un; touch /workspace/mine && echo writable";

    let ran =
        home.call(["run", "--image", &reference, "-e", "SHAPE=square", "--", "sh", "-c", script]).succeed();
    assert_eq!(ran.text(), "blue square\n/srv/app\nada\nwritable\n");

    let chosen = home
        .call([
            "run",
            "--image",
            &reference,
            "--user",
            "root",
            "--cwd",
            "/tmp",
            "--",
            "sh",
            "-c",
            "id -un; pwd",
        ])
        .succeed();
    assert_eq!(chosen.text(), "root\n/tmp\n");
}

#[test]
fn what_an_image_demands_gives_it_nothing() {
    requires!(images);
    let home = Home::new();
    let image = Image::single(passwd_layer()).configured(|config| {
        config["config"] = json!({
            "Env": ["LD_PRELOAD=/evil.so", "CORACLE_HOME=/elsewhere"],
            "WorkingDir": "/proc/self/fd/7",
            "User": "65535",
            "Volumes": {"/../../host": {}, "/proc": {}},
            "Labels": {"coracle.instance": "ins_other", "coracle.sandbox": "sbx_other"},
            "Healthcheck": {"Test": ["CMD", "/evil"]},
            "OnBuild": ["RUN /evil"],
        });
    });
    let reference = registry().push("demanding:test", &image);

    // The guest's own user cannot be had by asking for it in an image either.
    home.call(["run", "--image", &reference, "--", "true"]).run().expect_code(125);
    let seen = home
        .call([
            "run",
            "--image",
            &reference,
            "--user",
            "0",
            "--cwd",
            "/",
            "--",
            "sh",
            "-c",
            "ls -d /host; ls /proc/self/fd",
        ])
        .run();
    assert!(!seen.text().contains("/host"), "{seen}");
    let shown = home.call(["ps", "--json", "--all"]).run();
    assert!(!shown.text().contains("sbx_other"), "{shown}");
}

#[test]
fn only_images_on_the_operators_list_are_used() {
    requires!(images);
    let home = Home::new();
    let reference = registry().push("listed:test", &Image::single(busybox_layer()));
    let allowed = reference.rsplit_once(':').expect("it has a tag").0;
    let settings = format!("[images]\nallow = [\"{allowed}\"]\n");
    std::fs::write(home.path().join("config.toml"), settings).expect("a home can be written");

    home.call(["run", "--image", &reference, "--", "true"]).succeed();

    for refused in ["host", "docker.io/library/python:3", &reference.replace("listed", "unlisted")] {
        let error = home.call(["run", "--image", refused, "--json", "--", "true"]).run().error();
        assert_eq!(error["kind"], "image_not_allowed", "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains(allowed)), "{error}");
    }
    let error = home.call(["image", "pull", "docker.io/library/python:3", "--json"]).run().error();
    assert_eq!(error["kind"], "image_not_allowed", "{error}");
}

#[test]
fn a_language_means_the_image_the_operator_chose_for_it() {
    requires!(images);
    let home = Home::new();
    // A python that says what it was given to run.
    let layer = busybox_layer().file("bin/python3", 0o755, b"#!/bin/sh\necho ours && cat $1\n");
    let reference = registry().push("python:test", &Image::single(layer));
    std::fs::write(home.path().join("config.toml"), format!("[runtimes]\npython = \"{reference}\"\n"))
        .expect("a home can be written");

    let ran = home.call(["run", "--runtime", "python", "-c", "print(1)"]).succeed();

    assert_eq!(ran.text(), "ours\nprint(1)");
    assert_eq!(home.call(["run", "--runtime", "bash", "-c", "echo host"]).succeed().text(), "host\n");
}
